"""Closed statements, envelopes and their verification: each refusal with its untampered twin."""

import base64
import copy
import json
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from approvals import envelopes, keys, statements
from approvals.encodings import b64, unb64, unb64url
from approvals.refusals import SignatureRefused
from approvals.verification import TrustedKey, verify_envelope
from operations import canonical
from tests.support.approving import BrowserKey

PERSON = "user:0193"
HEX = "ab" * 32


def predicate(key_id: str, **changes: Any) -> dict[str, Any]:
    return {
        "decision": "approve",
        "request": {"id": "apr_x", "nonce": "bm9uY2U", "sha256": HEX},
        "call": {
            "tool": "stripe.charge", "tool_version": "3", "schema_sha256": None, "idem_key": "k1",
            "run_id": "run_1", "step": 3, "tool_call_id": "call_abc",
        },
        "agent": {"id": "renewals", "version": "", "runtime": "r1"},
        "scope": {"environment": "live", "audience": "r1"},
        "policy": {
            "id": "p", "version": 1, "sha256": HEX, "rule": "p", "quorum": 1, "min_custody": "A1",
        },
        "reviewer": {"id": PERSON, "key_id": key_id, "method": "webcrypto", "custody": "A1"},
        "validity": {
            "decided_at": "2026-12-01T10:00:00.000Z", "expires_at": "2026-12-01T11:00:00.000Z",
        },
        "reason": {"code": "", "text": ""},
        "display": {"renderer": "text/v1", "sha256": HEX, "coverage": "full", "warnings": []},
        "log": statements.EMPTY_LOG,
    } | changes  # fmt: skip


class Signed:
    """One good envelope of a browser key, and the trust that verifies it."""

    def __init__(self, **changes: Any) -> None:
        self.key = BrowserKey()
        self.public = keys.load_spki(self.key.spki)
        self.key_id = keys.key_id_of(self.public)
        said = predicate(self.key_id, **changes)
        self.payload = statements.build(statements.DECISION, "k1", HEX, said)
        self.envelope = self.seal(self.payload)
        self.trust = {
            self.key_id: TrustedKey(
                self.key_id, "webcrypto", self.key.spki, keys.plain_ecdsa(self.public).line, PERSON
            )
        }

    def seal(self, payload: bytes, payload_type: str = envelopes.PAYLOAD_TYPE) -> dict[str, Any]:
        signature = self.key.sign(envelopes.pae(payload, payload_type))
        return envelopes.seal(payload, self.key_id, signature) | {"payloadType": payload_type}

    def verify(self, envelope: object) -> dict[str, Any]:
        return verify_envelope(envelope, statements.DECISION, self.trust)


def refused(signed: Signed, envelope: object) -> str:
    with pytest.raises(SignatureRefused) as error:
        signed.verify(envelope)
    return error.value.check


def test_an_untampered_envelope_verifies() -> None:
    signed = Signed()
    assert signed.verify(signed.envelope)["predicate"]["decision"] == "approve"


def test_n15_a_statement_that_is_not_canonical_is_refused_even_when_signed() -> None:
    signed = Signed()
    spaced = signed.payload.replace(b'","', b'", "', 1)
    assert refused(signed, signed.seal(spaced)) == "statement.not_canonical"


def edits() -> list[tuple[str, Any]]:
    def edit(change: Any) -> Any:
        def apply(statement: dict[str, Any]) -> None:
            change(statement)

        return apply

    return [
        ("unknown member", edit(lambda s: s["predicate"].update(extra=1))),
        ("missing member", edit(lambda s: s["predicate"].pop("reason"))),
        ("null", edit(lambda s: s["predicate"].update(decision=None))),
        ("float", edit(lambda s: s["predicate"]["call"].update(step=3.5))),
        ("boolean for a number", edit(lambda s: s["predicate"]["call"].update(step=True))),
        ("two subjects", edit(lambda s: s["subject"].append(s["subject"][0]))),
        ("no subject", edit(lambda s: s["subject"].clear())),
        ("other verdict", edit(lambda s: s["predicate"].update(decision="approved"))),
        ("custody A0", edit(lambda s: s["predicate"]["reviewer"].update(custody="A0"))),
        ("time without Z", edit(lambda s: s["predicate"]["validity"].update(
            decided_at="2026-12-01T10:00:00+01:00"))),
        ("digest in upper case", edit(lambda s: s["predicate"]["policy"].update(
            sha256=HEX.upper()))),
    ]  # fmt: skip


