"""What findings prove together (design: reconciliation, "Classes" and "Verdicts")."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconcilers.evidence import Outcome, Stage
from reconcilers.verdicts import KINDS, judge
from tests.support.evidence import (
    EVENTS,
    GET,
    KEY,
    LIST,
    SEARCH,
    after,
    facts,
    hit,
    look,
    sighting,
)

NOW = after(2000)


def kind(looks, *, now=NOW, **changes):
    verdict = judge(facts(**changes), looks, now)
    assert verdict.kind in KINDS
    return verdict.kind


def code(looks, *, now=NOW, **changes):
    return judge(facts(**changes), looks, now).code


class TestWhatWasSeen:
    def test_one_verified_hit_is_committed(self):
        verdict = judge(facts(), [hit(95)], NOW)
        assert (verdict.kind, verdict.object_ids) == ("committed", ("pi_1",))

    def test_a_hit_beats_any_number_of_misses_before_and_after(self):
        misses = [look("empty", at) for at in (1, 1001, 1010, 1020, 1500)]
        assert kind([*misses, hit(500)]) == "committed"

    def test_a_hit_that_was_not_read_again_settles_nothing(self):
        rumour = look(
            "hit", 95, lookup="search", lookup_class="C", sightings=(sighting(verified=False),)
        )
        assert kind([rumour], now=after(200)) == "waiting"

    def test_a_marker_in_another_case_is_not_ours(self):
        assert kind([hit(95, marker=KEY.upper())], now=after(200)) == "waiting"

    @pytest.mark.parametrize(
        ("change", "difference"),
        [
            ({"amount_minor": 2_500}, "amount"),
            ({"currency": "EUR"}, "currency"),
            ({"mode": "live"}, "mode"),
            ({"fingerprint": "jcs-sha256:other"}, "arguments"),
        ],
    )
    def test_a_hit_with_other_content_is_a_conflict(self, change, difference):
        verdict = judge(facts(fingerprint="jcs-sha256:ours"), [hit(95, **change)], NOW)
        assert (verdict.kind, verdict.differences) == ("conflict", (difference,))

    def test_what_is_not_known_is_not_compared(self):
        assert kind([hit(95, amount_minor=None, currency=None)]) == "committed"
        assert kind([hit(95)], amount_minor=None, currency=None) == "committed"
        assert kind([hit(95, currency="usd")]) == "committed"

    def test_a_reported_object_with_another_operations_marker_is_a_conflict(self):
        assert kind([hit(95, marker="b" * 64)], reported_ids=frozenset({"pi_1"})) == "conflict"

    def test_a_reported_object_without_any_marker_is_believed(self):
        assert kind([hit(95, marker=None)], reported_ids=frozenset({"pi_1"})) == "committed"
        assert kind([hit(95, marker=None)], now=after(200)) == "waiting"

    def test_two_objects_with_the_marker_are_a_duplicate_whatever_their_status(self):
        both = look("hit", 95, sightings=(sighting(), sighting(id="pi_2", status="canceled")))
        verdict = judge(facts(), [both], NOW)
        assert (verdict.kind, set(verdict.object_ids)) == ("duplicate", {"pi_1", "pi_2"})

    def test_an_intent_and_the_charge_that_copied_its_marker_are_no_duplicate(self):
        looks = [hit(95), hit(96, id="ch_1", kind="charge")]
        assert kind(looks) == "committed"

    def test_a_committed_operation_whose_key_another_object_carries_is_a_duplicate(self):
        reported = {"state": "COMMITTED", "provider_ref_kind": "payment_intent"}
        assert kind([hit(95)], provider_ref="pi_9", **reported) == "duplicate"
        assert kind([hit(95)], provider_ref="pi_1", **reported) == "committed"
        assert kind([], provider_ref="pi_9", **reported) == "committed"

    def test_a_reference_of_another_kind_or_of_none_is_no_duplicate(self):
        """`order_7` may be the runtime's own name of it: only a form that says so is a kind."""
        charge = {"provider_ref": "ch_9", "provider_ref_kind": "charge"}
        assert kind([hit(95)], state="COMMITTED", **charge) == "committed"
        seen = hit(95, id="order_8", kind="order")
        assert kind([seen], state="COMMITTED", provider_ref="order_7") == "committed"

    @pytest.mark.parametrize("state", ["PENDING", "FAILED"])
    def test_a_hit_after_absence_was_concluded_is_late(self, state):
        assert kind([hit(95)], state=state) == "committed_late"

    def test_an_open_effect_is_in_flight_and_no_time_makes_it_absent(self):
        pending = hit(95, status="processing", stage=Stage.IN_FLIGHT)
        later = [look("empty", at, lookup="get", lookup_class="A") for at in (5000, 5010)]
        for now in (after(100), after(10**6)):
            assert kind([pending, *later], now=now) == "in_flight"

    def test_an_open_effect_past_the_deadline_is_a_persons_business_and_still_in_flight(self):
        pending = hit(95, status="processing", stage=Stage.IN_FLIGHT)
        verdict = judge(facts(), [pending], after(10**6))
        assert (verdict.kind, verdict.escalate) == ("in_flight", "deadline")

    def test_an_effect_that_was_refused_is_for_a_person(self):
        assert code([hit(95, status="canceled", stage=Stage.NOT_REACHED)]) == "effect_not_reached"

    def test_an_effect_once_reached_stays_reached(self):
        looks = [hit(95), hit(200, status="failed", stage=Stage.NOT_REACHED)]
        verdict = judge(facts(), looks, NOW)
        assert (verdict.kind, verdict.sightings[0].status) == ("committed", "failed")


