"""Passkey ceremonies with a software authenticator that lies in one way at a time."""

from typing import Any

import pytest

from approvals import keys, sshsig, webauthn
from approvals.encodings import b64url
from approvals.refusals import SignatureRefused
from tests.support.passkey import BE, BS, UP, UV, Passkey

PARTY = webauthn.RelyingParty("console.example", "test", ("https://console.example",))
MESSAGE = b"DSSEv1 the message"
BLOB = sshsig.to_be_signed(MESSAGE)


def passkey(**lies: Any) -> Passkey:
    return Passkey(PARTY.id, PARTY.origins[0], **lies)


def registration_options(challenge: bytes = b"challenge") -> dict[str, Any]:
    return webauthn.registration_options(
        PARTY, user_id="u1", email="a@example.com", name="A", challenge=challenge, known=[]
    )


def enrol(key: Passkey) -> webauthn.Credential:
    seen = webauthn.check_registration(PARTY, key.create(registration_options()), b"challenge")
    return webauthn.Credential(
        seen.credential_id, seen.spki, PARTY.id, seen.sign_count, seen.backup_eligible,
        webauthn.user_handle_of("u1"),
    )  # fmt: skip


def options(known: webauthn.Credential, blob: bytes = BLOB) -> dict[str, Any]:
    return webauthn.assertion_options(PARTY, known.credential_id, blob)


def refused(
    key: Passkey, known: webauthn.Credential, answer: Any = None, blob: bytes = BLOB
) -> str:
    answer = key.get(options(known)) if answer is None else answer
    with pytest.raises(SignatureRefused) as error:
        webauthn.check_assertion(PARTY, answer, blob, known)
    return error.value.check


def test_an_honest_passkey_is_enrolled_and_its_assertion_is_an_ssh_signature() -> None:
    key = passkey()
    known = enrol(key)
    seen = webauthn.check_assertion(PARTY, key.get(options(known)), BLOB, known)
    trusted = keys.sk_ecdsa(key.key.public_key(), PARTY.id)
    sshsig.verify(seen.armor, MESSAGE, trusted, need_uv=True, is_passkey=True)
    assert seen.sign_count == 1


def test_only_es256_and_a_verified_user_are_asked_for() -> None:
    asked = registration_options()
    assert [one["alg"] for one in asked["pubKeyCredParams"]] == [-7]
    assert asked["authenticatorSelection"]["userVerification"] == "required"


def test_n26_a_challenge_of_something_else_is_refused() -> None:
    key = passkey()
    known = enrol(key)
    other = key.get(options(known, sshsig.to_be_signed(b"another request")))
    assert refused(key, known, other) == "challenge"
    login = key.get(options(known, b"a login challenge"))
    assert refused(key, known, login) == "challenge"


@pytest.mark.parametrize(
    "origin",
    [
        "https://console.example/",
        "https://evil.console.example",
        "http://console.example",
        "https://console.example:8443",
        "https://console.example.evil",
        "null",
    ],
)
def test_n27_another_origin_is_refused(origin: str) -> None:
    key = passkey()
    known = enrol(key)
    key.origin = origin
    assert refused(key, known) == "origin"


@pytest.mark.parametrize(
    "extra",
    [
        {"crossOrigin": True},
        {"crossOrigin": "false"},
        {"crossOrigin": None},
        {"topOrigin": "https://evil.example"},
        {"topOrigin": None},
    ],
)
def test_n28_an_answer_from_inside_a_frame_is_refused(extra: dict[str, Any]) -> None:
    key = passkey()
    known = enrol(key)
    key.client_extra = extra
    assert refused(key, known) == "cross_origin"


@pytest.mark.parametrize(
    ("enrolled_with", "signed_with"),
    [
        (UP | UV, UP),
        (UP | UV, UV),
        (UP | UV, 0),
        (UP | UV, UP | UV | BS),
        (UP | UV, UP | UV | BE),
        (UP | UV | BE, UP | UV),
    ],
)
def test_n29_flags_that_prove_too_little_or_changed_are_refused(
    enrolled_with: int, signed_with: int
) -> None:
    key = passkey(flags=enrolled_with)
    known = enrol(key)
    key.flags = signed_with
    assert refused(key, known) == "flags"