@pytest.mark.parametrize(("what", "edit"), edits(), ids=[name for name, _ in edits()])
def test_n16_a_statement_outside_the_closed_schema_is_refused(what: str, edit: Any) -> None:
    signed = Signed()
    statement = copy.deepcopy(json.loads(signed.payload))
    edit(statement)
    envelope = signed.seal(canonical.canonicalize(statement))
    assert refused(signed, envelope) == "statement.schema", what


@pytest.mark.parametrize(
    "kind", ["urn:countersign:approval-decision:v2", "urn:countersign:attested-decision:v1"]
)
def test_n17_another_predicate_type_is_refused(kind: str) -> None:
    signed = Signed()
    statement = json.loads(signed.payload) | {"predicateType": kind}
    assert refused(signed, signed.seal(canonical.canonicalize(statement))) == "statement.type"


def test_a_subject_of_another_call_is_refused() -> None:
    signed = Signed()
    statement = json.loads(signed.payload)
    statement["subject"][0]["name"] = "toolcall:another"
    assert refused(signed, signed.seal(canonical.canonicalize(statement))) == "statement.subject"


def test_n18_another_payload_type_is_refused() -> None:
    signed = Signed()
    assert refused(signed, signed.seal(signed.payload, "application/json")) == "envelope.type"


def test_n19_a_swapped_payload_is_refused() -> None:
    signed = Signed()
    other = statements.build(
        statements.DECISION,
        "k1",
        HEX,
        predicate(signed.key_id, reason={"code": "", "text": "other"}),
    )
    assert refused(signed, signed.envelope | {"payload": b64(other)}) == "signature.invalid"


def test_n20_a_flipped_verdict_is_refused() -> None:
    signed = Signed(decision="deny")
    flipped = signed.payload.replace(b'"deny"', b'"approve"')
    assert refused(signed, signed.envelope | {"payload": b64(flipped)}) == "signature.invalid"


def test_n21_one_persons_signature_under_anothers_key_id_is_refused() -> None:
    alice, bob = Signed(), Signed()
    alice.trust |= bob.trust
    swapped = copy.deepcopy(alice.envelope)
    swapped["signatures"][0]["keyid"] = bob.key_id
    assert refused(alice, swapped) == "reviewer.mismatch"


def test_n21_a_statement_that_names_another_person_is_refused() -> None:
    signed = Signed()
    signed.trust[signed.key_id] = TrustedKey(
        signed.key_id,
        "webcrypto",
        signed.key.spki,
        keys.plain_ecdsa(signed.public).line,
        "user:bob",
    )
    assert refused(signed, signed.envelope) == "reviewer.mismatch"


def test_n22_a_key_that_only_the_envelope_brings_is_refused() -> None:
    signed = Signed()
    signed.trust = {}
    assert refused(signed, signed.envelope) == "key.untrusted"


@pytest.mark.parametrize(
    "spoil",
    [
        lambda text: text[:-2] + "h==" if text.endswith("==") else text + "A",
        lambda text: text[:10] + "\n" + text[10:],
        lambda text: text.replace("e", "-", 1),
        lambda text: text.rstrip("=") + "====",
        lambda text: " " + text,
    ],
)
def test_n23_base64_in_another_spelling_is_refused(spoil: Any) -> None:
    signed = Signed()
    assert refused(signed, signed.envelope | {"payload": spoil(signed.envelope["payload"])}) in (
        "encoding",
    )


