"""Grants checked by the SDK, apart from the server that signs them."""

import base64
import json
from typing import Any

import countersign
import pytest
from countersign import GrantRefused, verify_grant
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from approvals import jws
from tests.support.scripted_console import ScriptedConsole, execute
from tests.unit.sdk.conftest import CHARGE, Sdk

KEY = Ed25519PrivateKey.generate()
OTHER = Ed25519PrivateKey.generate()
NOW = 1_800_000_000
FINGERPRINT = countersign.fingerprint(CHARGE)
IDEM_KEY = countersign.derive_key("run_7", 3, "call_abc")


def b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def jwk(key: Ed25519PrivateKey, identifier: str) -> dict[str, str]:
    raw = key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    return {"kty": "OKP", "crv": "Ed25519", "kid": identifier, "x": b64(raw)}


JWKS = {"keys": [jwk(OTHER, "k0"), jwk(KEY, "k1")]}
CLAIMS: dict[str, Any] = {
    "iss": "https://console.example.com", "sub": IDEM_KEY, "aud": "runtime-1", "jti": "grt_1",
    "iat": NOW, "nbf": NOW, "exp": NOW + 300, "approval": "apr_1", "claim_id": "c1",
    "environment": "live", "namespace": "default", "tool": "stripe.charge",
    "args_sha256": FINGERPRINT.removeprefix("jcs-sha256:"), "decisions": ["sha256:" + "ab" * 32],
    "policy_sha256": "cd" * 32, "epoch": 1,
}  # fmt: skip


def signed(claims: Any = None, header: Any = None, key: Ed25519PrivateKey = KEY) -> str:
    head = {"alg": "EdDSA", "kid": "k1", "typ": "exec-grant+jwt"} if header is None else header
    parts = [b64(countersign.canonicalize(part)) for part in (head, claims or CLAIMS)]
    body = ".".join(parts)
    return f"{body}.{b64(key.sign(body.encode()))}"


def verify(token: str, **more: Any) -> dict[str, Any]:
    call = {"idem_key": IDEM_KEY, "tool": "stripe.charge", "args_fingerprint": FINGERPRINT}
    call |= {"claim_id": "c1", "audience": "runtime-1"}
    return verify_grant(token, JWKS, at=NOW + 10, **(call | more))


def test_it_takes_what_the_server_signs() -> None:
    assert verify(jws.sign(CLAIMS, "k1", KEY.sign)) == CLAIMS
    assert verify(signed()) == CLAIMS
    assert verify(signed(), claim_id=None, audience=None) == CLAIMS


@pytest.mark.parametrize(
    "header",
    [
        {"alg": "none", "kid": "k1", "typ": "exec-grant+jwt"},
        {"alg": "HS256", "kid": "k1", "typ": "exec-grant+jwt"},
        {"alg": "EdDSA", "kid": "k1", "typ": "JWT"},
        {"alg": "EdDSA", "kid": "k1"},
        {"alg": "EdDSA", "kid": "k1", "typ": "exec-grant+jwt", "crit": ["b64"], "b64": False},
        {"alg": "EdDSA", "kid": "k1", "typ": "exec-grant+jwt", "jwk": jwk(KEY, "k1")},
        {"alg": "EdDSA", "kid": "k2", "typ": "exec-grant+jwt"},
        [],
    ],
)
def test_n55_any_other_header_is_refused(header: Any) -> None:
    with pytest.raises(GrantRefused) as refused:
        verify(signed(header=header))
    assert refused.value.check in ("header", "key", "encoding")


def test_another_keys_signature_is_refused() -> None:
    with pytest.raises(GrantRefused, match="signature"):
        verify(signed(key=OTHER))


@pytest.mark.parametrize(
    ("change", "check"),
    [
        ({"sub": "another"}, "sub"),
        ({"tool": "stripe.refund"}, "tool"),
        ({"args_sha256": "00" * 32}, "args_sha256"),
        ({"claim_id": "c2"}, "claim_id"),
        ({"aud": "runtime-2"}, "aud"),
        ({"exp": NOW + 10}, "exp"),
        ({"exp": NOW + 301}, "exp"),
        ({"nbf": NOW + 60}, "nbf"),
        ({"decisions": []}, "decisions"),
        ({"decisions": ["sha256:x"]}, "claims"),
        ({"epoch": True}, "claims"),
        ({"iat": -1}, "claims"),
        ({"extra": 1}, "claims"),
    ],
)
def test_what_is_signed_for_something_else_is_refused(change: dict[str, Any], check: str) -> None:
    with pytest.raises(GrantRefused) as refused:
        verify(signed(CLAIMS | change))
    assert refused.value.check == check


@pytest.mark.parametrize("minutes", [-10, 10])
def test_n61_a_wrong_clock_is_named(minutes: int) -> None:
    with pytest.raises(GrantRefused, match="clock"):
        verify_grant(
            signed(),
            JWKS,
            idem_key=IDEM_KEY,
            tool="stripe.charge",
            args_fingerprint=FINGERPRINT,
            at=NOW + minutes * 60,
        )


def test_claims_that_are_not_canonical_are_refused() -> None:
    head = b64(countersign.canonicalize({"alg": "EdDSA", "kid": "k1", "typ": "exec-grant+jwt"}))
    body = f"{head}.{b64(json.dumps(CLAIMS).encode())}"
    with pytest.raises(GrantRefused, match="canonical"):
        verify(f"{body}.{b64(KEY.sign(body.encode()))}")


def test_a_changed_byte_anywhere_is_refused() -> None:
    token = signed()
    for position in range(len(token)):
        changed = "A" if token[position] != "A" else "B"
        with pytest.raises(GrantRefused):
            verify(token[:position] + changed + token[position + 1 :])


@pytest.mark.parametrize("token", ["", "a.b", "a.b.c.d", "é.é.é", "A" * 20_000, "=.=.="])
def test_what_is_no_token_is_refused(token: str) -> None:
    with pytest.raises(GrantRefused):
        verify(token)


def test_a_call_whose_grant_does_not_fit_is_not_executed(
    sdk: Sdk, console: ScriptedConsole
) -> None:
    sdk.settings["grant_keys"] = JWKS
    console.on("claim", execute(grant=signed()))
    with pytest.raises(GrantRefused):
        sdk.guard()
    assert sdk.executed == []
    assert len(console.told("claim")) == 1
    (outcome,) = console.told("outcome")
    assert (outcome["outcome"], outcome["effect"]) == ("failed", "none")
