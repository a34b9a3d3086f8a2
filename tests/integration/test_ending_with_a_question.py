"""A call that is no longer wanted is no longer asked about, in the same moment."""

import pytest

from approvals import endings
from approvals.models import ApprovalRequest
from operations.errors import DomainError
from tests.support import approving

pytestmark = pytest.mark.django_db


def status(asked: approving.Asked) -> str:
    return ApprovalRequest.objects.get(operation=asked.op_id).status


@pytest.mark.parametrize("end", [endings.cancel, endings.close])
def test_the_question_is_withdrawn_with_the_call(end) -> None:
    asked = approving.ask()
    key = approving.operation(asked.op_id).idem_key
    answer = end(asked.runtime, key)
    assert answer["operation"]["failure"] == "cancelled"
    assert status(asked) == "withdrawn"


def test_what_cannot_be_cancelled_keeps_its_question() -> None:
    asked = approving.ask()
    with pytest.raises(DomainError) as error:
        endings.cancel(asked.runtime, "no-such-key")
    assert error.value.code == "NOT_FOUND"
    assert status(asked) == "pending"
