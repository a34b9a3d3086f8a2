"""Looks that were told, made elsewhere, or made about an unknown time: what they must not prove."""

from datetime import timedelta

import pytest

from reconcilers.exits import may_replay, way_out
from reconcilers.sentences import say
from reconcilers.verdicts import judge
from tests.support.evidence import EVENTS, GET, LIST, after, facts, look, sighting

NOW = after(2000)
PAIR = (1001, 1010)


def webhook(at, **changes):
    """What a message shows is left among the findings, and nobody has read it yet."""
    return look(
        "hit",
        at,
        lookup="webhook",
        lookup_class="E",
        complete=False,
        exhaustive=False,
        control_passed=False,
        covers_from=None,
        sightings=(sighting(verified=False, **changes),),
    )


def replayable(**changes):
    return facts(
        tool_class="idempotent",
        accepts_key=True,
        key_expires_at=after(86_400),
        key_retention=timedelta(hours=24),
        ways=(GET, LIST, EVENTS),
        **changes,
    )


class TestWebhooks:
    @pytest.mark.parametrize("others", [[], [look("cannot_look", 96)], [look("cannot_look", 200)]])
    def test_a_webhook_is_no_look_that_allows_a_replay(self, others):
        known, looks, now = replayable(), [*others, webhook(150)], after(300)
        verdict = judge(known, looks, now)
        assert verdict.kind in {"waiting", "cannot_look"}
        assert not may_replay(known, verdict, looks, now)
        assert way_out(known, verdict, looks, now).move == "hold"

    def test_a_look_of_ours_allows_it_before_or_after_the_webhook(self):
        for at in (120, 180):
            known, looks, now = replayable(), [look("empty", at), webhook(150)], after(300)
            assert may_replay(known, judge(known, looks, now), looks, now)

    def test_a_webhook_does_not_hide_that_nobody_could_look(self):
        assert judge(facts(), [look("cannot_look", 95), webhook(150)], NOW).kind == "cannot_look"

    def test_a_webhook_alone_is_not_having_asked(self):
        verdict = judge(facts(), [webhook(150)], after(300))
        assert (verdict.kind, verdict.code) == ("waiting", "not_looked_yet")


class TestElsewhere:
    def test_what_another_account_did_not_show_proves_nothing(self):
        elsewhere = look("empty", PAIR[0], account_seen="acct_wrong")
        here = look("empty", PAIR[1], account_seen="acct_ours")
        verdict = judge(facts(account="acct_ours"), [elsewhere, here], NOW)
        assert (verdict.kind, verdict.code) == ("waiting", "one_more_read")
        again = look("empty", PAIR[1] + 10, account_seen="acct_ours")
        assert judge(facts(account="acct_ours"), [elsewhere, here, again], NOW).kind == "absent"

    def test_nor_what_the_other_mode_did_not_show(self):
        looks = [look("empty", at, mode="live") for at in PAIR]
        assert judge(facts(), looks, NOW).kind == "waiting"

    def test_an_accounts_name_is_compared_whatever_its_case(self):
        looks = [look("empty", at, account_seen="Acme/Shop") for at in PAIR]
        assert judge(facts(account="acme/shop"), looks, NOW).kind == "absent"

    @pytest.mark.parametrize("flaw", [{"control_passed": False}, {"account_seen": "acct_wrong"}])
    def test_reads_that_never_count_are_not_said_to_need_one_more(self, flaw):
        """Else it is asked every few seconds until the deadline, and each read costs."""
        looks = [look("empty", at, **flaw) for at in PAIR]
        known = facts(account="acct_ours")
        verdict = judge(known, looks, NOW)
        assert (verdict.kind, verdict.code) == ("waiting", "empty_not_counted")
        assert "does not count" in say(known, verdict, looks, next_check_at=NOW)


class TestAnUnknownFirstSend:
    def test_no_window_covers_a_send_that_only_records_told_of(self):
        """A record may arrive hours after its call: no list since then shows that call's effect."""
        looks = [look("empty", at) for at in PAIR]
        known = facts(first_send_is_known=False)
        verdict = judge(known, looks, NOW)
        assert (verdict.kind, verdict.code) == ("needs_human", "first_send_unknown")
        assert "Only records told" in say(known, verdict, looks, next_check_at=NOW)
        before = judge(known, [look("empty", 500)], after(600))
        assert (before.kind, before.code) == ("waiting", "before_settle_point")

    def test_an_exact_read_by_key_needs_no_window(self):
        looks = [look("empty", at, lookup_class="A", covers_from=None) for at in PAIR]
        assert judge(facts(first_send_is_known=False), looks, NOW).kind == "absent"
