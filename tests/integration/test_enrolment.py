"""New keys: proved to be held, vouched for by somebody else, one person each."""

from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command

from approvals import decisions, enrolment, freshness, permissions, revocation
from approvals.encodings import b64, unb64
from approvals.errors import Refused
from approvals.models import ReviewerKey, ReviewerToken, User
from operations.models import Event
from tests.support import approving
from tests.support.passkey import UP, Passkey

pytestmark = pytest.mark.django_db


def passkey(**lies: Any) -> Passkey:
    return Passkey(settings.BASE_HOST, settings.BASE_URL, **lies)


def enrol(user: User, key: Passkey, session: str = "s") -> ReviewerKey:
    begun = enrolment.start(user, session, "webauthn", "laptop")
    return enrolment.finish(user, session, begun["enrolment_id"], key.create(begun["options"]))


def refused(code: str, work: Any) -> Refused:
    with pytest.raises(Refused) as error:
        work()
    assert error.value.code == code, error.value
    return error.value


def test_the_first_key_of_an_installation_needs_nobody_and_is_marked() -> None:
    first, second = enrol(approving.user(), passkey()), enrol(approving.user(), passkey())
    assert first.bootstrap
    assert not second.bootstrap
    noted = Event.objects.filter(type="key.enrolled").order_by("id")
    assert [event.data["bootstrap"] for event in noted] == [True, False]


def test_a_later_key_signs_nothing_until_somebody_else_vouched_for_it() -> None:
    approving.person()
    newcomer = approving.user()
    software = passkey()
    key = enrol(newcomer, software)
    asked = approving.ask()
    error = refused(
        "FORBIDDEN", lambda: decisions.start(newcomer, "s", asked.id, "approve", key=key)
    )
    assert "countersignature" in error.detail
    assert permissions.usable_keys(newcomer, "A2") == []

    refused("SEPARATION_OF_DUTIES", lambda: enrolment.countersign(newcomer, key.key_id))
    for role in ("viewer", "operator", "auditor"):
        someone = approving.user(role)
        refused("FORBIDDEN", lambda s=someone: enrolment.countersign(s, key.key_id))
    admin = approving.user("admin")
    assert enrolment.waiting_for_countersignature(admin) == [key]
    key = enrolment.countersign(admin, key.key_id)
    refused("ALREADY_DECIDED", lambda: enrolment.countersign(admin, key.key_id))

    ceremony = decisions.start(newcomer, "s", asked.id, "approve", key=key)
    done = decisions.finish(
        newcomer, "s", ceremony.statement_id, software.get(ceremony.options or {}),
        approval_id=asked.id,
    )  # fmt: skip
    assert done.status == "approved"


def test_a_registration_is_tried_once_in_its_session() -> None:
    user = approving.user()
    begun = enrolment.start(user, "s", "webauthn", "laptop")
    bad = passkey(flags=UP)
    refused(
        "SIGNATURE_REFUSED",
        lambda: enrolment.finish(user, "s", begun["enrolment_id"], bad.create(begun["options"])),
    )
    good = passkey().create(begun["options"])
    refused("STATEMENT_STALE", lambda: enrolment.finish(user, "s", begun["enrolment_id"], good))
    begun = enrolment.start(user, "s", "webauthn", "laptop")
    good = passkey().create(begun["options"])
    refused("STATEMENT_STALE", lambda: enrolment.finish(user, "other", begun["enrolment_id"], good))
    assert enrolment.finish(user, "s", begun["enrolment_id"], good).method == "webauthn"


def test_an_enrolment_challenge_of_somebody_else_is_refused() -> None:
    alice, bob = approving.user(), approving.user()
    mine = enrolment.start(alice, "s", "webauthn", "laptop")
    theirs = enrolment.start(bob, "s", "webauthn", "laptop")
    answer = passkey().create(theirs["options"])
    error = refused(
        "SIGNATURE_REFUSED", lambda: enrolment.finish(alice, "s", mine["enrolment_id"], answer)
    )
    assert error.extra["check"] == "challenge"


def test_n44_one_key_belongs_to_one_person_whatever_it_comes_as() -> None:
    alice, bob = approving.user(), approving.user()
    software = passkey()
    enrol(alice, software)
    refused("ALREADY_DECIDED", lambda: enrol(bob, software))
    refused("ALREADY_DECIDED", lambda: enrol(alice, software))
    browser = approving.BrowserKey(private=software.key)
    begun = enrolment.start(bob, "s", "webcrypto", "copy")
    answer = {
        "spki": b64(browser.spki),
        "signature": b64(browser.sign(unb64(begun["message_b64"]))),
    }
    refused("ALREADY_DECIDED", lambda: enrolment.finish(bob, "s", begun["enrolment_id"], answer))


