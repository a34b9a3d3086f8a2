"""WebCrypto keys: P-256 made in the browser, non-extractable, signing M itself (custody A1)."""

from cryptography.hazmat.primitives.asymmetric import ec

from approvals import keys
from approvals.keys import PublicKey
from approvals.refusals import SignatureRefused


def load_public_key(spki: bytes) -> PublicKey:
    """The key that `crypto.subtle.exportKey("spki", …)` gave; P-256 only."""
    key = keys.load_spki(spki)
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise SignatureRefused("algorithm", "a browser key must be ECDSA P-256")
    return key


def verify(key: PublicKey, message: bytes, signature: bytes) -> None:
    """`r ‖ s` over M; another length, range or message is `signature.invalid`."""
    r, s = keys.split_raw(signature)
    keys.verify_p256(key, r, s, message)
