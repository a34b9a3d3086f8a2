"""What happened, in order: events, looks at the provider, and the bands where nobody can know.

A crash after the intent and before the result leaves the same record whether the effect took place
(W3) or not (W2). The band says so instead of choosing.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from console.presentation import words
from operations.models import Attempt, Event
from reconcilers.models import Finding


@dataclass(frozen=True)
class Moment:
    """One line. `times` counts equal looks in a row; `until` is the last of them."""

    at: datetime
    title: str
    icon: str
    key: str
    by: str = ""
    detail: str = ""
    anchor: str = ""
    times: int = 1
    until: datetime | None = None


@dataclass(frozen=True)
class Band:
    """From the claim to the doubt of one attempt. `decided` says what evidence made of it."""

    number: int
    worker: str
    moments: list[Moment] = field(default_factory=list)
    decided: str = ""


#: Event type -> (what to say, icon, shape).
_WORDS: Final[dict[str, tuple[str, str, str]]] = {
    "operation.recorded": ("Intent written", "circle-dot", "fresh"),
    "operation.invoked": ("Claim granted", "lock", "running"),
    "operation.sending": ("Permit to send given", "send", "running"),
    "operation.committed": ("Result written", "circle-check", "committed"),
    "operation.failed": ("No effect, for good", "octagon-x", "failed"),
    "operation.not_sent": ("No effect: it may be tried again", "circle-slash", "pending"),
    "operation.refused": ("Refused", "ban", "flat"),
    "operation.in_doubt": ("Marked unknown", "diamond-help", "unknown"),
    "operation.reconciled": ("Settled: it happened", "shield-check", "settled-yes"),
    "operation.released": ("Released: it may run again, same key", "rotate-ccw", "waiting"),
    "operation.late_effect": ("Effect found late", "triangle-alert", "conflict"),
    "operation.attempt_resolved": ("An attempt's doubt ended", "circle-dot", "pending"),
    "operation.hearsay": ("A send that was never granted is reported", "info", "unknown"),
    "operation.original_committed": ("The original took place", "circle-dot", "pending"),
    "operation.closed": ("Intent closed", "x", "flat"),
    "operation.verdict": ("Verdict", "search", "pending"),
    "operation.effect_status": ("Effect status changed", "info", "pending"),
    "operation.described": ("Described by a record", "info", "pending"),
    "operation.version_changed": ("The agent's version changed", "info", "stalled"),
    "operation.incident": ("Incident opened", "shield-alert", "conflict"),
    "operation.gate_opened": ("Approval asked for", "hourglass", "waiting"),
    "operation.gate_granted": ("Approved", "stamp", "approved"),
    "operation.gate_sealed": ("Approval sealed in the ledger", "layers", "approved"),
    "operation.gate_refused": ("Approval refused", "ban", "flat"),
    "operation.gate_revoked": ("Approval revoked", "ban", "failed"),
}

#: Members of an event's data that are words worth reading, in this order.
_TOLD: Final = (
    "failure", "reason", "kind", "standing", "error_type", "http_status", "effect_status",
    "provider_ref", "closed_as",
)  # fmt: skip

#: Events that end an attempt without proving what it did.
_DOUBT: Final = "operation.in_doubt"


def moments(events: Iterable[Event], names: Mapping[str, str]) -> list[Moment]:
    """Each event as a line."""
    return [_moment(event, names) for event in events]


def _moment(event: Event, names: Mapping[str, str]) -> Moment:
    plain = event.type.replace(".", " ").replace("_", " ").capitalize()
    title, icon, key = _WORDS.get(event.type, (plain, "circle-dot", "pending"))
    if event.type == "operation.reconciled" and event.to_state == "FAILED":
        title, icon, key = "Settled: it did not happen", "shield-x", "settled-no"
    number = event.data.get("attempt")
    if event.type == "operation.invoked" and number:
        permit = ", with its permit to send" if event.data.get("permit") else ""
        title = f"{title}: attempt {number} may act{permit}"
    if event.type == "operation.verdict":
        head = words.verdict_headline(str(event.data.get("kind")))
        return Moment(
            at=event.at,
            title=f"Verdict: {head.word.lower()}",
            icon=head.icon,
            key=head.key,
            by=names.get(event.actor, event.actor),
            anchor=f"v{event.version}",
        )
    return Moment(
        at=event.at,
        title=title,
        icon=icon,
        key=key,
        by=names.get(event.actor, event.actor),
        detail=_detail(event),
        anchor=f"v{event.version}" if event.version is not None else f"e{event.pk}",
    )


def _detail(event: Event) -> str:
    told = []
    for name in _TOLD:
        value = event.data.get(name)
        if isinstance(value, str | int) and not isinstance(value, bool) and value != "":
            said = words.FAILURE_WORDS.get(str(value), str(value)) if name == "failure" else value
            told.append(str(said).replace("_", " ") if name != "provider_ref" else str(said))
    return " · ".join(told)


def looks(findings: Sequence[Finding]) -> list[Moment]:
    """Looks at the provider; equal ones in a row are one line with a count."""
    lines: list[Moment] = []
    previous: tuple[str, str, str] | None = None
    for finding in findings:
        same = (finding.lookup, finding.outcome, finding.reason)
        if same == previous:
            last = lines[-1]
            lines[-1] = Moment(
                **{**last.__dict__, "times": last.times + 1, "until": finding.started_at}
            )
            continue
        previous = same
        head = words.OUTCOMES[finding.outcome]
        lines.append(
            Moment(
                at=finding.started_at,
                title=f"Provider asked ({finding.lookup}): {head.word.lower()}",
                icon=head.icon,
                key=head.key,
                by="Reconciler",
                detail=finding.reason,
            )
        )
    return lines


def assemble(
    events: Sequence[Event],
    findings: Sequence[Finding],
    attempts: Sequence[Attempt],
    names: Mapping[str, str],
    decided: str,
) -> list[Moment | Band]:
    """All lines in order, with a band from each doubtful attempt's claim to its doubt."""
    doubtful = {attempt.number: attempt for attempt in attempts if _was_in_doubt(attempt)}
    lines: list[Moment | Band] = []
    band: Band | None = None
    for event in events:
        moment = _moment(event, names)
        number = event.data.get("attempt")
        if event.type == "operation.invoked" and number in doubtful:
            lines.append(moment)
            band = Band(number, doubtful[number].worker, decided=decided)
            lines.append(band)
        elif event.type == _DOUBT and band is not None:
            band = None
            lines.append(moment)
        elif band is not None:
            band.moments.append(moment)
        else:
            lines.append(moment)
    return _merge(lines, looks(findings))


def _was_in_doubt(attempt: Attempt) -> bool:
    return attempt.standing == "in_doubt" or attempt.outcome in {"lapsed", "unknown"}


def _merge(lines: list[Moment | Band], asked: list[Moment]) -> list[Moment | Band]:
    """Put the looks between the lines by time; a band stays behind its claim."""
    merged: list[Moment | Band] = []
    waiting = list(asked)
    for line in lines:
        if isinstance(line, Moment):
            while waiting and waiting[0].at < line.at:
                merged.append(waiting.pop(0))
        merged.append(line)
    return merged + list(waiting)
