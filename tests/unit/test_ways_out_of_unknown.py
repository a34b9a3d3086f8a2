"""Which exit a verdict opens, when the next look is, and how it is said."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconcilers import cadence, sentences
from reconcilers.evidence import Stage
from reconcilers.exits import way_out
from reconcilers.verdicts import Verdict, judge
from tests.support.evidence import SEARCH, after, facts, hit, look

NOW = after(2000)
PAIR = [look("empty", 1001), look("empty", 1010)]
IDEMPOTENT: dict[str, Any] = {
    "tool_class": "idempotent",
    "accepts_key": True,
    "key_expires_at": after(24 * 3600),
    "key_retention": timedelta(hours=24),
}


def exit_of(looks, *, now=NOW, **changes):
    known = facts(**changes)
    verdict = judge(known, looks, now)
    return way_out(known, verdict, looks, now)


def move(looks, **changes):
    found = exit_of(looks, **changes)
    return found.move, found.reason or found.incident


class TestSafe:
    def test_a_tool_that_only_reads_is_released_at_once(self):
        assert move([], tool_class="safe", ways=()) == ("release", "safe")

    def test_unless_its_intent_is_closed(self):
        assert move([], tool_class="safe", closed=True)[0] == "settle_absent"


class TestCommit:
    @pytest.mark.parametrize("state", ["UNKNOWN", "PENDING", "FAILED", "INVOKED"])
    def test_a_hit_commits(self, state):
        assert exit_of([hit(95)], state=state).move == "commit"

    def test_a_live_attempt_whose_sends_are_deduped_reports_for_itself(self):
        live = IDEMPOTENT | {"state": "INVOKED"}
        assert move([hit(95)], now=after(96), **live) == ("hold", "attempt_is_live")
        twice = exit_of([hit(95), hit(96, id="pi_2")], now=after(97), **live)
        assert twice.incident == "duplicate_effect"

    def test_a_committed_operation_is_only_counted(self):
        assert move([hit(95)], state="COMMITTED") == ("hold", "counted")


class TestReplay:
    def test_one_finished_look_within_retention_is_enough(self):
        assert move([look("empty", 95)], now=after(96), **IDEMPOTENT) == ("release", "replay")

    def test_a_failed_look_is_not_a_finished_one(self):
        found = exit_of([look("cannot_look", 95)], now=after(96), **IDEMPOTENT)
        assert (found.move, found.waiting_on) == ("hold", "look")

    def test_a_look_from_before_this_doubt_does_not_count(self):
        assert exit_of([look("empty", 80)], now=after(96), **IDEMPOTENT).move == "hold"

    @pytest.mark.parametrize(
        "change",
        [
            {"accepts_key": False},
            {"key_expires_at": None},
            {"key_retention": None},
            {"key_expires_at": after(96 + 3600)},
            {"first_send_is_known": False},
            {"is_compensated": True},
            {"tool_class": "unsafe"},
            {"closed": True},
        ],
    )
    def test_each_condition_is_needed(self, change):
        assert exit_of([look("empty", 95)], now=after(96), **(IDEMPOTENT | change)).move == "hold"

    def test_never_while_the_effect_is_open_or_contradicted(self):
        open_effect = hit(95, status="processing", stage=Stage.IN_FLIGHT)
        assert exit_of([open_effect], now=after(96), **IDEMPOTENT).move == "hold"
        assert exit_of([hit(95, amount_minor=1)], now=after(96), **IDEMPOTENT).move == "hold"

    def test_a_refused_effect_may_be_asked_for_again_under_the_same_key(self):
        refused = hit(95, status="failed", stage=Stage.NOT_REACHED)
        assert move([refused], now=after(96), **IDEMPOTENT) == ("release", "replay")


class TestAbsent:
    def test_proved_absence_releases(self):
        assert move(PAIR) == ("release", "absent")
        assert move(PAIR, **IDEMPOTENT) == ("release", "absent")

    def test_a_closed_intent_is_never_released(self):
        assert exit_of(PAIR, closed=True).move == "settle_absent"

    def test_an_unsafe_tool_needs_every_attempt_fenced(self):
        found = exit_of(PAIR, fenced=False)
        assert (found.move, found.reason, found.waiting_on) == ("hold", "unfenced", "person")
        assert move(PAIR, fenced=False, **IDEMPOTENT) == ("release", "absent")

    def test_outside_retention_an_idempotent_tool_counts_as_unsafe(self):
        late = IDEMPOTENT | {"key_expires_at": after(100)}
        assert exit_of(PAIR, fenced=False, **late).reason == "unfenced"

    def test_a_tombstone_needs_no_fence(self):
        taken = look("empty", 1, lookup="tombstone", lookup_class="T")
        assert move([taken], fenced=False) == ("release", "absent")

    def test_much_money_needs_a_signature(self):
        found = exit_of(PAIR, signed_release_above=24_999)
        assert (found.reason, found.waiting_on) == ("signed_release_needed", "person")
        assert move(PAIR, signed_release_above=25_000) == ("release", "absent")


class TestPeople:
    def test_conflict_and_duplicate_open_an_incident_and_choose_nothing(self):
        conflict = exit_of([hit(95, amount_minor=1)])
        assert (conflict.move, conflict.waiting_on) == ("hold", "person")
        assert conflict.incident == "effect_mismatch"
        double = exit_of([hit(95), hit(96, id="pi_2")])
        assert (double.move, double.waiting_on) == ("hold", "person")
        assert double.incident == "duplicate_effect"

    def test_a_duplicate_is_an_incident_in_every_state(self):
        for state in ("PENDING", "COMMITTED", "FAILED", "INVOKED"):
            found = exit_of([hit(95), hit(96, id="pi_2")], state=state)
            assert (found.move, found.incident) == ("hold", "duplicate_effect")

    def test_nobody_to_ask_waits_for_a_person(self):
        assert exit_of([], blind="There is no account.").waiting_on == "person"


class TestCadence:
    def when(self, looks, dice, *, now, done=0, retry_after=None, **changes):
        known = facts(**changes)
        verdict = judge(known, looks, now)
        return cadence.next_look(
            known,
            verdict,
            now=now,
            looks_done=done,
            retry_after_seconds=retry_after,
            dice=lambda: dice,
        )

    def test_fast_at_first_then_slower(self):
        early = [look("empty", 95)]
        assert self.when(early, 1.0, now=after(100), done=0) == after(102)
        assert self.when(early, 1.0, now=after(100), done=4) == after(130)

    def test_never_past_the_settle_point_without_looking_there(self):
        when = self.when([look("empty", 95)], 0.5, now=after(990), done=6)
        assert after(1000) < when < after(1004)

    def test_the_second_agreeing_read_is_five_to_thirty_seconds_later(self):
        for dice in (0.0, 1.0):
            when = self.when([look("empty", 1001)], dice, now=after(1001), done=9)
            assert timedelta(seconds=5) < when - after(1001) < timedelta(seconds=30)

    def test_hourly_in_the_end(self):
        when = self.when([look("empty", 95)], 0.0, now=after(100), done=40, emits_until=None)
        assert when - after(100) == timedelta(minutes=45)

    def test_retry_after_is_obeyed(self):
        when = self.when([look("cannot_look", 95)], 0.0, now=after(100), retry_after=60.0)
        assert when >= after(160)

    @given(st.integers(0, 50), st.floats(0, 1), st.integers(0, 30))
    def test_there_is_always_a_next_look_in_the_future(self, done, dice, failures):
        for looks in ([], [look("empty", 95)], [look("cannot_look", 95)], PAIR, [hit(95)]):
            when = self.when(looks, dice, now=NOW, done=done, failures=failures)
            assert NOW < when <= NOW + timedelta(hours=1)

    def recheck(self, now, **changes):
        return cadence.next_recheck(
            facts(**changes),
            state=changes["state"],
            since=after(500),
            now=now,
            looks_done=20,
            dice=lambda: 0.0,
        )

    def test_effects_are_counted_again_at_the_settle_point_and_after_24_and_72_hours(self):
        spread = timedelta(seconds=0.2)
        assert self.recheck(after(600), state="COMMITTED") == after(1000) + spread
        day = after(500) + timedelta(hours=24)
        assert self.recheck(after(1001), state="COMMITTED") == day + spread
        third = after(500) + timedelta(hours=72)
        assert self.recheck(day + timedelta(minutes=1), state="FAILED") == third + spread
        assert self.recheck(third + timedelta(minutes=1), state="COMMITTED") is None


class TestSentences:
    def say(self, looks, *, now=NOW, next_check_at=None, **changes):
        known = facts(**changes)
        verdict = judge(known, looks, now)
        found = way_out(known, verdict, looks, now)
        return sentences.say(known, verdict, looks, exit_=found, next_check_at=next_check_at)

    def test_waiting_names_the_times_the_horizon_and_the_next_look(self):
        looks = [look("empty", 91), look("empty", 200)]
        assert self.say(looks, now=after(300), next_check_at=after(1001)) == (
            "Stripe's list found nothing at 20:01:31, 20:03:20 UTC. An empty answer can be trusted"
            " from 20:16:40 UTC (client timeout 80 s + 15 min request lifetime at the provider)."
            " Next look at 20:16:41 UTC."
        )

    def test_search_says_that_it_cannot_prove_absence(self):
        looks = [look("empty", 91, lookup="search", lookup_class="C")]
        said = self.say(looks, now=after(99), next_check_at=after(101), ways=(SEARCH,))
        assert "cannot prove absence" in said
        assert "Search found nothing at 20:01:31 UTC." in said

    def test_a_failed_look_says_why_and_what_it_means(self):
        said = self.say([look("cannot_look", 91)], next_check_at=after(99))
        assert said.startswith("Stripe could not be asked at 20:01:31 UTC: no answer within 15 s.")
        assert "says nothing about the call" in said

    def test_a_conflict_says_what_differs(self):
        said = self.say([hit(95, amount_minor=2500)])
        assert "pi_1 (2500 USD)" in said
        assert "its amount is not what was asked for (asked for: 25000 USD)" in said

    def test_every_verdict_has_a_sentence(self):
        cases: list[Any] = [
            ([hit(95)], {}),
            ([hit(95)], {"state": "FAILED"}),
            ([hit(95, stage=Stage.IN_FLIGHT, status="processing")], {}),
            ([hit(95, stage=Stage.NOT_REACHED, status="canceled")], {}),
            ([hit(95), hit(96, id="pi_2")], {}),
            (PAIR, {}),
            (PAIR, {"fenced": False}),
            (PAIR, {"emits_until": None}),
            ([look("empty", 1001)], {}),
            ([], {}),
            ([], {"ways": ()}),
            ([], {"blind": "Nobody."}),
            ([], {"state": "COMMITTED"}),
            ([], {"deadline_at": NOW}),
        ]
        for looks, changes in cases:
            said = self.say(looks, next_check_at=after(3000), **changes)
            assert said.endswith(".")
            assert "  " not in said

    def test_no_sentence_is_without_its_verdict(self):
        verdict = Verdict(kind="waiting", code="not_looked_yet")
        assert sentences.say(facts(), verdict, []) == "Stripe has not been asked yet."
