"""The catalogue with its readiness: ten questions a tool, answered from what is known of it."""

from dataclasses import dataclass
from typing import Final

from django.db import connection

from approvals import policies
from approvals.rules import Rule
from operations import catalogue, tools_reading
from operations.catalogue import ToolFacts
from operations.models import CatalogueVersion
from reconcilers import registry


@dataclass(frozen=True)
class Check:
    """One question. `passed` None: it does not apply, or nothing is known yet."""

    asks: str
    passed: bool | None
    says: str


@dataclass(frozen=True)
class ToolLine:
    """A tool with its checks."""

    facts: ToolFacts
    checks: list[Check]

    @property
    def passed(self) -> int:
        """Questions answered well."""
        return sum(check.passed is True for check in self.checks)

    @property
    def asked(self) -> int:
        """Questions that apply and could be answered."""
        return sum(check.passed is not None for check in self.checks)

    @property
    def failing(self) -> list[Check]:
        """What to mend first."""
        return [check for check in self.checks if check.passed is False]


@dataclass(frozen=True)
class CatalogueNow:
    """All tools in use or registered, as of the newest version."""

    version: CatalogueVersion | None
    lines: list[ToolLine]


def catalogue_now() -> CatalogueNow:
    """What is published, and what is used without being registered."""
    names = [str(document["name"]) for document in tools_reading.list_tools()]
    with connection.cursor() as cur:
        known = catalogue.current(cur)
    return CatalogueNow(
        version=CatalogueVersion.objects.order_by("-version").first(),
        lines=[ToolLine(known.facts(name), readiness(known.facts(name))) for name in names],
    )


def find(name: str) -> ToolLine | None:
    """One tool of that list."""
    return next((line for line in catalogue_now().lines if line.facts.name == name), None)


def rules_about(tool: str, tool_class: str) -> list[Rule]:
    """Rules whose plain part can match calls of this tool."""
    return [
        rule
        for rule in policies.current()
        if _may_match(rule.match.get("tool"), tool)
        and _may_match(rule.match.get("class"), tool_class)
    ]


def _may_match(wanted: object, value: str) -> bool:
    if wanted in (None, "", "*"):
        return True
    options = wanted if isinstance(wanted, list | tuple) else [wanted]
    return any(
        value == option or (str(option).endswith("*") and value.startswith(str(option)[:-1]))
        for option in options
    )


_NEED_KEY: Final = "The provider takes a key of ours"


def readiness(tool: ToolFacts) -> list[Check]:
    """The questions, for a tool that only reads reduced to what applies."""
    if tool.tool_class == "safe":
        return [_registered(tool), Check(_NEED_KEY, None, "It only reads: nothing can be doubled.")]
    return [
        _registered(tool),
        _key(tool),
        _retention(tool),
        _reconciler(tool),
        _marker(tool),
        _lease(tool),
        _amount(tool),
        Check(
            "An unsafe call is gated by a rule",
            None if tool.tool_class != "unsafe" else bool(rules_about(tool.name, tool.tool_class)),
            "In live the default rule asks for one reviewer." if not policies.current() else "",
        ),
    ]


def _registered(tool: ToolFacts) -> Check:
    says = "" if tool.is_registered else "It is taken as unsafe until the catalogue names it."
    return Check("It is in the catalogue", tool.is_registered, says)


def _key(tool: ToolFacts) -> Check:
    if tool.accepts_key:
        return Check(_NEED_KEY, True, "Two sends under one key are one effect.")
    return Check(_NEED_KEY, False, "Without one, only evidence or a person can settle a doubt.")


def _retention(tool: ToolFacts) -> Check:
    asks = "It is known how long the provider keeps the key"
    if not tool.accepts_key:
        return Check(asks, None, "")
    hours = tool.key_retention_hours
    return Check(asks, hours is not None, f"{hours} h" if hours else "Ask the provider's docs.")


def _reconciler(tool: ToolFacts) -> Check:
    asks = "Somebody can be asked what happened"
    if not tool.reconciler:
        return Check(asks, False, "No reconciler is bound: a person must find out.")
    known = tool.reconciler in registry.providers() or bool(tool.provider)
    return Check(
        asks, known, tool.reconciler if known else f"“{tool.reconciler}” is not known here."
    )


def _marker(tool: ToolFacts) -> Check:
    return Check(
        "Our key is stored on the provider's object",
        tool.marker if tool.reconciler else None,
        "" if tool.marker else "Without the marker no look-up can prove anything.",
    )


def _lease(tool: ToolFacts) -> Check:
    longer = tool.lease_seconds >= tool.client_timeout_seconds * tool.client_tries
    return Check(
        "The lease outlasts the client's own timeout",
        longer,
        f"lease {tool.lease_seconds} s, timeout {tool.client_timeout_seconds} s"
        + (f" × {tool.client_tries}" if tool.client_tries > 1 else ""),
    )


def _amount(tool: ToolFacts) -> Check:
    asks = "The amount is found in the arguments"
    if not tool.amount_pointer:
        return Check(asks, None, "No amount is declared.")
    has_currency = bool(tool.currency_pointer or tool.currency)
    return Check(asks, has_currency, tool.amount_pointer if has_currency else "It has no currency.")
