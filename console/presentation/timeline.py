"""What happened, in order: events, looks at the provider, and the bands where nobody can know.

A crash after the intent and before the result leaves the same record whether the effect took place
(W3) or not (W2). The band says so instead of choosing.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
    is_look: bool = False

    def says_the_same(self, other: "Moment") -> bool:
        """Would the other line read like this one?"""
        return (self.title, self.detail) == (other.title, other.detail)


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
    "operation.compensation_opened": ("A call that undoes it was opened", "rotate-ccw", "waiting"),
    "operation.closed": ("Intent closed", "x", "flat"),
    "operation.verdict": ("Verdict", "search", "pending"),
    "operation.effect_status": ("Effect status changed", "info", "pending"),
    "operation.described": ("Described by a record", "info", "pending"),
    "operation.version_changed": ("The agent's version changed", "info", "stalled"),
    "operation.incident": ("Incident opened", "shield-alert", "conflict"),
    "resolution.signed": ("A person signed", "stamp", "approved"),
    "operation.gate_opened": ("Approval asked for", "hourglass", "waiting"),
    "operation.gate_granted": ("Approved", "stamp", "approved"),
    "operation.gate_sealed": ("Approval sealed in the ledger", "layers", "approved"),
    "operation.gate_refused": ("Approval refused", "ban", "flat"),
    "operation.gate_revoked": ("Approval revoked", "ban", "failed"),
}

#: What the same facts are called where a runtime told them after the fact.
_REPORTED: Final = {
    "operation.invoked": "Send reported",
    "operation.committed": "Success reported",
    "operation.late_effect": "Success reported",
    "operation.failed": "Failure reported",
    "operation.in_doubt": "Marked unknown by reports",
}

#: Members of an event's data that are words worth reading, in this order.
_TOLD: Final = (
    "choice", "failure", "reason", "kind", "standing", "error_type", "http_status", "effect_status",
    "provider_ref", "closed_as",
)  # fmt: skip

#: Events that end an attempt without proving what it did.
_DOUBT: Final = "operation.in_doubt"
_SENT: Final = "operation.invoked"


def moments(events: Iterable[Event], names: Mapping[str, str]) -> list[Moment]:
    """Each event as a line."""
    return [_moment(event, names) for event in events]


def _moment(event: Event, names: Mapping[str, str]) -> Moment:
    plain = event.type.replace(".", " ").replace("_", " ").capitalize()
    title, icon, key = _WORDS.get(event.type, (plain, "circle-dot", "pending"))
    if event.type == "operation.reconciled" and event.to_state == "FAILED":
        title, icon, key = "Settled: it did not happen", "shield-x", "settled-no"
    number = event.data.get("attempt")
    if "records" in event.data:
        title = _REPORTED.get(event.type, title)
    elif event.type == _SENT and number:
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
    """Each look at the provider as a line."""
    lines = []
    for finding in findings:
        head = words.OUTCOMES[finding.outcome]
        lines.append(
            Moment(
                at=finding.started_at,
                title=f"Provider asked ({finding.lookup}): {head.word.lower()}",
                icon=head.icon,
                key=head.key,
                by="Reconciler",
                detail=finding.reason,
                is_look=True,
            )
        )
    return lines


def assemble(
    events: Sequence[Event],
    findings: Sequence[Finding],
    attempts: Sequence[Attempt],
    names: Mapping[str, str],
    evidence: str,
) -> list[Moment | Band]:
    """All lines in order, with a band from each doubtful attempt's claim to its doubt.

    `evidence` is what the provider's answers say about an attempt that is still in doubt.
    """
    doubtful = {attempt.number: attempt for attempt in attempts if _was_in_doubt(attempt)}
    lines: list[Moment | Band] = []
    band: Band | None = None

    def open_band(number: int) -> Band:
        attempt = doubtful.pop(number)
        opened = Band(number, attempt.worker, decided=_decided(attempt, attempts, evidence))
        lines.append(opened)
        return opened

    for event in events:
        moment = _moment(event, names)
        if event.type == _DOUBT:
            # A send that nobody claimed comes into doubt without a claim before it.
            if band is None and (number := _named(event, doubtful)) is not None:
                open_band(number)
            band = None
            lines.append(moment)
        elif event.type == _SENT and (number := _named(event, doubtful)) is not None:
            lines.append(moment)
            band = open_band(number)
        elif band is not None:
            band.moments.append(moment)
        else:
            lines.append(moment)
    return _merge(lines, looks(findings))


def _named(event: Event, doubtful: Mapping[int, Attempt]) -> int | None:
    """The doubtful attempt that the event is about; records name none, so the first is meant."""
    number = event.data.get("attempt")
    if number is None:
        return min(doubtful, default=None)
    return number if number in doubtful else None


def _was_in_doubt(attempt: Attempt) -> bool:
    return attempt.standing in {"in_doubt", "covered"} or attempt.outcome in {"lapsed", "unknown"}


def _decided(attempt: Attempt, attempts: Sequence[Attempt], evidence: str) -> str:
    """What became of this attempt's doubt; empty while it lasts."""
    match attempt.standing:
        case "committed":
            return "It was W3: this attempt's effect took place."
        case "no_effect" | "not_sent":
            return "It was W2: this attempt had no effect."
        case "covered":
            acted = next((one.number for one in attempts if one.standing == "committed"), None)
            by = f" attempt {acted}" if acted else " a later attempt"
            return (
                f"Which of the two is still not known, and does not matter any more:{by} was sent "
                "under the same key, so the effect is there once."
            )
    return evidence


def _merge(lines: list[Moment | Band], asked: list[Moment]) -> list[Moment | Band]:
    """Put the looks between the lines by time, and equal ones in a row on one line."""
    merged: list[Moment | Band] = []
    waiting = list(asked)
    for line in lines:
        if isinstance(line, Moment):
            while waiting and waiting[0].at < line.at:
                _add_look(merged, waiting.pop(0))
        merged.append(line)
    for look in waiting:
        _add_look(merged, look)
    return merged


def _add_look(merged: list[Moment | Band], look: Moment) -> None:
    last = merged[-1] if merged else None
    if isinstance(last, Moment) and last.is_look and last.says_the_same(look):
        merged[-1] = replace(last, times=last.times + 1, until=look.at)
    else:
        merged.append(look)
