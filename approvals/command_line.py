"""Reviewers at a command line: the same decisions, signed with `ssh-keygen -Y sign`."""

from typing import Any

from approvals import decisions, permissions
from approvals.errors import Refused
from approvals.models import ReviewerKey, User
from approvals.signing import Ceremony
from operations.documents import rfc3339

SSH_METHODS = ("ssh-sk", "ssh")


def start(
    user: User, session: str, approval_id: str, verdict: str, reason: str = ""
) -> dict[str, Any]:
    """The exact bytes to sign: `{"statement_id", "message_b64", "statement", "expires_at"}`."""
    request = decisions.find(approval_id)
    decisions.check_person(user, request, verdict)
    key = _ssh_key(user, request.min_custody)
    return _told(decisions.start(user, session, approval_id, verdict, key=key, reason=reason))


def finish(
    user: User, session: str, approval_id: str, statement_id: str, sshsig: str
) -> dict[str, Any]:
    """Hand in the signature; `approval_id` must be the one that the statement is about."""
    decided = decisions.finish(
        user, session, statement_id, {"sshsig": sshsig}, approval_id=approval_id
    )
    return {
        "decision_id": decided.decision_id,
        "verdict": decided.verdict,
        "approval": {
            "id": decided.approval_id,
            "status": decided.status,
            "missing": decided.missing,
        },
        "replayed": decided.replayed,
    }


def _ssh_key(user: User, min_custody: str) -> ReviewerKey:
    """The SSH key this person signs with: the strongest, then the last one used."""
    usable = permissions.usable_keys(user, min_custody)
    for method in SSH_METHODS:
        for key in usable:
            if key.method == method:
                return key
    enrolled = ReviewerKey.objects.filter(user=user, method__in=SSH_METHODS, revoked_at=None)
    if enrolled:
        permissions.check_key(user, enrolled[0], min_custody)
    raise Refused(
        "FORBIDDEN",
        "You have no SSH key enrolled: manage.py enrol_key, or enrol one on your keys page.",
        check="credential",
    )


def _told(ceremony: Ceremony) -> dict[str, Any]:
    return {
        "statement_id": ceremony.statement_id,
        "message_b64": ceremony.message_b64,
        "statement": ceremony.statement,
        "display": ceremony.shown.text,
        "key_id": ceremony.key_id,
        "expires_at": rfc3339(ceremony.expires_at),
    }
