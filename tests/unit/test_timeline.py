"""The timeline's bands: from a claim to its doubt, whatever form the record of it has."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from console.presentation import timeline
from console.presentation.timeline import Band, Moment

START = datetime(2026, 11, 30, 13, 0, tzinfo=UTC)


def event(number: int, type_: str, to_state: str | None = None, **data: Any) -> Any:
    return SimpleNamespace(
        type=type_, to_state=to_state, from_state=None, data=data, actor="runtime:1", pk=number,
        version=number, at=START + timedelta(seconds=number),
    )  # fmt: skip


def attempt(number: int, standing: str, outcome: str | None = None) -> Any:
    return SimpleNamespace(number=number, standing=standing, outcome=outcome, worker="w")


def finding(second: int, outcome: str = "empty", lookup: str = "list") -> Any:
    at = START + timedelta(seconds=second)
    return SimpleNamespace(started_at=at, lookup=lookup, outcome=outcome, reason="")


def assemble(events: list[Any], attempts: list[Any], evidence: str = "") -> list[str]:
    lines = timeline.assemble(events, [], attempts, {}, evidence)
    return [
        f"band {line.number}: {line.decided}" if isinstance(line, Band) else line.title
        for line in lines
    ]


RECORDED = event(1, "operation.recorded")
SENT = event(2, "operation.invoked", attempt=1)
DOUBT = event(3, "operation.in_doubt", attempt=1)


def test_a_doubt_is_a_band_between_its_claim_and_its_doubt() -> None:
    events = [
        RECORDED,
        event(2, "operation.invoked", attempt=1),
        event(3, "operation.in_doubt", attempt=1),
    ]
    assert assemble(events, [attempt(1, "in_doubt", "lapsed")]) == [
        "Intent written", "Claim granted: attempt 1 may act", "band 1: ", "Marked unknown",
    ]  # fmt: skip


def test_reported_sends_get_their_band_too() -> None:
    events = [
        RECORDED,
        event(2, "operation.invoked", records=["r"]),
        event(3, "operation.in_doubt", attempt=1),
    ]
    assert assemble(events, [attempt(1, "in_doubt", "lapsed")]) == [
        "Intent written", "Send reported", "band 1: ", "Marked unknown",
    ]  # fmt: skip


def test_a_send_that_nobody_claimed_gets_its_band_before_the_doubt() -> None:
    events = [RECORDED, event(2, "operation.in_doubt", records=["r"])]
    assert assemble(events, [attempt(1, "in_doubt")]) == [
        "Intent written", "band 1: ", "Marked unknown by reports",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("standing", "says"),
    [("committed", "It was W3"), ("no_effect", "It was W2"), ("covered", "still not known")],
)
def test_a_band_says_what_became_of_its_own_attempt(standing: str, says: str) -> None:
    events = [SENT, DOUBT]
    tries = [attempt(1, standing, "unknown"), attempt(2, "committed", "committed")]
    assert says in assemble(events, tries, "elsewhere")[1]


def test_a_settled_attempt_without_doubt_has_no_band() -> None:
    events = [
        RECORDED,
        event(2, "operation.invoked", attempt=1),
        event(3, "operation.committed", attempt=1),
    ]
    lines = timeline.assemble(events, [], [attempt(1, "committed", "committed")], {}, "")
    assert all(isinstance(line, Moment) for line in lines)


def test_equal_looks_in_a_row_are_one_line_and_others_stand_between_events() -> None:
    events = [RECORDED, event(5, "operation.verdict", kind="waiting")]
    looks = [finding(2), finding(3), finding(6), finding(7, "cannot_look"), finding(8)]
    lines = timeline.assemble(events, looks, [], {}, "")
    assert [(line.title, line.times) for line in lines if isinstance(line, Moment)] == [
        ("Intent written", 1), ("Provider asked (list): nothing found", 2),
        ("Verdict: not visible yet", 1), ("Provider asked (list): nothing found", 1),
        ("Provider asked (list): no answer", 1), ("Provider asked (list): nothing found", 1),
    ]  # fmt: skip
