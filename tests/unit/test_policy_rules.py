"""Rules: strict when published, safe when undecided, first match wins."""

from typing import Any

import pytest

from approvals import conditions, policies, rules
from approvals.errors import Refused
from approvals.rules import Call

CALL = Call("test", "default", "stripe.charge", "idempotent", "renewals", 25000, "USD")
ARGS = {"amount": 25000, "customer": "cus_42", "items": [{"n": 1}, {"n": 2}]}
RULE: dict[str, Any] = {"id": "over-100", "match": {"tool": "stripe.*", "when": "amount > 10000"}}


def invalid(*given: Any) -> str:
    with pytest.raises(Refused) as error:
        rules.read_all(list(given))
    assert error.value.code == "INVALID_POLICY"
    return str(error.value.extra["pointer"])


def test_a_plain_rule_is_read_with_its_defaults() -> None:
    (document,) = rules.read_all([RULE])
    assert (document["quorum"], document["min_custody"], document["tier"]) == (1, "A2", "T2")


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"qorum": 2}, "/policies/0/qorum"),
        ({"approval": "allways"}, "/policies/0/approval"),
        ({"match": {"tools": "x"}}, "/policies/0/match/tools"),
        ({"match": {"environment": "prod"}}, "/policies/0/match/environment"),
        ({"match": {"class": "safest"}}, "/policies/0/match/class"),
        ({"match": {"when": "amout > 5"}}, "/policies/0/match/when"),
        ({"match": {"when": "amount >> 5"}}, "/policies/0/match/when"),
        ({"match": {"when": "sise(args) > 5"}}, "/policies/0/match/when"),
        ({"match": {"when": True}}, "/policies/0/match/when"),
        ({"match": "all"}, "/policies/0/match"),
        ({"quorum": -1}, "/policies/0/quorum"),
        ({"quorum": "2"}, "/policies/0/quorum"),
        ({"quorum": True}, "/policies/0/quorum"),
        ({"min_custody": "A0"}, "/policies/0/min_custody"),
        ({"min_custody": "a2"}, "/policies/0/min_custody"),
        ({"tier": "T9"}, "/policies/0/tier"),
        ({"expires_minutes": 0}, "/policies/0/expires_minutes"),
        (
            {"groups": [{"name": "finance", "members": ["a@x"], "quorum": 2}]},
            "/policies/0/groups/0",
        ),
        ({"groups": [{"nmae": "finance"}]}, "/policies/0/groups/0/nmae"),
    ],
)
def test_a16_a_typo_is_refused_with_its_place(change: dict[str, Any], pointer: str) -> None:
    assert invalid(RULE | change) == pointer


def test_a16_a_rule_that_is_never_reached_is_refused() -> None:
    assert invalid(RULE, RULE | {"id": "again", "quorum": 0}) == "/policies/1/match"
    assert invalid(RULE, {"id": "over-100", "match": {"tool": "x"}}) == "/policies/1/id"


@pytest.mark.parametrize("given", [None, {}, "x", [5], [{}]])
def test_what_is_no_list_of_rules_is_refused(given: Any) -> None:
    with pytest.raises(Refused):
        rules.read_all(given)


def rule(**document: Any) -> rules.Rule:
    (read,) = rules.read_all([{"id": "r", **document}])
    return policies._rule(read, 1)


@pytest.mark.parametrize(
    ("match", "expected"),
    [
        ({}, True),
        ({"environment": "test"}, True),
        ({"environment": "live"}, False),
        ({"environment": ["live", "test"]}, True),
        ({"tool": "stripe.*"}, True),
        ({"tool": "stripe"}, False),
        ({"tool": ["mail.*", "stripe.charge"]}, True),
        ({"class": "unsafe"}, False),
        ({"agent": "renew*"}, True),
        ({"namespace": "other"}, False),
        ({"when": "amount > 10000"}, True),
        ({"when": "amount > 30000"}, False),
        ({"when": "args.customer.startsWith('cus_')"}, True),
        ({"when": "args.items.all(i, i.n < 3)"}, True),
        ({"when": "args.items.exists(i, i.n == 9)"}, False),
        ({"when": "has(args.memo)"}, False),
        ({"when": "currency == 'USD' && environment == 'test'"}, True),
    ],
)
def test_a_rule_matches_by_every_member_of_its_match(match: dict[str, Any], expected: bool) -> None:
    assert rules.matches(rule(match=match), CALL, ARGS) is expected


@pytest.mark.parametrize("when", ["args.missing > 5", "amount + 'x' == 'y'", "amount"])
def test_a_condition_that_cannot_be_decided_asks_and_never_lets_through(when: str) -> None:
    assert conditions.decide(when, {"args": ARGS, "amount": 25000}) is None
    assert rules.matches(rule(match={"when": when}), CALL, ARGS) is True
    assert rules.matches(rule(match={"when": when}, quorum=0), CALL, ARGS) is False


def test_a_number_that_cel_cannot_hold_leaves_the_condition_undecided() -> None:
    assert conditions.decide("args.n > 5", {"args": {"n": 2**70}}) is None


def test_the_default_policy_gates_unsafe_tools_in_live_and_nothing_else() -> None:
    def quorum(environment: str, tool_class: str) -> int:
        call = Call(environment, "default", "x", tool_class, "a", None, None)
        default = policies.DEFAULT_RULE
        return default.quorum if rules.matches(default, call, {}) else policies.OPEN_RULE.quorum

    assert quorum("live", "unsafe") == 1
    assert policies.DEFAULT_RULE.min_custody == "A2"
    for environment, tool_class in (
        ("live", "safe"),
        ("live", "idempotent"),
        ("test", "unsafe"),
        ("test", "safe"),
    ):
        assert quorum(environment, tool_class) == 0


def test_the_quorum_is_at_least_what_its_groups_ask_for() -> None:
    groups = [
        {"name": "finance", "members": ["F@x", "g@x"], "quorum": 2},
        {"name": "legal", "members": ["l@x"]},
    ]
    (document,) = rules.read_all([{"id": "r", "groups": groups}])
    assert document["quorum"] == 3
    assert document["groups"][0]["members"] == ["f@x", "g@x"]
