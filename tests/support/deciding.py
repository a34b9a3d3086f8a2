"""Walking a decision in tests: begin, sign, end, and what it is refused with."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection

from approvals import decisions
from approvals.errors import Refused
from approvals.models import ApprovalRequest
from approvals.signing import Ceremony
from tests.support import approving, sealing


def begin(asked: approving.Asked, who: approving.Person, verdict: str = "approve") -> Ceremony:
    return decisions.start(who.user, who.session, asked.id, verdict, key=who.key)


def end(asked: approving.Asked, who: approving.Person, ceremony: Ceremony, answer: Any) -> Any:
    decided = decisions.finish(
        who.user, who.session, ceremony.statement_id, answer, approval_id=asked.id
    )
    sealing.seal()
    return decided


def decide(asked: approving.Asked, who: approving.Person, verdict: str = "approve") -> Any:
    ceremony = begin(asked, who, verdict)
    return end(asked, who, ceremony, who.sign(ceremony))


def refused(code: str, work: Callable[[], Any], check: str | None = None) -> Refused:
    with pytest.raises(Refused) as error:
        work()
    assert error.value.code == code, error.value
    if check is not None:
        assert error.value.extra["check"] == check
    return error.value


def status(asked: approving.Asked) -> str:
    return ApprovalRequest.objects.get(id=asked.opened.id).status


def expire(asked: approving.Asked) -> None:
    """Let its time pass: the guard forbids editing a request, so the clock is moved by hand."""
    with connection.cursor() as cur:
        cur.execute("SET LOCAL session_replication_role = replica")
        cur.execute(
            "UPDATE approvals_approvalrequest SET expires_at = now() - interval '1 second'"
            " WHERE id = %s",
            (asked.opened.id,),
        )
        cur.execute("SET LOCAL session_replication_role = origin")
