"""Tools as YAML: read strictly, diffed, published as a new version, exported as they were."""

import io
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from operations import catalogue, rows, tools_reading
from operations.models import CatalogueVersion, Operation, Tool
from tests.support.records import record, report, runtime

pytestmark = pytest.mark.django_db

CHARGE = """
tools:
  - name: stripe.charge
    class: idempotent
    provider: stripe
    reconciler: stripe
    lookups: [list, get]
    key: {accepts: true, retention_hours: 24}
    client_timeout_seconds: 30
    lease_seconds: 120
    amount: {pointer: /amount, currency_pointer: /currency, unit: minor}
    redact: [/card_token]
    attempts: {transient: 7}
  - name: mail.send
"""


@pytest.fixture
def apply(tmp_path: Path) -> Any:
    def run(text: str, verb: str = "apply") -> str:
        file = tmp_path / "catalogue.yaml"
        file.write_text(text)
        return command(verb, str(file))

    return run


def command(*words: str) -> str:
    out = io.StringIO()
    call_command("catalogue", *words, stdout=out)
    return out.getvalue()


def test_it_prints_what_changes_and_publishes_a_version(apply: Any) -> None:
    said = apply(CHARGE)
    assert "+ tool stripe.charge (idempotent)" in said
    assert "+ tool mail.send (unsafe)" in said
    assert "Published as catalogue version 1." in said
    with rows.hot_cursor() as cur:
        facts = catalogue.current(cur).facts("stripe.charge")
    assert (facts.tool_class, facts.lease_seconds, facts.attempts_transient) == (
        "idempotent",
        120,
        7,
    )
    assert facts.retention_seconds == 24 * 3600
    assert facts.lookups == ("list", "get")


def test_an_unchanged_file_publishes_nothing(apply: Any) -> None:
    apply(CHARGE)
    assert "nothing was published" in apply(CHARGE)
    assert CatalogueVersion.objects.count() == 1


def test_a_diff_changes_nothing(apply: Any) -> None:
    apply(CHARGE)
    changed = CHARGE.replace("lease_seconds: 120", "lease_seconds: 60")
    assert "~ tool stripe.charge lease_seconds: 120 -> 60" in apply(changed, "diff")
    assert CatalogueVersion.objects.count() == 1


def test_an_export_can_be_applied_again_and_changes_nothing(apply: Any) -> None:
    apply(CHARGE)
    exported = command("export")
    assert "stripe.charge" in exported
    assert "nothing was published" in apply(exported)


def test_a_change_adds_a_row_and_edits_none(apply: Any) -> None:
    apply(CHARGE)
    report(runtime(), record(args={"amount": 5, "currency": "usd"}))
    apply(CHARGE.replace("idempotent", "unsafe"))
    old, new = Tool.objects.filter(name="stripe.charge").order_by("version")
    assert (old.tool_class, old.superseded_in, new.tool_class) == ("idempotent", 2, "unsafe")
    operation = Operation.objects.get()
    assert (operation.tool_version, operation.tool_class) == (1, "idempotent")
    assert (operation.amount_minor, operation.currency) == (5, "USD")


def test_a_tool_that_is_left_out_is_gone(apply: Any) -> None:
    apply(CHARGE)
    assert "- tool mail.send" in apply(CHARGE.replace("  - name: mail.send\n", ""))
    assert [tool["name"] for tool in tools_reading.list_tools()] == ["stripe.charge"]


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("tools: 3", "tools"),
        ("tools: [{class: safe}]", "tools[0].name"),
        ("tools: [{name: a}, {name: b, clas: safe}]", "tools[1].clas"),
        ("tools: [{name: a, class: harmless}]", "tools[0].class"),
        ("tools: [{name: 'a b'}]", "tools[0].name"),
        ("tools: [{name: a}, {name: a}]", "tools[1].name"),
        ("tools: [{name: a, lease_seconds: 4000}]", "tools[0].lease_seconds"),
        ("tools: [{name: a, key: {accepts: true}}]", "tools[0].key.retention_hours"),
        ("tools: [{name: a, key: {accept: true}}]", "tools[0].key.accept"),
        ("tools: [{name: a, key: 5}]", "tools[0].key"),
        ("tools: [{name: a, amount: {pointer: amount}}]", "tools[0].amount.pointer"),
        ("tools: [{name: a, attempts: {transient: 0}}]", "tools[0].attempts.transient"),
        ("tols: []", "tols"),
        ("tools: [", "not YAML"),
        ("tools: [{name: a, name: b}]", "written twice"),
        ("- a", "mapping"),
    ],
)
def test_what_is_wrong_is_named_by_its_path_and_nothing_is_published(
    apply: Any, text: str, path: str
) -> None:
    with pytest.raises(CommandError) as caught:
        apply(text)
    assert path in str(caught.value)
    assert CatalogueVersion.objects.count() == 0


def test_tools_in_use_that_nobody_registered_are_listed(apply: Any) -> None:
    apply(CHARGE)
    report(runtime(), record(tool="jira.create"), record(call="c2", tool="stripe.charge"))
    listed = {tool["name"]: tool for tool in tools_reading.list_tools(runtime().scope)}
    assert list(listed) == ["mail.send", "stripe.charge", "jira.create"]
    assert (listed["jira.create"]["registered"], listed["jira.create"]["class"]) == (
        False,
        "unsafe",
    )
