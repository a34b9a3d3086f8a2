"""Incidents as lines, and one of them whole."""

from dataclasses import dataclass
from typing import Any, Final

from console.presentation import incident_words
from console.presentation.amounts import Amount, amount
from console.presentation.incident_words import IncidentWords
from console.queries import actors
from operations import ids
from operations.models import Incident

#: Members of the details that are shown by themselves.
_TOLD_APART: Final = frozenset(
    {"operation", "operation_id", "idem_key", "run_id", "objects", "asked_for", "proposal"}
)


@dataclass(frozen=True)
class Line:
    """An incident with its words."""

    incident: Incident
    words: IncidentWords


def line(incident: Incident) -> Line:
    """The incident with what it means."""
    return Line(incident, incident_words.words_for(incident.kind))


def find(handle: str) -> Incident | None:
    """The incident behind `inc_…`."""
    key = ids.parse_handle("inc", handle)
    if key is None:
        return None
    return (
        Incident.objects.select_related("operation", "operation__run", "run").filter(pk=key).first()
    )


@dataclass(frozen=True)
class SeenObject:
    """One object at the provider, as the reconciler saw it."""

    id: str
    kind: str
    status: str
    amount: Amount | None


def objects(incident: Incident) -> list[SeenObject]:
    """Every object that carries the key; empty where the incident names none."""
    return [
        SeenObject(
            id=str(seen.get("id", "")),
            kind=str(seen.get("kind", "")).replace("_", " "),
            status=str(seen.get("status", "")),
            amount=(
                amount(seen["amount_minor"], seen.get("currency"))
                if seen.get("amount_minor") is not None
                else None
            ),
        )
        for seen in incident.details.get("objects", [])
        if isinstance(seen, dict)
    ]


def details(incident: Incident) -> list[tuple[str, str]]:
    """Ids, digests and words of the incident, flat; never arguments."""
    return [
        (name.replace("_", " "), _shown(value))
        for name, value in sorted(incident.details.items())
        if name not in _TOLD_APART and value not in (None, "", [], {})
    ]


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(str(item) for item in value)
    return str(value)


def handlers(incident: Incident) -> dict[str, str]:
    """Who acknowledged and who resolved it, by name."""
    by = {"acknowledged": incident.acknowledged_by, "resolved": incident.resolved_by}
    names = actors.names(actor for actor in by.values() if actor)
    return {verb: names[actor] for verb, actor in by.items() if actor}
