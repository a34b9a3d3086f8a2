"""The public keys that verify grants, as a JWK set (RFC 7517, RFC 8037)."""

from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from approvals import jws, signing_keys
from approvals.encodings import b64url


def jwks() -> dict[str, Any]:
    """Every key that may have signed a grant that is still good, the newest first."""
    signing_keys.grant_signer()
    return {
        "keys": [
            {
                "kty": "OKP",
                "crv": "Ed25519",
                "use": "sig",
                "alg": jws.ALGORITHM,
                "kid": signer.key_id,
                "x": b64url(signer.public_key.public_bytes(Encoding.Raw, PublicFormat.Raw)),
            }
            for signer in reversed(signing_keys.grant_signers())
        ]
    }


def public_keys() -> dict[str, Ed25519PublicKey]:
    """The same keys, by id."""
    return {signer.key_id: signer.public_key for signer in signing_keys.grant_signers()}
