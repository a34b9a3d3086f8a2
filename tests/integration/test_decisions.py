"""Approve and deny, walked through the real services with a software passkey."""

from pathlib import Path

import pytest

from approvals import decisions, reading
from tests.support import approving

pytestmark = pytest.mark.django_db


def decide(asked: approving.Asked, who: approving.Person, verdict: str) -> decisions.Decided:
    ceremony = decisions.start(who.user, who.session, asked.id, verdict, key=who.key)
    return decisions.finish(
        who.user, who.session, ceremony.statement_id, who.sign(ceremony), approval_id=asked.id
    )


def test_one_passkey_approval_opens_the_gate(tmp_path: Path) -> None:
    reviewer, asked = approving.person(), approving.ask()
    assert approving.operation(asked.op_id).gate == "waiting"

    decided = decide(asked, reviewer, "approve")

    assert decided.status == "approved"
    assert approving.operation(asked.op_id).gate == "granted"
    document = reading.read_approval(asked.runtime.scope, asked.id)
    assert document is not None
    assert document["status"] == "approved"
    assert approving.stock_verify(document["decisions"][0], tmp_path)


def test_a_denial_ends_the_operation() -> None:
    reviewer, asked = approving.person(), approving.ask()
    assert decide(asked, reviewer, "deny").status == "denied"
    op = approving.operation(asked.op_id)
    assert (op.state, op.failure, op.gate) == ("FAILED", "denied", "refused")