class TestAbsence:
    PAIR = [look("empty", 1001), look("empty", 1010)]

    def test_two_agreeing_reads_after_the_settle_point_prove_it(self):
        verdict = judge(facts(), self.PAIR, NOW)
        assert verdict.kind == "absent"
        assert verdict.proof is not None
        assert verdict.proof.settles_at == after(1000)
        assert verdict.proof.lookup_class == "B"

    @pytest.mark.parametrize(
        "change",
        [
            {"started_at": after(999)},
            {"complete": False},
            {"exhaustive": False},
            {"control_passed": False},
            {"covers_from": None},
            {"covers_from": after(1)},
            {"lookup_class": "C"},
            {"lookup_class": "E"},
            {"lookup_class": "R"},
            {"lookup_class": "N"},
            {"outcome": Outcome.CANNOT_LOOK},
            {"outcome": Outcome.PENDING},
        ],
    )
    def test_each_condition_is_needed(self, change):
        assert kind([replace(self.PAIR[0], **change), self.PAIR[1]]) != "absent"

    def test_one_read_is_not_enough_and_neither_are_two_at_once(self):
        assert code([look("empty", 1001)]) == "one_more_read"
        assert code([look("empty", 1001), look("empty", 1005.9)]) == "one_more_read"
        assert kind([look("empty", 1001), look("empty", 1006)]) == "absent"

    def test_a_read_by_an_id_proves_nothing_about_other_objects(self):
        by_id = {"lookup": "get", "lookup_class": "A", "exhaustive": False}
        assert kind([look("empty", 1001, **by_id), look("empty", 1010, **by_id)]) != "absent"

    def test_an_exact_read_by_our_key_proves_it_and_needs_no_window(self):
        by_key = {"lookup": "key", "lookup_class": "A", "covers_from": None}
        assert kind([look("empty", 1001, **by_key), look("empty", 1010, **by_key)]) == "absent"

    def test_nothing_is_proved_while_nobody_knows_when_the_sender_stops(self):
        assert code(self.PAIR, emits_until=None) == "sender_unknown"

    def test_a_tombstone_needs_no_timing(self):
        taken = look("empty", 1, lookup="tombstone", lookup_class="T", covers_from=None)
        assert kind([taken], now=after(2), emits_until=None) == "absent"

    def test_documented_lag_moves_the_settle_point(self):
        slow = replace(LIST, lag=timedelta(seconds=60))
        assert kind(self.PAIR, ways=(slow,)) == "waiting"
        later = [look("empty", 1060), look("empty", 1066)]
        assert kind(later, ways=(slow,)) == "absent"

    def test_a_rumour_that_could_not_be_checked_makes_older_reads_worthless(self):
        rumour = look(
            "cannot_look",
            1020,
            lookup="search",
            lookup_class="C",
            sightings=(sighting(verified=False),),
        )
        assert kind([*self.PAIR, rumour]) != "absent"
        fresh = [look("empty", 1030), look("empty", 1036)]
        assert kind([*self.PAIR, rumour, *fresh]) == "absent"


class TestWaiting:
    def test_it_says_when_it_settles(self):
        verdict = judge(facts(), [look("empty", 95)], after(96))
        assert (verdict.kind, verdict.code) == ("waiting", "before_settle_point")
        assert verdict.settles_at == after(1000)

    def test_not_looked_yet(self):
        assert code([], now=after(91)) == "not_looked_yet"

    def test_a_failed_look_is_never_an_empty_one(self):
        failed = [look("cannot_look", at) for at in (1001, 1010, 1020)]
        verdict = judge(facts(failures=3), failed, NOW)
        assert (verdict.kind, verdict.escalate, verdict.evidence) == ("cannot_look", "", 0)

    def test_many_failures_call_a_person(self):
        failed = [look("cannot_look", 1001)]
        assert judge(facts(failures=9), failed, NOW).escalate == "cannot_look_repeatedly"

    def test_the_deadline_calls_a_person(self):
        assert code([look("empty", 95)], now=after(86_400)) == "deadline"

    def test_a_key_about_to_expire_calls_a_person(self):
        changes = {
            "tool_class": "idempotent",
            "accepts_key": True,
            "key_expires_at": after(2000 + 7200),
        }
        assert judge(facts(**changes), [], NOW).escalate == "key_expires_soon"

    def test_nobody_to_ask(self):
        assert code([], blind="There is no provider account called stripe here.") == "nobody_to_ask"
        assert code([], ways=()) == "no_lookup"

    def test_search_alone_waits_for_a_hit_and_calls_a_person_where_money_is_at_stake(self):
        empty = [look("empty", 98, lookup="search", lookup_class="C")]
        assert code(empty, ways=(SEARCH,), now=after(99)) == "cannot_prove_absence"
        assert code(empty, ways=(SEARCH,), now=after(4601)) == "cannot_be_proved"
        no_money = {"ways": (SEARCH,), "amount_minor": None}
        assert code(empty, now=after(4601), **no_money) == "cannot_prove_absence"