def test_a_browser_key_must_be_proved_to_be_held() -> None:
    user = approving.user()
    browser, other = approving.BrowserKey(), approving.BrowserKey()
    begun = enrolment.start(user, "s", "webcrypto", "browser")
    forged = b64(other.sign(unb64(begun["message_b64"])))
    refused(
        "SIGNATURE_REFUSED",
        lambda: enrolment.finish(
            user, "s", begun["enrolment_id"], {"spki": b64(browser.spki), "signature": forged}
        ),
    )
    assert browser.enrol(user).custody == "A1"


def test_an_ssh_key_is_enrolled_on_the_page_with_a_signed_challenge(tmp_path: Path) -> None:
    user = approving.user()
    key = approving.SshKey(tmp_path)
    begun = enrolment.start(user, "s", "ssh", "cli")
    signed = key.sign(unb64(begun["message_b64"]))
    row = enrolment.finish(
        user, "s", begun["enrolment_id"], {"ssh_key": key.line, "sshsig": signed}
    )
    assert (row.method, row.custody) == ("ssh", "A1")


@pytest.mark.parametrize("role", ["viewer", "auditor"])
def test_who_signs_nothing_enrols_nothing(role: str) -> None:
    user = approving.user(role)
    refused("FORBIDDEN", lambda: enrolment.start(user, "s", "webauthn", "x"))


def test_a_login_is_fresh_for_ten_minutes() -> None:
    session: dict[str, Any] = {}
    refused("LOGIN_NOT_FRESH", lambda: freshness.check_is_fresh(session))
    freshness.note(session)
    freshness.check_is_fresh(session)
    session["authenticated_at"] = "2020-01-01T00:00:00+00:00"
    refused("LOGIN_NOT_FRESH", lambda: freshness.check_is_fresh(session))


def test_a_revoked_key_stays_revoked_and_may_become_compromised() -> None:
    person = approving.person()
    revocation.revoke(person.key, "lost", actor="user:x")
    refused("ALREADY_DECIDED", lambda: revocation.revoke(person.key, "lost", actor="user:x"))
    refused("VALIDATION_ERROR", lambda: revocation.revoke(person.key, "bored", actor="user:x"))
    revocation.revoke(person.key, "compromised", actor="user:x")
    assert ReviewerKey.objects.get(id=person.key.id).revoked_reason == "compromised"
    assert permissions.usable_keys(person.user, "A1") == []


# From the shell ----------------------------------------------------------------------------------


def test_the_shell_makes_people_keys_and_tokens(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import io

    monkeypatch.setattr("sys.stdin", io.StringIO("a long enough password\n"))
    call_command("create_user", "Alice@Example.com", "--role", "reviewer", "--password-stdin")
    alice = User.objects.get(email="alice@example.com")
    assert (alice.role, alice.check_password("a long enough password")) == ("reviewer", True)

    key = approving.SshKey(tmp_path)
    call_command("enrol_key", "alice@example.com", "--ssh-key", f"{key.path}.pub")
    row = ReviewerKey.objects.get(user=alice)
    assert (row.bootstrap, row.method, row.name) == (True, "ssh", "test")

    capsys.readouterr()
    call_command("create_reviewer_token", "alice@example.com")
    token = capsys.readouterr().out.strip()
    assert token.startswith("cs_reviewer_")
    assert token.encode() not in bytes(ReviewerToken.objects.get().digest)


def test_the_shell_says_what_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import io

    approving.user("viewer", "v@example.com")
    rsa = approving.SshKey(tmp_path, "rsa")
    wrong: list[tuple[str, ...]] = [
        ("create_user", "no-address", "--password-stdin"),
        ("create_user", "v@example.com", "--password-stdin"),
        ("create_user", "w@example.com", "--password-stdin"),
        ("enrol_key", "nobody@example.com", "--ssh-key", f"{rsa.path}.pub"),
        ("enrol_key", "v@example.com", "--ssh-key", f"{rsa.path}.pub"),
        ("create_reviewer_token", "v@example.com"),
        ("create_reviewer_token", "nobody@example.com"),
    ]
    for words in wrong:
        monkeypatch.setattr("sys.stdin", io.StringIO("short\n"))
        with pytest.raises(CommandError):
            call_command(*words)
    reviewer = approving.user("reviewer", "r@example.com")
    with pytest.raises(CommandError):
        call_command("enrol_key", reviewer.email, "--ssh-key", f"{rsa.path}.pub")
