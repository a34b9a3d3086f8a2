"""Grants as JWS: one header, one algorithm, closed claims."""

import base64
import hmac
import json
from hashlib import sha256
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from approvals import jws
from approvals.encodings import b64url
from approvals.refusals import SignatureRefused

KEY = Ed25519PrivateKey.generate()
KEYS = {"k1": KEY.public_key()}
CLAIMS: dict[str, Any] = {
    "iss": "https://console.example", "sub": "idem", "aud": "runtime", "jti": "grt_1",
    "iat": 1, "nbf": 1, "exp": 301, "approval": "apr_1", "claim_id": "c1", "environment": "live",
    "namespace": "default", "tool": "stripe.charge", "args_sha256": "ab" * 32,
    "decisions": ["sha256:" + "cd" * 32], "policy_sha256": "ef" * 32, "epoch": 1,
}  # fmt: skip
HEADER = {"alg": "EdDSA", "kid": "k1", "typ": "exec-grant+jwt"}


def token(header: dict[str, Any] | None = None, claims: Any = CLAIMS) -> str:
    encoded = [b64url(json.dumps(part).encode()) for part in (header or HEADER, claims)]
    body = ".".join(encoded)
    return f"{body}.{b64url(KEY.sign(body.encode()))}"


def refused(text: str) -> str:
    with pytest.raises(SignatureRefused) as error:
        jws.verify(text, KEYS)
    return error.value.check


def test_a_signed_grant_verifies() -> None:
    assert jws.verify(jws.sign(CLAIMS, "k1", KEY.sign), KEYS) == CLAIMS
    assert jws.verify(token(), KEYS) == CLAIMS


@pytest.mark.parametrize(
    "header",
    [
        HEADER | {"alg": "none"},
        HEADER | {"alg": "HS256"},
        HEADER | {"alg": "Ed448"},
        HEADER | {"alg": "eddsa"},
        {"alg": "EdDSA", "kid": "k1"},
        HEADER | {"typ": "JWT"},
        HEADER | {"crit": ["b64"], "b64": False},
        HEADER | {"jwk": {"kty": "OKP"}},
        HEADER | {"jku": "https://evil.example/keys"},
        HEADER | {"x5c": []},
    ],
)
def test_n55_any_other_header_is_refused_before_a_signature_is_looked_at(
    header: dict[str, Any],
) -> None:
    assert refused(token(header)) == "header"


def test_n55_a_token_keyed_with_the_public_key_is_refused() -> None:
    public = KEY.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    body = ".".join(
        b64url(json.dumps(part).encode()) for part in (HEADER | {"alg": "HS256"}, CLAIMS)
    )
    forged = f"{body}.{b64url(hmac.digest(public, body.encode(), sha256))}"
    assert refused(forged) == "header"


def test_an_unknown_key_is_refused() -> None:
    assert refused(token(HEADER | {"kid": "k2"})) == "key.untrusted"
    assert refused(token(HEADER | {"kid": {}})) == "key.untrusted"


@pytest.mark.parametrize(
    "claims",
    [
        {name: value for name, value in CLAIMS.items() if name != "aud"},
        CLAIMS | {"extra": 1},
        CLAIMS | {"aud": ["runtime", "other"]},
        CLAIMS | {"exp": 301.5},
        CLAIMS | {"decisions": ["x"]},
        [],
        "x",
    ],
)
def test_claims_outside_the_closed_shape_are_refused(claims: Any) -> None:
    assert refused(token(claims=claims)) in ("statement.schema", "encoding")


def test_a_changed_byte_anywhere_is_refused() -> None:
    good = token()
    for at in range(0, len(good), 7):
        spoilt = good[:at] + ("A" if good[at] != "A" else "B") + good[at + 1 :]
        if spoilt != good:
            with pytest.raises(SignatureRefused):
                jws.verify(spoilt, KEYS)


@pytest.mark.parametrize("text", ["", "a.b", "a.b.c.d", "a.b.c" * 10_000, "....", "é.é.é"])
def test_what_is_no_token_is_refused(text: str) -> None:
    refused(text)


def test_padding_is_refused() -> None:
    good = token()
    head, claims, signature = good.split(".")
    padded = base64.urlsafe_b64encode(b"x" * 64).decode()
    assert refused(f"{head}.{claims}.{padded}") == "encoding"
    assert signature
