"""Passkey ceremonies against the test vectors of the WebAuthn specification (Level 3)."""

import json
from pathlib import Path
from typing import Any

import pytest

from approvals import webauthn
from approvals.encodings import b64url
from approvals.refusals import SignatureRefused

TAKEN = (
    "ES256 Credential with No Attestation",
    "ES256 Credential with Self Attestation",
    "ES256 Credential with very long credential ID",
    "Packed Attestation with ES256 Credential",
    "FIDO U2F Attestation with ES256 Credential",
)
#: `flags` where the vector's authenticator did not verify the person: that is looked at first.
REFUSED = {
    'ES256 Credential with "crossOrigin": true in clientDataJSON': "cross_origin",
    'ES256 Credential with "topOrigin" in clientDataJSON': "cross_origin",
    "Packed Attestation with ES384 Credential": "flags",
    "Packed Attestation with ES512 Credential": "algorithm",
    "Packed Attestation with RS256 Credential": "algorithm",
    "Packed Attestation with Ed25519 Credential": "flags",
    "Packed Attestation with Ed448 Credential": "flags",
}


def pair(vectors: Path, title: str) -> dict[str, Any]:
    found = json.loads((vectors / "webauthn" / "webauthn-l3-spec-vectors.json").read_text())
    return next(dict(one) for one in found if one["title"] == title)


def party_of(vector: dict[str, Any]) -> webauthn.RelyingParty:
    return webauthn.RelyingParty(vector["rp_id"], "test", (vector["origin"],))


def credential(vector: dict[str, Any], ceremony: str, *fields: str) -> dict[str, Any]:
    name = b64url(bytes.fromhex(vector["registration"]["credential_id"]))
    response = {one: b64url(bytes.fromhex(vector[ceremony][one])) for one in fields}
    return {"id": name, "rawId": name, "type": "public-key", "response": response}


def register(vector: dict[str, Any]) -> webauthn.Enrolled:
    answer = credential(vector, "registration", "clientDataJSON", "attestationObject")
    challenge = bytes.fromhex(vector["registration"]["challenge"])
    return webauthn.check_registration(party_of(vector), answer, challenge)


def with_user_verification(vector: dict[str, Any]) -> bool:
    """The vectors draw their flags at random; only those that verified the user may pass."""
    registered = bytes.fromhex(vector["registration"]["attestationObject"])
    start = registered.index(b"authData") + 8
    start += {0x58: 2, 0x59: 3}[registered[start]]
    asserted = bytes.fromhex(vector["authentication"]["authenticatorData"])[32]
    return bool(registered[start + 32] & 0x04) and bool(asserted & 0x04)


def whole_ceremony(vector: dict[str, Any]) -> None:
    key = register(vector)
    known = webauthn.Credential(
        key.credential_id, key.spki, vector["rp_id"], key.sign_count, key.backup_eligible, b"alice"
    )
    fields = ("clientDataJSON", "authenticatorData", "signature")
    answer = credential(vector, "authentication", *fields)
    challenge = bytes.fromhex(vector["authentication"]["challenge"])
    webauthn.check_assertion(party_of(vector), answer, challenge, known)


@pytest.mark.parametrize("title", TAKEN)
def test_it_takes_an_es256_passkey_only_where_the_person_was_verified(
    vectors: Path, title: str
) -> None:
    vector = pair(vectors, title)
    if with_user_verification(vector):
        whole_ceremony(vector)
        return
    with pytest.raises(SignatureRefused) as refused:
        whole_ceremony(vector)
    assert refused.value.check == "flags"


def test_at_least_one_vector_passes_whole(vectors: Path) -> None:
    assert any(with_user_verification(pair(vectors, title)) for title in TAKEN)


@pytest.mark.parametrize(("title", "check"), REFUSED.items())
def test_it_refuses_what_stock_tools_could_not_check(vectors: Path, title: str, check: str) -> None:
    with pytest.raises(SignatureRefused) as refused:
        whole_ceremony(pair(vectors, title))
    assert refused.value.check == check
