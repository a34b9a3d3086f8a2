"""Grants, checked offline: that this very call was approved, by the issuer's signature.

What no offline check can show is that a grant was not used before, or is not revoked meanwhile:
the console's claim says that, in the transaction that spends it.
"""

import base64
import binascii
import json
import re
import time
from collections.abc import Mapping
from typing import Any

from countersign import canonical
from countersign.errors import GrantRefused
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

_LONGEST = 16 * 1024
_LIVES_SECONDS = 300
_SKEW_SECONDS = 5
_TEXTS = ("iss", "sub", "aud", "jti", "approval", "claim_id", "environment", "namespace", "tool")
_WHOLES = ("iat", "nbf", "exp", "epoch")
_DIGESTS = ("args_sha256", "policy_sha256")
_HEX64 = re.compile(r"[0-9a-f]{64}")
_B64URL = re.compile(r"[A-Za-z0-9_-]+")


def verify_grant(
    token: str,
    jwks: Mapping[str, Any],
    *,
    idem_key: str,
    tool: str,
    args_fingerprint: str,
    claim_id: str | None = None,
    audience: str | None = None,
    at: float | None = None,
) -> dict[str, Any]:
    """The claims of a grant for exactly this call; raises GrantRefused naming the check it fails.

    1 three parts, bounded · 2 exactly our header · 3 a key of `jwks` · 4 the signature · 5 closed
    claims, canonical · 6 its times · 7 the call: key, tool, arguments · 8 attempt and audience,
    where they are given. `jwks` is `/.well-known/jwks.json`, kept from when you trusted it.
    """
    parts = token.split(".") if len(token) <= _LONGEST else []
    if len(parts) != 3:
        raise GrantRefused("encoding", "it is no compact JWS")
    header = _object(parts[0])
    if header.keys() != {"alg", "kid", "typ"} or (header["alg"], header["typ"]) != (
        "EdDSA",
        "exec-grant+jwt",
    ):
        raise GrantRefused("header", "its header is not that of a grant")
    key = _key(jwks, header["kid"])
    try:
        key.verify(_bytes(parts[2]), f"{parts[0]}.{parts[1]}".encode())
    except InvalidSignature:
        raise GrantRefused("signature", "its signature does not fit") from None
    claims = _object(parts[1])
    _check_shape(claims)
    _check_times(claims, time.time() if at is None else at)
    wanted = {"sub": idem_key, "tool": tool, "claim_id": claim_id, "aud": audience}
    wanted["args_sha256"] = args_fingerprint.removeprefix("jcs-sha256:")
    for name, value in wanted.items():
        if value is not None and claims[name] != value:
            raise GrantRefused(name, f"its {name} is another's")
    return claims


def _key(jwks: Mapping[str, Any], identifier: Any) -> Ed25519PublicKey:
    for key in jwks.get("keys", ()):
        if key.get("kid") == identifier and (key.get("kty"), key.get("crv")) == ("OKP", "Ed25519"):
            return Ed25519PublicKey.from_public_bytes(_bytes(key["x"]))
    raise GrantRefused("key", "its key is not one of the issuer's")


def _check_shape(claims: dict[str, Any]) -> None:
    fits = (
        claims.keys() == {*_TEXTS, *_WHOLES, *_DIGESTS, "decisions"}
        and all(isinstance(claims[name], str) and claims[name] for name in _TEXTS)
        and all(type(claims[name]) is int and claims[name] >= 0 for name in _WHOLES)
        and all(_is_digest(claims[name]) for name in _DIGESTS)
        and isinstance(claims["decisions"], list)
        and all(_is_digest(str(item).removeprefix("sha256:")) for item in claims["decisions"])
    )
    if not fits:
        raise GrantRefused("claims", "its claims have missing, unknown or misshapen members")
    if not claims["decisions"]:
        raise GrantRefused("decisions", "it names nobody's decision")


def _check_times(claims: dict[str, Any], now: float) -> None:
    if claims["exp"] - claims["iat"] > _LIVES_SECONDS:
        raise GrantRefused("exp", "it lives for longer than grants do")
    if now >= claims["exp"]:
        raise GrantRefused("exp", _clocks("it is over", now - claims["exp"]))
    if now < claims["nbf"] - _SKEW_SECONDS:
        raise GrantRefused("nbf", _clocks("it is not good yet", claims["nbf"] - now))


def _clocks(what: str, seconds: float) -> str:
    return f"{what} by {seconds:.0f} s on this machine's clock; check that it is right"


def _is_digest(value: Any) -> bool:
    return isinstance(value, str) and _HEX64.fullmatch(value) is not None


def _object(part: str) -> dict[str, Any]:
    raw = _bytes(part)
    try:
        value = json.loads(raw)
        written = canonical.canonicalize(value)
    except (ValueError, RecursionError):
        raise GrantRefused("encoding", "a part of it is not JSON") from None
    if not isinstance(value, dict) or written != raw:
        raise GrantRefused("encoding", "a part of it is no canonical object")
    return value


def _bytes(text: str) -> bytes:
    """Unpadded base64url, and only its one spelling."""
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except (binascii.Error, ValueError):
        raise GrantRefused("encoding", "a part of it is not base64url") from None
    if not _B64URL.fullmatch(text) or base64.urlsafe_b64encode(raw).rstrip(b"=").decode() != text:
        raise GrantRefused("encoding", "a part of it is not base64url in its one spelling")
    return raw
