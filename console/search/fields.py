"""What each search field means in the database, and how its condition reads as a chip."""

import difflib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, tzinfo
from functools import partial
from typing import Final

from django.db.models import Exists, OuterRef, Q

from console.presentation import words
from console.search import spans
from console.search.grammar import BadQuery, Term
from operations import ids, states, tools_reading
from operations.models import Incident, Operation
from operations.models.catalogue import TOOL_CLASSES
from operations.models.scoped import ENVIRONMENTS


@dataclass(frozen=True)
class Viewer:
    """Who asks: relative times and days without a zone are the viewer's."""

    zone: tzinfo
    now: datetime


type Build = Callable[[Term, Viewer], Q]


@dataclass(frozen=True)
class Field:
    """`build` gives the condition (not yet negated); `example` stands in the help."""

    tells: str
    example: str
    build: Build
    choices: tuple[str, ...] = ()


def any_of(conditions: Iterable[Q]) -> Q:
    """At least one of them; nothing at all when there are none."""
    joined = Q(pk__in=[])
    for condition in conditions:
        joined |= condition
    return joined


def listed(term: Term) -> tuple[str, ...]:
    """The term's values where the field takes no comparison."""
    if term.operator != "in":
        raise BadQuery(f"“{term.field}:” takes a value, not a comparison.")
    return term.values


def choose(named: dict[str, Callable[[Viewer], Q]]) -> Build:
    """A field whose values are words from a closed list."""

    def build(term: Term, viewer: Viewer) -> Q:
        found = []
        for value in listed(term):
            if value.lower() not in named:
                near = difflib.get_close_matches(value.lower(), named, n=1, cutoff=0.4)
                hint = f"{term.field}:{near[0]}" if near else f"{term.field}:{next(iter(named))}"
                raise BadQuery(f"“{value}” is no value of “{term.field}:”.", hint)
            found.append(named[value.lower()](viewer))
        return any_of(found)

    return build


def exactly(column: str) -> Build:
    """A field that compares a column with each value; `*` at the end matches any ending."""

    def build(term: Term, viewer: Viewer) -> Q:
        return any_of(
            Q(**{f"{column}__startswith": value[:-1]} if value.endswith("*") else {column: value})
            for value in listed(term)
        )

    return build


def open_state(state: str, **more: object) -> Q:
    """Rows that are not COMMITTED are found through the narrow open table."""
    return Q(standing__state=state, **more)


def contested() -> Q:
    """UNKNOWN, and the evidence contradicts the record or itself."""
    return open_state(states.UNKNOWN, verdict__kind__in=words.CONFLICTS)


def ready() -> Q:
    """UNKNOWN, and a person can settle it now."""
    person = open_state(states.UNKNOWN, standing__waiting_on="person")
    return person & (Q(verdict__isnull=True) | ~Q(verdict__kind__in=words.CONFLICTS))


def unreachable() -> Q:
    """UNKNOWN, and the provider was asked and did not answer."""
    found = open_state(states.UNKNOWN, verdict__kind=UNREACHABLE)
    return found & ~Q(standing__waiting_on="person")


def waiting_for_horizon() -> Q:
    """UNKNOWN, and neither settled, contradicted nor unreachable: time will tell."""
    decided = (UNREACHABLE, *words.CONFLICTS)
    found = open_state(states.UNKNOWN) & ~Q(standing__waiting_on="person")
    return found & (Q(verdict__isnull=True) | ~Q(verdict__kind__in=decided))


UNREACHABLE: Final = "cannot_look"


def stalled(viewer: Viewer) -> Q:
    """Approved for a while, and not claimed since."""
    return open_state(
        states.PENDING,
        gate="granted",
        gate_used=False,
        updated_at__lt=viewer.now - words.STALLED_AFTER,
    )


def _failed_by(failure: str, viewer: Viewer) -> Q:
    return open_state(states.FAILED, failure=failure)


_STATE: Final[dict[str, Callable[[Viewer], Q]]] = {
    "unknown": lambda _: open_state(states.UNKNOWN),
    "pending": lambda _: open_state(states.PENDING),
    "waiting": lambda _: open_state(states.PENDING, gate="waiting"),
    "stalled": stalled,
    "running": lambda _: open_state(states.INVOKED),
    "invoked": lambda _: open_state(states.INVOKED),
    "committed": lambda _: Q(state=states.COMMITTED),
    "succeeded": lambda _: Q(state=states.COMMITTED),
    "failed": lambda _: open_state(states.FAILED),
    **{failure: partial(_failed_by, failure) for failure in states.FAILURES},
}

_IS: Final[dict[str, Callable[[Viewer], Q]]] = {
    "open": lambda _: Q(standing__state__in=[states.PENDING, states.INVOKED, states.UNKNOWN]),
    "terminal": lambda _: Q(state__in=states.TERMINAL),
    "ready": lambda _: ready(),
    "waiting": lambda _: waiting_for_horizon(),
    "conflict": lambda _: contested(),
    "unreachable": lambda _: unreachable(),
    "stalled": stalled,
    "gated": lambda _: ~Q(gate="none"),
    "closed": lambda _: Q(closed=True),
    "replayed": lambda _: Q(replays__gt=0),
    "reported": lambda _: Q(mode="report"),
}


