"""Publishing rules: versioned, diffed, and never a surprise for what is being decided."""

from typing import Any

import pytest

from approvals import decisions, policies, reconsider
from approvals.errors import Refused
from approvals.models import ApprovalRequest, Policy
from tests.support import approving

pytestmark = pytest.mark.django_db

TWO: list[dict[str, Any]] = [
    {"id": "refunds", "match": {"tool": "stripe.refund"}, "quorum": 2},
    {"id": "rest", "match": {"environment": "live"}, "quorum": 1},
]


def test_what_is_published_is_exported_whole_and_in_order() -> None:
    approving.publish(*TWO)
    exported = policies.export()
    assert [rule["id"] for rule in exported] == ["refunds", "rest"]
    assert exported[0]["quorum"] == 2
    assert policies.diff(exported) == []
    approving.publish(*exported)
    assert Policy.objects.count() == 2


def test_a_rule_that_changed_gets_a_new_row_and_the_others_keep_theirs() -> None:
    approving.publish(*TWO)
    changed = [TWO[0] | {"quorum": 3}, TWO[1]]
    assert policies.diff(changed) == ["~ policy refunds quorum: 2 -> 3"]
    approving.publish(*changed)
    assert policies.diff([TWO[1], TWO[0] | {"quorum": 3}]) == ["~ policies are in another order"]
    rows = Policy.objects.order_by("policy_id", "version").values_list(
        "policy_id", "version", "superseded_in"
    )
    assert list(rows) == [("refunds", 1, 2), ("refunds", 2, None), ("rest", 1, None)]
    approving.publish(TWO[1])
    assert [rule["id"] for rule in policies.export()] == ["rest"]


def test_a16_a_file_with_a_typo_changes_nothing() -> None:
    approving.publish(*TWO)
    with pytest.raises(Refused):
        approving.publish(*TWO, {"id": "x", "match": {"tool": "y"}, "qorum": 0})
    assert len(policies.export()) == 2


def test_the_first_matching_rule_wins_and_the_default_comes_last() -> None:
    approving.publish(*TWO)
    assert approving.ask(tool="stripe.refund").opened is not None
    rules = ApprovalRequest.objects.values_list("rule", "quorum")
    assert list(rules) == [("refunds", 2)]
    op = approving.operation(approving.ask(tool="mail.send").op_id)
    assert policies.rule_for(op, {}).policy_id == "rest"
    approving.publish()
    assert policies.rule_for(op, {}).policy_id == "default"


def test_a_rule_may_gate_charges_above_a_limit_in_test() -> None:
    approving.publish(
        {"id": "big", "match": {"environment": "test", "when": "args.amount > 10000"}}
    )
    who = approving.runtime("test")
    big = approving.operation(approving.ask(who=who).op_id)
    assert policies.rule_for(big, {"amount": 25000}).quorum == 1
    assert policies.rule_for(big, {"amount": 5000}).quorum == 0
    assert policies.rule_for(big, {"amonut": 5000}).quorum == 1


def test_after_a_publication_open_approvals_are_asked_about_again_where_the_rule_changed() -> None:
    approving.publish(*TWO)
    reviewer = approving.person()
    waiting, granted, untouched = (
        approving.ask(tool="mail.send"),
        approving.ask(tool="mail.send"),
        approving.ask(tool="stripe.refund"),
    )
    ceremony = decisions.start(reviewer.user, "s", granted.id, "approve", key=reviewer.key)
    decisions.finish(
        reviewer.user, "s", ceremony.statement_id, reviewer.sign(ceremony),
        approval_id=granted.id,
    )  # fmt: skip
    assert reconsider.all_open(actor="user:editor") == 0

    approving.publish(TWO[0], TWO[1] | {"expires_minutes": 5})
    assert reconsider.all_open(actor="user:editor") == 2

    for asked in (waiting, granted):
        op = approving.operation(asked.op_id)
        assert (op.gate, op.gate_ref != asked.id) == ("waiting", True)
        assert ApprovalRequest.objects.get(id=asked.opened.id).status == "superseded"
    assert approving.operation(untouched.op_id).gate_ref == untouched.id
    assert reconsider.all_open(actor="user:editor") == 0