# Properties --------------------------------------------------------------------------------------

_outcomes = st.sampled_from(["empty", "cannot_look", "pending", "hit"])
_times = st.floats(min_value=0, max_value=5000)


@st.composite
def looks_of(draw, classes=("A", "B", "C", "E", "R", "N"), outcomes=_outcomes, verified=None):
    outcome = draw(outcomes)
    seen: tuple[Any, ...] = ()
    if outcome in {"hit", "pending"}:
        stage = Stage.IN_FLIGHT if outcome == "pending" else draw(st.sampled_from(Stage))
        seen = (
            sighting(
                stage=stage,
                status=stage.value,
                verified=draw(st.booleans()) if verified is None else verified,
                marker=draw(st.sampled_from([KEY, KEY, None, "other"])),
            ),
        )
    return look(
        outcome,
        draw(_times),
        lookup=draw(st.sampled_from(["get", "list", "search", "events"])),
        lookup_class=draw(st.sampled_from(classes)),
        complete=draw(st.booleans()),
        exhaustive=draw(st.booleans()),
        control_passed=draw(st.booleans()),
        sightings=seen,
    )


_facts = st.builds(
    facts,
    state=st.sampled_from(["UNKNOWN", "PENDING", "FAILED", "COMMITTED", "INVOKED"]),
    tool_class=st.sampled_from(["safe", "idempotent", "unsafe"]),
    emits_until=st.sampled_from([None, after(0), after(100), after(4000)]),
    closed=st.booleans(),
    fenced=st.booleans(),
    reported_ids=st.sampled_from([frozenset(), frozenset({"pi_1"})]),
    ways=st.sampled_from([(GET, LIST, SEARCH), (SEARCH,), (SEARCH, EVENTS), ()]),
    failures=st.integers(0, 20),
)
_moments = st.floats(min_value=5000, max_value=200_000).map(after)


@given(_facts, st.lists(looks_of(), max_size=8), _moments, st.randoms(use_true_random=False))
def test_no_order_of_findings_changes_the_verdict(known, looks, now, random):
    shuffled = list(looks)
    random.shuffle(shuffled)
    first, second = judge(known, looks, now), judge(known, shuffled, now)
    assert (first.kind, first.object_ids) == (second.kind, second.object_ids)


@given(_facts, st.lists(looks_of(), max_size=8), _moments)
def test_no_further_look_of_one_object_flips_committed_back(known, looks, now):
    known = replace(known, state="UNKNOWN")
    looks = [*looks, hit(300)]
    assert judge(known, looks, now).kind in {"committed", "conflict"}
    if all(seen.marker in {KEY, None} for each in looks for seen in each.sightings):
        assert judge(known, looks, now).kind == "committed"


@given(_facts, st.lists(looks_of(classes=("C", "E", "N", "R")), max_size=10), _moments)
def test_no_set_of_c_e_n_findings_proves_absence(known, looks, now):
    assert judge(known, looks, now).kind != "absent"


@given(
    _facts, st.lists(looks_of(outcomes=st.just("cannot_look")), min_size=1, max_size=10), _moments
)
def test_cannot_look_never_counts_as_empty(known, looks, now):
    assert judge(known, looks, now).kind not in {"absent", "committed_late", "in_flight"}
    assert judge(known, looks, now).evidence == 0


@given(_facts, st.lists(looks_of(outcomes=st.sampled_from(["empty", "cannot_look"]))), _moments)
def test_a_hit_beats_any_number_of_misses(known, misses, now):
    verdict = judge(replace(known, state="UNKNOWN"), [*misses, hit(1)], now)
    assert verdict.kind == "committed"


@given(_facts, st.lists(looks_of(), max_size=8), _moments)
def test_absence_always_has_a_proof_that_began_after_the_settle_point(known, looks, now):
    verdict = judge(known, looks, now)
    if verdict.kind == "absent":
        assert verdict.proof is not None
        assert len(verdict.proof.reads) == 2
        for read in verdict.proof.reads:
            assert read.started_at >= known.settles_at()
            assert read.outcome is Outcome.EMPTY
            assert read.lookup_class in {"A", "B"}


@given(_facts, st.lists(looks_of(), max_size=8), _moments)
def test_unknown_always_has_a_reason(known, looks, now):
    verdict = judge(known, looks, now)
    assert verdict.kind in KINDS
    assert verdict.code
