"""One signing ceremony: the server builds the bytes, keeps them, and takes one answer.

The bytes are bound to a person, a session and a key, live five minutes and are tried once. The
answer carries a signature and nothing else; what it is checked against is built again from the
stored statement, so bytes altered in between fail as another challenge.
"""

import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any, Final

from django.conf import settings

from approvals import envelopes, keys, ledger, sshsig, statements, webauthn, webcrypto
from approvals.display import RENDERER, Display
from approvals.encodings import b64, unb64
from approvals.errors import Refused
from approvals.models import PendingStatement, ReviewerKey, User
from approvals.refusals import SignatureRefused
from approvals.webauthn import RelyingParty
from operations.ids import handle, parse_handle

VALID_FOR: Final = timedelta(minutes=5)
MAX_REASON: Final = 2000


@dataclass(frozen=True)
class Ceremony:
    """What the client needs to sign. `options` is for passkeys, `message_b64` for all others."""

    statement_id: str
    kind: str
    method: str
    key_id: str
    message_b64: str
    statement: dict[str, Any]
    shown: Display
    expires_at: datetime
    options: dict[str, Any] | None

    @property
    def decision_id(self) -> str:
        return envelopes.decision_id_of(unb64(self.message_b64))


@dataclass(frozen=True)
class Proof:
    """A signature that holds, in every spelling that is kept."""

    key: ReviewerKey
    armor: str
    signature: bytes
    evidence: dict[str, Any]
    custody: str


def relying_party() -> RelyingParty:
    """The console itself, at its one origin."""
    return RelyingParty(settings.BASE_HOST, "Countersign", (settings.BASE_URL,))


def session_digest(session_key: str) -> str:
    """How a session or a reviewer token is named in rows: never by itself."""
    return sha256(session_key.encode()).hexdigest()


def reviewer_of(user: User, key: ReviewerKey) -> dict[str, str]:
    """The `reviewer` member of a statement."""
    return {
        "id": f"user:{user.id}",
        "key_id": key.key_id,
        "method": key.method,
        "custody": key.custody,
    }


def check_reason(text: str) -> str:
    """A reason that can be signed and stored."""
    text = text.strip()
    if len(text) > MAX_REASON or "\x00" in text or any("\ud800" <= c <= "\udfff" for c in text):
        raise Refused("VALIDATION_ERROR", f"A reason is text of up to {MAX_REASON} characters.")
    return text


def open_ceremony(
    pending: PendingStatement, key: ReviewerKey, statement: bytes, shown: Display, now: datetime
) -> Ceremony:
    """Keep the bytes; `pending` says for whom, of what kind and about what."""
    pending.key = key
    pending.display = shown.text
    pending.statement = statement
    pending.message = envelopes.pae(statement)
    pending.expires_at = now + VALID_FOR
    pending.save(force_insert=True)
    options = None
    if key.method == "webauthn":
        blob = sshsig.to_be_signed(pending.message)
        options = webauthn.assertion_options(relying_party(), bytes(key.credential_id or b""), blob)
    return Ceremony(
        statement_id=handle("sta", pending.id),
        kind=pending.kind,
        method=key.method,
        key_id=key.key_id,
        message_b64=b64(pending.message),
        statement=json.loads(statement),
        shown=shown,
        expires_at=pending.expires_at,
        options=options,
    )


def take(user: User, session: str, statement_id: str, kind: str) -> PendingStatement:
    """Lock a pending statement of this person and session; whose it is not does not exist.

    The caller marks it used whatever comes of it, and looks at `used_at` first.
    """
    pending_id = parse_handle("sta", statement_id)
    pending = None
    if pending_id is not None:
        locked = PendingStatement.objects.select_for_update(of=("self",))
        pending = locked.filter(id=pending_id, user=user, kind=kind).first()
    if pending is None or not hmac.compare_digest(pending.session, session):
        raise Refused("STATEMENT_STALE", "There is no such statement for you in this session.")
    return pending


def verify(pending: PendingStatement, predicate_type: str, answer: object) -> Proof:
    """Check an answer against the stored bytes. Raises SignatureRefused with the failed check.

    Locks the key's row first: its counter and its revocation are judged under that lock.
    """
    ledger.check()
    if pending.key_id is None:
        raise SignatureRefused("credential", "the statement was built for no key")
    key = ReviewerKey.objects.select_for_update(of=("self",)).get(id=pending.key_id)
    statement = statements.parse(bytes(pending.statement), predicate_type)
    message = envelopes.pae(bytes(pending.statement))
    proof = _PROVERS[key.method](key, message, as_mapping(answer))
    reviewer = statement["predicate"]["reviewer"]
    if reviewer["key_id"] != key.key_id or reviewer["id"] != f"user:{pending.user_id}":
        raise SignatureRefused("reviewer.mismatch", "the statement names another reviewer or key")
    if reviewer["custody"] != proof.custody or reviewer["method"] != key.method:
        raise SignatureRefused("assurance", "the statement claims another custody than was proved")
    return proof


