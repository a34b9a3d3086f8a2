"""Grants as JWS compact: `alg` EdDSA, `typ` `exec-grant+jwt`, nothing else. Pure.

The header is compared with the only one we write, before any key is looked at: `none`, HS256,
`crit`, `b64`, embedded keys and foreign types cannot get further.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from approvals import schema
from approvals.encodings import b64url, unb64url
from approvals.refusals import SignatureRefused
from operations.canonical import canonicalize

TYPE: Final = "exec-grant+jwt"
ALGORITHM: Final = "EdDSA"
MAX_LENGTH: Final = 16 * 1024

CLAIMS: Final[schema.Shape] = {
    "iss": schema.name,
    "sub": schema.name,
    "aud": schema.name,
    "jti": schema.name,
    "iat": schema.count,
    "nbf": schema.count,
    "exp": schema.count,
    "approval": schema.name,
    "claim_id": schema.name,
    "environment": schema.one_of("live", "test"),
    "namespace": schema.name,
    "tool": schema.name,
    "args_sha256": schema.hex64,
    "decisions": schema.list_of(schema.digest),
    "policy_sha256": schema.hex64,
    "epoch": schema.count,
}


def sign(claims: Mapping[str, Any], key_id: str, signer: Callable[[bytes], bytes]) -> str:
    """The compact form; raises where the claims are not of the closed shape."""
    schema.check(dict(claims), CLAIMS)
    header = {"alg": ALGORITHM, "kid": key_id, "typ": TYPE}
    body = f"{b64url(canonicalize(header))}.{b64url(canonicalize(dict(claims)))}"
    return f"{body}.{b64url(signer(body.encode()))}"


def verify(token: str, keys: Mapping[str, Ed25519PublicKey]) -> dict[str, Any]:
    """The claims of a token that one of these keys signed. Times and audience are the caller's.

    1 three parts of bounded length, 2 exactly our header, 3 a known key, 4 the signature,
    5 closed claims.
    """
    parts = token.split(".") if len(token) <= MAX_LENGTH else []
    if len(parts) != 3:
        raise SignatureRefused("encoding", "this is no compact JWS")
    header = _json(parts[0])
    if set(header) != {"alg", "kid", "typ"}:
        raise SignatureRefused("header", "the header has missing or unknown members")
    if header["alg"] != ALGORITHM or header["typ"] != TYPE:
        raise SignatureRefused("header", f"only {ALGORITHM} tokens of type {TYPE} are grants")
    key = keys.get(header["kid"]) if isinstance(header["kid"], str) else None
    if key is None:
        raise SignatureRefused("key.untrusted", "the key is not one of the issuer's")
    try:
        key.verify(unb64url(parts[2]), f"{parts[0]}.{parts[1]}".encode())
    except InvalidSignature:
        raise SignatureRefused("signature.invalid", "the signature does not fit") from None
    claims = _json(parts[1])
    schema.check(claims, CLAIMS)
    return claims


def _json(part: str) -> dict[str, Any]:
    try:
        value = json.loads(unb64url(part))
    except (ValueError, RecursionError):
        raise SignatureRefused("encoding", "a part of the token is not JSON") from None
    if not isinstance(value, dict):
        raise SignatureRefused("encoding", "a part of the token is no object")
    return value