def _with_incident(**conditions: object) -> Q:
    return Q(Exists(Incident.objects.filter(operation=OuterRef("pk"), **conditions).order_by()))


_HAS: Final[dict[str, Callable[[Viewer], Q]]] = {
    "incident": lambda _: _with_incident(),
    "approval": lambda _: Q(gate_ref__isnull=False),
    "evidence": lambda _: Q(verdict__isnull=False),
    "effect": lambda _: Q(provider_ref__isnull=False),
    "amount": lambda _: Q(amount_minor__isnull=False),
    "compensation": lambda _: Q(
        Exists(Operation.objects.filter(compensates=OuterRef("pk")).order_by())
    ),
}


def _tool(term: Term, viewer: Viewer) -> Q:
    whole = exactly("tool")(term, viewer)
    short = tuple(f".{value}" for value in term.values if "." not in value)
    if not short:
        return whole
    # Names are few and indexed; a condition on their ends would read every operation.
    known = [str(tool["name"]) for tool in tools_reading.list_tools()]
    return whole | Q(tool__in=[name for name in known if name.endswith(short)])


def _run(term: Term, viewer: Viewer) -> Q:
    known = [run for value in listed(term) if (run := ids.parse_handle("run", value))]
    return exactly("run__run_id")(term, viewer) | Q(run__in=known)


def _op(term: Term, viewer: Viewer) -> Q:
    found = []
    for value in listed(term):
        operation = ids.parse_handle("op", value)
        if operation is None:
            raise BadQuery(f"“{value}” is no operation id.", f"key:{value}")
        found.append(operation)
    return Q(pk__in=found)


def _incident(term: Term, viewer: Viewer) -> Q:
    found = []
    for value in listed(term):
        if incident := ids.parse_handle("inc", value):
            found.append(_with_incident(id=incident))
        elif value in states.INCIDENT_KINDS:
            found.append(_with_incident(kind=value))
        else:
            near = difflib.get_close_matches(value, states.INCIDENT_KINDS, n=1, cutoff=0.3)
            raise BadQuery(f"There is no incident “{value}”.", f"inc:{near[0]}" if near else "")
    return any_of(found)


def _text(term: Term, viewer: Viewer) -> Q:
    word = term.values[0]
    found = [
        Q(idem_key__startswith=word),
        Q(provider_ref=word),
        Q(run__run_id=word),
        Q(tool_call_id=word),
    ]
    if operation := ids.parse_handle("op", word):
        found.append(Q(pk=operation))
    return any_of(found)


def _has_value(column: str, value: str, viewer: Viewer) -> Q:
    return Q(**{column: value})


def _equal(column: str, values: Iterable[str]) -> dict[str, Callable[[Viewer], Q]]:
    return {value: partial(_has_value, column, value) for value in values}


FIELDS: Final[dict[str, Field]] = {
    "state": Field("where it stands", "state:unknown,stalled", choose(_STATE), tuple(_STATE)),
    "is": Field("what can be said of it", "is:ready", choose(_IS), tuple(_IS)),
    "has": Field("what it carries", "has:incident", choose(_HAS), tuple(_HAS)),
    "tool": Field("tool name, whole or its last part; * at the end", "tool:charge", _tool),
    "class": Field(
        "retry safety", "class:unsafe", choose(_equal("tool_class", TOOL_CLASSES)), TOOL_CLASSES
    ),
    "run": Field("run id", "run:run_7f3", _run),
    "op": Field("operation id", "op:op_01…", _op),
    "key": Field("idempotency key; * at the end", "key:9f3c*", exactly("idem_key")),
    "call": Field("tool call id", "call:call_abc", exactly("tool_call_id")),
    "agent": Field("agent name; * at the end", "agent:renewals", exactly("run__agent")),
    "pid": Field("the provider's own id", "pid:pi_3Q…", exactly("provider_ref")),
    "amount": Field("with its currency", "amount:>=1250.00EUR", spans.amount),
    "cur": Field("currency", "cur:EUR", lambda term, _: Q(currency__in=_codes(term))),
    "age": Field("time since it was recorded", "age:>30m", spans.age),
    "created": Field("day, instant or range, in your zone", "created:-7d", spans.created),
    "attempt": Field("number of attempts", "attempt:>1", spans.attempts),
    "inc": Field("incident kind or id", "inc:args_conflict", _incident, states.INCIDENT_KINDS),
    "env": Field(
        "live or test", "env:live", choose(_equal("environment", ENVIRONMENTS)), ENVIRONMENTS
    ),
    "ns": Field("namespace", "ns:default", exactly("namespace")),
    "text": Field("an id or key, exact or its beginning", "pi_3Q…", _text),
}


def _codes(term: Term) -> list[str]:
    return [code for value in listed(term) for code in (value.upper(), value.lower())]


def condition(term: Term, viewer: Viewer) -> Q:
    """The term as a condition, negation included."""
    built = FIELDS[term.field].build(term, viewer)
    return ~built if term.negated else built
