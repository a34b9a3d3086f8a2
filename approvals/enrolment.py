"""New signing keys: proof that the person holds them, then a second person's word.

The first key of an installation, and keys enrolled from the shell, are marked `bootstrap` and
need no countersignature; any other key signs nothing until a reviewer or an admin who is not its
owner has countersigned it. Approval keys are never login keys. The caller has checked that the
login is fresh (`freshness`).
"""

import json
import secrets
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from django.db import IntegrityError, connection, transaction

from approvals import audit, keys, permissions, signing, sshsig, webauthn, webcrypto
from approvals.encodings import b64, unb64
from approvals.errors import Refused, not_found, of_signature
from approvals.models import PendingStatement, ReviewerKey, User
from approvals.refusals import SignatureRefused
from operations import rows
from operations.ids import handle

KIND: Final = "enrolment"
CONTEXT: Final = b"countersign.key-enrolment.v1\n"
VALID_FOR: Final = timedelta(minutes=5)
METHODS: Final = ("webauthn", "webcrypto", "ssh")
MAX_NAME: Final = 60
_FIRST_KEY_LOCK: Final = 0x0C5E_1001


def start(user: User, session: str, method: str, name: str) -> dict[str, Any]:
    """A challenge for a new key: `{"enrolment_id", "method", "options", "message_b64"}`.

    `options` is for `navigator.credentials.create`; the other methods sign `message_b64`.
    """
    permissions.check_may(user, "enrol")
    name = _check_name(name)
    if method not in METHODS:
        raise Refused("VALIDATION_ERROR", f"A method is one of {', '.join(METHODS)}.")
    challenge = secrets.token_bytes(32)
    with transaction.atomic(), connection.cursor() as cur:
        pending = PendingStatement.objects.create(
            user=user,
            session=session,
            kind=KIND,
            statement=json.dumps({"method": method, "name": name}).encode(),
            message=CONTEXT + challenge,
            expires_at=rows.clock(cur) + VALID_FOR,
        )
    options = None
    if method == "webauthn":
        known = ReviewerKey.objects.filter(user=user, method="webauthn", revoked_at=None)
        options = webauthn.registration_options(
            signing.relying_party(),
            user_id=user.id,
            email=user.email,
            name=str(user),
            challenge=CONTEXT + challenge,
            known=[bytes(key.credential_id or b"") for key in known],
        )
    return {
        "enrolment_id": handle("sta", pending.id),
        "method": method,
        "name": name,
        "options": options,
        "message_b64": b64(CONTEXT + challenge),
        "expires_at": pending.expires_at,
    }


def finish(user: User, session: str, enrolment_id: str, answer: object) -> ReviewerKey:
    """Take the proof of the new key, once; raises Refused with what is wrong with it."""
    result: ReviewerKey | Refused
    with transaction.atomic(), connection.cursor() as cur:
        pending = signing.take(user, session, enrolment_id, KIND)
        now = rows.clock(cur)
        if pending.used_at is not None or pending.expires_at <= now:
            raise Refused("STATEMENT_STALE", "This enrolment was tried before or is too old.")
        pending.used_at = now
        try:
            permissions.check_may(user, "enrol")
            columns = _prove(pending, signing.as_mapping(answer))
            with transaction.atomic():
                result = _add(cur, user, columns, actor=f"user:{user.id}")
            pending.outcome = result.key_id
        except (SignatureRefused, Refused) as error:
            result = error if isinstance(error, Refused) else of_signature(error)
            pending.outcome = f"refused:{result.extra.get('check', result.code)}"
        pending.save(update_fields=["used_at", "outcome"])
    if isinstance(result, Refused):
        raise result
    return result


def _prove(pending: PendingStatement, answer: Mapping[str, Any]) -> dict[str, Any]:
    asked = json.loads(bytes(pending.statement))
    challenge = bytes(pending.message)
    if asked["method"] == "webauthn":
        return {"name": asked["name"], **_passkey(challenge, answer)}
    if asked["method"] == "webcrypto":
        return {"name": asked["name"], **_browser_key(challenge, answer)}
    if set(answer) != {"ssh_key", "sshsig"} or not all(isinstance(v, str) for v in answer.values()):
        raise SignatureRefused("encoding", "send the public key and the signed challenge")
    key = keys.parse_line(answer["ssh_key"])
    sshsig.verify(answer["sshsig"], challenge, key, is_passkey=False)
    return {"name": asked["name"], **ssh_columns(key)}


