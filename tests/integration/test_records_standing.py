"""Report mode: what a batch leaves among the operations that stand open."""

from typing import Any

import pytest

from operations.models import Operation, Standing
from tests.support.records import record, report, runtime

pytestmark = pytest.mark.django_db


def test_a_new_call_stands_open_exactly_as_its_batch_leaves_it() -> None:
    report(
        runtime(),
        record("TOOL_INVOKED", "started"),
        record("TOOL_INVOKED", "done"),
        record("TOOL_COMMITTED", "done"),
        record("TOOL_UNKNOWN", "doubtful"),
        record("TOOL_FAILED", "declined", effect="none", permanent=True),
        record("TOOL_FAILED", "failed", effect="none"),
        record("RESULT_DELIVERED", "untried"),
    )
    expected = {
        "started": ("INVOKED", "lease"),
        "doubtful": ("UNKNOWN", "look"),
        "declined": ("FAILED", None),
        "failed": ("PENDING", "runtime"),
        "untried": ("PENDING", "runtime"),
    }
    fields = ("operation__tool_call_id", "state", "waiting_on")
    found = {call: rest for call, *rest in Standing.objects.values_list(*fields)}
    assert {call: tuple(rest) for call, rest in found.items()} == expected
    rows = Operation.objects.exclude(state="COMMITTED").values_list(
        "tool_call_id", "state", "waiting_on"
    )
    assert {call: (state, waits) for call, state, waits in rows} == expected


def test_a_new_call_of_a_run_that_has_ended_stands_open_once() -> None:
    of_no_call: dict[str, Any] = dict.fromkeys(("step", "tool_call_id", "tool"))
    report(
        runtime(),
        record("RUN_FINISHED", **of_no_call),
        record("RESULT_DELIVERED", "untried"),
        record("TOOL_FAILED", "failed", effect="none"),
    )
    operations = Operation.objects.exclude(state="COMMITTED")
    assert set(Standing.objects.values_list("operation_id", "state", "waiting_on")) == set(
        operations.values_list("id", "state", "waiting_on")
    )
    assert operations.count() == 2
