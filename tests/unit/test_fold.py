"""The fold of a set of records (design: the domain, rule 7)."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operations import states
from operations.fold import Fact, fold

INVOKED = Fact("TOOL_INVOKED", "a")
SENDING = Fact("TOOL_SENDING", "a")
COMMITTED = Fact("TOOL_COMMITTED", "a", provider_ref="pi_1")
UNKNOWN = Fact("TOOL_UNKNOWN", "a")
RETRYABLE = Fact("TOOL_FAILED", "a", effect="none")
PERMANENT = Fact("TOOL_FAILED", "a", effect="none", permanent=True)
VAGUE = Fact("TOOL_FAILED", "a")
REPLAYED = Fact("TOOL_COMMITTED", "a", replayed=True)


def of(attempt: str, fact: Fact) -> Fact:
    return fact._replace(attempt_id=attempt)


@pytest.mark.parametrize(
    ("facts", "state"),
    [
        ([], states.PENDING),
        ([INVOKED], states.INVOKED),
        ([INVOKED, RETRYABLE], states.PENDING),
        ([PERMANENT], states.FAILED),
        ([RETRYABLE, PERMANENT], states.FAILED),
        ([VAGUE], states.UNKNOWN),
        ([UNKNOWN, PERMANENT], states.UNKNOWN),
        ([UNKNOWN, COMMITTED], states.COMMITTED),
        ([REPLAYED], states.COMMITTED),
        ([RETRYABLE, of("b", INVOKED)], states.UNKNOWN),
        ([INVOKED, of("b", INVOKED)], states.INVOKED),
        ([PERMANENT, of("b", RETRYABLE)], states.FAILED),
        ([UNKNOWN, of("b", COMMITTED)], states.COMMITTED),
        ([UNKNOWN, of("b", PERMANENT)], states.UNKNOWN),
    ],
)
def test_a_set_has_one_state(facts: list[Fact], state: str) -> None:
    for order in itertools.permutations(facts):
        assert fold(order).state == state


@pytest.mark.parametrize(
    ("facts", "kinds"),
    [
        ([COMMITTED], set()),
        ([COMMITTED, of("b", COMMITTED)], {"duplicate_effect"}),
        ([COMMITTED, of("b", REPLAYED)], set()),
        ([COMMITTED, COMMITTED._replace(provider_ref="pi_2")], {"duplicate_effect"}),
        (
            [COMMITTED._replace(result_sha256=b"1"), COMMITTED._replace(result_sha256=b"2")],
            {"effect_mismatch"},
        ),
        ([COMMITTED, of("b", UNKNOWN)], {"possible_duplicate"}),
        ([COMMITTED, of("b", INVOKED)], {"possible_duplicate"}),
        ([COMMITTED, of("b", RETRYABLE)], set()),
        ([COMMITTED, of("b", PERMANENT)], {"permanent_failure"}),
        ([UNKNOWN, PERMANENT], {"permanent_failure"}),
    ],
)
def test_incidents_follow_from_the_set(facts: list[Fact], kinds: set[str]) -> None:
    for order in itertools.permutations(facts):
        assert fold(order).incidents == kinds


def test_a_provider_that_dedupes_makes_two_sends_into_one_effect() -> None:
    twice = [COMMITTED, of("b", COMMITTED), of("c", UNKNOWN)]
    assert fold(twice, dedupes=True).incidents == set()
    other = [COMMITTED, of("b", COMMITTED)._replace(provider_ref="pi_2")]
    assert fold(other, dedupes=True).incidents == {"duplicate_effect"}


def test_a_tool_that_only_reads_duplicates_nothing() -> None:
    assert fold([COMMITTED, of("b", COMMITTED), of("c", UNKNOWN)], harmless=True).incidents == set()


def test_what_could_be_tried_again_is_over_once_the_intent_is_closed() -> None:
    assert fold([RETRYABLE], closed=True).failure == "cancelled"
    assert fold([PERMANENT], closed=True).failure == "provider_declined"
    assert fold([UNKNOWN], closed=True).state == states.UNKNOWN
    assert fold([INVOKED], closed=True).state == states.INVOKED


TYPES = ("TOOL_INVOKED", "TOOL_SENDING", "TOOL_COMMITTED", "TOOL_FAILED", "TOOL_UNKNOWN")
FACTS = st.builds(
    Fact,
    st.sampled_from(TYPES),
    st.sampled_from(["", "a", "b"]),
    st.sampled_from([None, "none"]),
    st.booleans(),
    st.booleans(),
    st.sampled_from([None, "pi_1", "pi_2"]),
    st.sampled_from([None, b"1", b"2"]),
)


@given(st.lists(FACTS, max_size=8), st.randoms(), st.booleans(), st.booleans(), st.booleans())
def test_no_order_and_no_repetition_changes_anything(
    facts: list[Fact], random: object, dedupes: bool, harmless: bool, closed: bool
) -> None:
    rules = {"dedupes": dedupes, "harmless": harmless, "closed": closed}
    shuffled = facts + facts[: len(facts) // 2]
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    one, other = fold(facts, **rules), fold(shuffled, **rules)
    assert (one.state, one.failure, one.incidents) == (other.state, other.failure, other.incidents)


@given(st.lists(FACTS, max_size=6), FACTS)
def test_nothing_undoes_a_commit(facts: list[Fact], more: Fact) -> None:
    if fold(facts).state == states.COMMITTED:
        assert fold([*facts, more]).state == states.COMMITTED