def as_mapping(answer: object) -> Mapping[str, Any]:
    """An answer as the browser or the command line sends it: a JSON object, or its text."""
    if isinstance(answer, str):
        try:
            answer = json.loads(answer)
        except (ValueError, RecursionError):
            raise SignatureRefused("encoding", "the answer is not JSON") from None
    if not isinstance(answer, dict):
        raise SignatureRefused("encoding", "the answer is no object")
    return answer


def credential_of(key: ReviewerKey) -> webauthn.Credential:
    """What enrolment kept of a passkey."""
    return webauthn.Credential(
        credential_id=bytes(key.credential_id or b""),
        spki=bytes(key.spki),
        rp_id=key.rp_id,
        sign_count=key.sign_count,
        backup_eligible=bool(key.backup_eligible),
        user_handle=webauthn.user_handle_of(key.user_id),
    )


def _by_passkey(key: ReviewerKey, message: bytes, answer: Mapping[str, Any]) -> Proof:
    if "sshsig" in answer:
        raise SignatureRefused("method", "a passkey signs in the browser, not as an SSH key")
    blob = sshsig.to_be_signed(message)
    seen = webauthn.check_assertion(relying_party(), dict(answer), blob, credential_of(key))
    sshsig.verify(seen.armor, message, keys.parse_line(key.ssh_public_key), need_uv=True)
    key.sign_count, key.backed_up = seen.sign_count, seen.backed_up
    return Proof(key, seen.armor, sshsig.dearmor(seen.armor), dict(answer), "A2")


def _by_ssh(key: ReviewerKey, message: bytes, answer: Mapping[str, Any]) -> Proof:
    armor = answer.get("sshsig")
    if not isinstance(armor, str) or set(answer) != {"sshsig"}:
        raise SignatureRefused("method", "this key signs with `ssh-keygen -Y sign`")
    trusted = keys.parse_line(key.ssh_public_key)
    sshsig.verify(armor, message, trusted, is_passkey=False)
    custody = "A2" if trusted.application else "A1"
    return Proof(key, armor, sshsig.dearmor(armor), {"sshsig": armor}, custody)


def _by_webcrypto(key: ReviewerKey, message: bytes, answer: Mapping[str, Any]) -> Proof:
    if set(answer) != {"signature"}:
        raise SignatureRefused("method", "this key signs in the browser that made it")
    signature = unb64(answer["signature"])
    webcrypto.verify(webcrypto.load_public_key(bytes(key.spki)), message, signature)
    return Proof(key, "", signature, dict(answer), "A1")


_PROVERS: Final = {
    "webauthn": _by_passkey,
    "ssh": _by_ssh,
    "ssh-sk": _by_ssh,
    "webcrypto": _by_webcrypto,
}


def display_member(shown: Display, coverage: str) -> dict[str, Any]:
    """The `display` member of a statement."""
    return {
        "renderer": RENDERER,
        "sha256": shown.sha256,
        "coverage": coverage,
        "warnings": list(shown.warnings),
    }


def signed_columns(pending: PendingStatement, proof: Proof, user: User) -> dict[str, Any]:
    """The columns that decisions and resolutions share."""
    message = bytes(pending.message)
    payload = bytes(pending.statement)
    return {
        "decision_id": envelopes.decision_id_of(message),
        "user": user,
        "key": proof.key,
        "method": proof.key.method,
        "custody": proof.custody,
        "statement": payload,
        "message": message,
        "envelope": envelopes.seal(payload, proof.key.key_id, proof.signature),
        "sshsig": proof.armor,
        "evidence": proof.evidence,
        "display": pending.display,
    }


def remember_use(cur: Any, key: ReviewerKey) -> None:
    """Write the key's counter and flags; the row has been locked since its signature was read."""
    cur.execute(
        "UPDATE approvals_reviewerkey SET sign_count = %s, backed_up = %s,"
        " last_used_at = clock_timestamp() WHERE id = %s",
        (key.sign_count, key.backed_up, key.id),
    )


def is_same_answer(evidence: Mapping[str, Any], answer: object) -> bool:
    """Whether an answer is the one that was recorded, member for member."""
    try:
        return dict(evidence) == dict(as_mapping(answer))
    except SignatureRefused:
        return False