def test_a_synced_passkey_may_become_backed_up() -> None:
    key = passkey(flags=UP | UV | BE)
    known = enrol(key)
    key.flags |= BS
    assert webauthn.check_assertion(PARTY, key.get(options(known)), BLOB, known).backed_up


@pytest.mark.parametrize(("known_count", "count"), [(5, 5), (5, 4), (5, 0)])
def test_n30_a_counter_that_does_not_rise_is_refused(known_count: int, count: int) -> None:
    key = passkey(counts=False, counter=known_count)
    known = enrol(key)
    key.counter = count
    assert refused(key, known) == "counter"


def test_a_passkey_that_never_counts_is_fine() -> None:
    key = passkey(counts=False)
    known = enrol(key)
    assert webauthn.check_assertion(PARTY, key.get(options(known)), BLOB, known).sign_count == 0


@pytest.mark.parametrize("kind", ["webauthn.create", "payment.get", ""])
def test_n31_another_ceremony_is_refused(kind: str) -> None:
    key = passkey()
    known = enrol(key)
    key.get_type = kind
    assert refused(key, known) == "type"


def test_n32_another_credential_is_refused() -> None:
    mine, theirs = passkey(), passkey()
    known = enrol(mine)
    theirs.user_handle = mine.user_handle
    assert refused(theirs, known) == "credential"
    theirs.credential_id = mine.credential_id
    assert refused(theirs, known) == "signature.invalid"


def test_n33_a_foreign_or_broken_user_handle_is_refused() -> None:
    key = passkey()
    known = enrol(key)
    answer = key.get(options(known))
    answer["response"]["userHandle"] = b64url(b"somebody else")
    assert refused(key, known, answer) == "credential"
    answer = key.get(options(known))
    answer["response"]["userHandle"] = "%%%"
    assert refused(key, known, answer) == "encoding"


@pytest.mark.parametrize("alg", [-257, -65535, -8, -35])
def test_n34_other_algorithms_cannot_be_enrolled(alg: int) -> None:
    key = passkey()
    with pytest.raises(SignatureRefused):
        webauthn.check_registration(
            PARTY, key.create(registration_options(), alg=alg), b"challenge"
        )


@pytest.mark.parametrize(
    ("lies", "check"),
    [
        ({"flags": UP}, "flags"),
        ({"flags": UV}, "registration"),
        ({"flags": UP | UV | BS}, "flags"),
        ({"origin": "https://evil.example"}, "origin"),
        ({"rp_id": "evil.example"}, "rp_id"),
        ({"create_type": "webauthn.get"}, "type"),
        ({"client_extra": {"crossOrigin": True}}, "cross_origin"),
    ],
)
def test_a_registration_that_lies_is_refused(lies: dict[str, Any], check: str) -> None:
    key = Passkey(**{"rp_id": PARTY.id, "origin": PARTY.origins[0], **lies})
    with pytest.raises(SignatureRefused) as error:
        webauthn.check_registration(PARTY, key.create(registration_options()), b"challenge")
    assert error.value.check in (check, "registration")


@pytest.mark.parametrize(
    "spoil",
    [
        lambda a: a.update(type="password"),
        lambda a: a.update(rawId="AAAA"),
        lambda a: a["response"].pop("signature"),
        lambda a: a["response"].update(authenticatorData="AAAA"),
        lambda a: a["response"].update(clientDataJSON=b64url(b"[]")),
        lambda a: a["response"].update(clientDataJSON=b64url(b"[" * 10_000)),
        lambda a: a["response"].update(signature=b64url(b"\x30\x00")),
        lambda a: a.pop("response"),
    ],
)
def test_a_broken_answer_is_refused_and_never_crashes(spoil: Any) -> None:
    key = passkey()
    known = enrol(key)
    answer = key.get(options(known))
    spoil(answer)
    refused(key, known, answer)


@pytest.mark.parametrize("answer", ["", "[]", "nonsense", None, 5, [], "{" * 5000])
def test_what_is_no_credential_at_all_is_refused(answer: Any) -> None:
    known = enrol(passkey())
    with pytest.raises(SignatureRefused):
        webauthn.check_assertion(PARTY, answer, BLOB, known)