def _passkey(challenge: bytes, answer: Mapping[str, Any]) -> dict[str, Any]:
    party = signing.relying_party()
    proved = webauthn.check_registration(party, dict(answer), challenge)
    key = keys.load_spki(proved.spki)
    return {
        "method": "webauthn",
        "spki": proved.spki,
        "key_id": keys.key_id_of(key),
        "ssh_public_key": keys.sk_ecdsa(key, party.id).line,
        "credential_id": proved.credential_id,
        "rp_id": party.id,
        "sign_count": proved.sign_count,
        "backup_eligible": proved.backup_eligible,
        "backed_up": proved.backed_up,
    }


def _browser_key(challenge: bytes, answer: Mapping[str, Any]) -> dict[str, Any]:
    if set(answer) != {"spki", "signature"}:
        raise SignatureRefused("encoding", "send the public key and the signed challenge")
    spki = unb64(answer["spki"])
    key = webcrypto.load_public_key(spki)
    webcrypto.verify(key, challenge, unb64(answer["signature"]))
    return {
        "method": "webcrypto",
        "spki": keys.spki_of(key),
        "key_id": keys.key_id_of(key),
        "ssh_public_key": keys.plain_ecdsa(key).line,
    }


def ssh_columns(key: keys.SshKey) -> dict[str, Any]:
    """Columns of an SSH key; hardware keys are `ssh-sk`."""
    return {
        "method": "ssh-sk" if key.application else "ssh",
        "spki": keys.spki_of(key.key),
        "key_id": keys.key_id_of(key.key),
        "ssh_public_key": key.line,
    }


def add_from_shell(user: User, line: str, name: str, *, actor: str) -> ReviewerKey:
    """Enrol an SSH public key without proof or countersignature: the shell is trusted already."""
    permissions.check_may(user, "enrol")
    try:
        key = keys.parse_line(line)
    except SignatureRefused as refusal:
        raise of_signature(refusal) from refusal
    columns = {"name": _check_name(name), **ssh_columns(key)}
    with transaction.atomic(), connection.cursor() as cur:
        return _add(cur, user, columns, actor=actor, bootstrap=True)


def _add(
    cur: Any, user: User, columns: dict[str, Any], *, actor: str, bootstrap: bool = False
) -> ReviewerKey:
    cur.execute("SELECT pg_advisory_xact_lock(%s)", (_FIRST_KEY_LOCK,))
    bootstrap = bootstrap or not ReviewerKey.objects.exists()
    try:
        with transaction.atomic():
            key = ReviewerKey.objects.create(user=user, bootstrap=bootstrap, **columns)
    except IntegrityError:
        raise Refused(
            "ALREADY_DECIDED", "This key is enrolled already: one key belongs to one person, once."
        ) from None
    data = {
        "key_id": key.key_id,
        "user": str(user.id),
        "method": key.method,
        "custody": key.custody,
        "name": key.name,
        "bootstrap": bootstrap,
    }
    audit.note(cur, "key.enrolled", actor=actor, data=data)
    return key


def countersign(user: User, key_id: str) -> ReviewerKey:
    """A reviewer or an admin vouches for another person's new key; a click on a fresh login."""
    permissions.check_may(user, "countersign")
    with transaction.atomic(), connection.cursor() as cur:
        key = ReviewerKey.objects.select_for_update(of=("self",)).filter(key_id=key_id).first()
        if key is None:
            raise not_found()
        if key.user_id == user.id:
            raise Refused("SEPARATION_OF_DUTIES", "Somebody else countersigns your key.")
        if key.revoked_at is not None:
            raise Refused("ALREADY_DECIDED", "The key was revoked.")
        if key.countersigned_by_id is not None or key.bootstrap:
            raise Refused("ALREADY_DECIDED", "The key needs no countersignature any more.")
        key.countersigned_by = user
        key.save(update_fields=["countersigned_by"])
        audit.note(
            cur,
            "key.countersigned",
            actor=f"user:{user.id}",
            data={"key_id": key.key_id, "user": str(key.user_id)},
        )
    return key


def waiting_for_countersignature(user: User) -> list[ReviewerKey]:
    """Keys of other people that this person may vouch for."""
    if not permissions.may(user, "countersign"):
        return []
    waiting = ReviewerKey.objects.filter(bootstrap=False, countersigned_by=None, revoked_at=None)
    return list(waiting.exclude(user=user).select_related("user").order_by("created_at"))


def _check_name(name: str) -> str:
    name = name.strip()
    if not 0 < len(name) <= MAX_NAME or not name.isprintable():
        raise Refused("VALIDATION_ERROR", f"A key needs a name of up to {MAX_NAME} characters.")
    return name
