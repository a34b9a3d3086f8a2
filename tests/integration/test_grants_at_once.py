"""Forty processes with one grant: one receipt."""

from typing import Any

import pytest

from approvals import decisions, grants
from approvals.errors import Refused
from operations.models import Event
from tests.integration.test_decisions_at_once import together
from tests.support import approving, sealing
from tests.support.committed import _django_db_helper  # noqa: F401

pytestmark = pytest.mark.django_db


def test_n58_of_forty_consumers_exactly_one_gets_a_receipt() -> None:
    reviewer, asked = approving.person(), approving.ask()
    ceremony = decisions.start(reviewer.user, "s", asked.id, "approve", key=reviewer.key)
    decisions.finish(
        reviewer.user, "s", ceremony.statement_id, reviewer.sign(ceremony), approval_id=asked.id
    )
    sealing.seal()
    granted = grants.mint(asked.runtime, asked.id, "c0")

    def consume(claim_id: str) -> Any:
        return grants.consume(asked.runtime, granted["jti"], claim_id, granted["args_fingerprint"])

    results = together(*(lambda c=f"c{n}": consume(c) for n in range(40)))

    receipts = [one for one in results if isinstance(one, dict)]
    refusals = [one for one in results if isinstance(one, Refused)]
    assert (len(receipts), len(refusals)) == (1, 39), results
    assert {one.code for one in refusals} == {"ALREADY_CONSUMED"}
    assert Event.objects.filter(operation=asked.op_id, type="operation.invoked").count() == 1