def test_slack_bits_are_refused_in_both_alphabets() -> None:
    assert unb64("AA==") == b"\0"
    assert unb64url("AA") == b"\0"
    assert base64.b64decode("AB==") == b"\0"  # what a lax reader makes of it
    for read, text in ((unb64, "AB=="), (unb64url, "AB")):
        with pytest.raises(SignatureRefused):
            read(text)


def test_n24_the_other_spelling_of_an_ecdsa_signature_is_the_same_decision() -> None:
    signed = Signed()
    raw = unb64(signed.envelope["signatures"][0]["sig"])
    r, s = keys.split_raw(raw)
    twin = copy.deepcopy(signed.envelope)
    other = r.to_bytes(32, "big") + (keys.P256_ORDER - s).to_bytes(32, "big")
    twin["signatures"][0]["sig"] = b64(other)
    assert signed.verify(twin) == signed.verify(signed.envelope)
    # Whoever counts decisions counts what was signed, and that has one name.
    assert envelopes.decision_id_of(envelopes.pae(unb64(twin["payload"]))) == (
        envelopes.decision_id_of(envelopes.pae(signed.payload))
    )


@pytest.mark.parametrize("length", [63, 65, 0])
def test_n25_a_signature_of_another_length_is_refused(length: int) -> None:
    signed = Signed()
    bad = copy.deepcopy(signed.envelope)
    bad["signatures"][0]["sig"] = b64(b"\x01" * length)
    assert refused(signed, bad) == "signature.invalid"


def test_n25_der_with_trailing_bytes_and_a_raised_ed25519_s_are_refused() -> None:
    signed = Signed()
    der = signed.key.private.sign(b"x", ec.ECDSA(hashes.SHA256()))
    keys.split_der(der)
    with pytest.raises(SignatureRefused):
        keys.split_der(der + b"\0")
    order = 2**252 + 27742317777372353535851937790883648493
    ed = Ed25519PrivateKey.generate()
    signature = ed.sign(b"x")
    keys.verify_ed25519(ed.public_key(), signature, b"x")
    raised = int.from_bytes(signature[32:], "little") + order
    with pytest.raises(SignatureRefused):
        keys.verify_ed25519(ed.public_key(), signature[:32] + raised.to_bytes(32, "little"), b"x")


def test_two_signatures_in_one_envelope_are_refused() -> None:
    signed = Signed()
    both = signed.envelope | {"signatures": signed.envelope["signatures"] * 2}
    assert refused(signed, both) == "envelope.schema"
    assert refused(signed, signed.envelope | {"signatures": []}) == "envelope.schema"


def test_a_statement_that_claims_more_custody_than_its_method_gives_is_refused() -> None:
    key = BrowserKey()
    key_id = keys.key_id_of(keys.load_spki(key.spki))
    reviewer = {"id": PERSON, "key_id": key_id, "method": "webcrypto", "custody": "A2"}
    signed = Signed()
    signed.key = key
    signed.key_id = key_id
    signed.public = keys.load_spki(key.spki)
    signed.trust = {
        key_id: TrustedKey(
            key_id, "webcrypto", key.spki, keys.plain_ecdsa(signed.public).line, PERSON
        )
    }
    payload = statements.build(statements.DECISION, "k1", HEX, predicate(key_id, reviewer=reviewer))
    assert refused(signed, signed.seal(payload)) == "assurance"


def test_every_flipped_byte_of_a_signed_envelope_fails() -> None:
    signed = Signed()
    payload = signed.payload
    for at in range(len(payload)):
        flipped = payload[:at] + bytes([payload[at] ^ 1]) + payload[at + 1 :]
        with pytest.raises(SignatureRefused):
            signed.verify(signed.envelope | {"payload": b64(flipped)})
