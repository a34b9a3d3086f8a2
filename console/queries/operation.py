"""Everything the page of one operation shows, read once."""

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import cast

from django.db.models import Q

from approvals.models import ApprovalRequest, Decision, Resolution
from console.presentation import amounts, arguments, facts, timeline, words
from console.presentation.amounts import Amount
from console.presentation.arguments import Arguments
from console.presentation.facts import Fact
from console.presentation.words import Headline
from console.queries import actors, clock
from operations import documents, ids, states
from operations.models import Attempt, Event, Incident, Operation, Payload, Tool
from operations.rows import LockedOperation
from reconcilers.models import Finding
from reconcilers.reading import EvidenceLadder, evidence_ladder

#: Longer histories show their newest part.
MOST_EVENTS = 300
MOST_FINDINGS = 200


def find(handle: str) -> Operation | None:
    """The operation behind `op_…`, with its run."""
    key = ids.parse_handle("op", handle)
    if key is None:
        return None
    return (
        Operation.objects.select_related("run", "superseded_by", "compensates")
        .filter(pk=key)
        .first()
    )


@dataclass
class OperationPage:
    """Read lazily, so that a fragment costs only what it shows."""

    operation: Operation

    @cached_property
    def now(self) -> datetime:
        """One clock for the whole page."""
        return clock.now()

    @cached_property
    def headline(self) -> Headline:
        """The pill; a person's settlement outranks the bare state."""
        if self.operation.state == states.COMMITTED and self.settled_by:
            return words.HEADLINES["settled-yes"]
        return words.headline(self.operation, now=self.now)

    @cached_property
    def tool(self) -> Tool | None:
        """The catalogue's entry that the operation ran under."""
        version = self.operation.tool_version
        if version is None:
            return None
        return Tool.objects.filter(name=self.operation.tool, version=version).first()

    @cached_property
    def amount(self) -> Amount | None:
        """What it moves, in both units."""
        if self.operation.amount_minor is None:
            return None
        own = self.tool.exponents if self.tool else None
        return amounts.amount(self.operation.amount_minor, self.operation.currency, own)

    @cached_property
    def attempts(self) -> list[Attempt]:
        """Every try, the first one first."""
        return list(Attempt.objects.filter(operation=self.operation).order_by("number"))

    @cached_property
    def events(self) -> list[Event]:
        """The newest part of its history, in order."""
        newest = Event.objects.filter(operation=self.operation).order_by("-version", "-id")
        return list(reversed(newest[:MOST_EVENTS]))

    @cached_property
    def findings(self) -> list[Finding]:
        """Looks at the provider, in order."""
        newest = Finding.objects.filter(operation=self.operation).order_by("-started_at", "-id")
        return list(reversed(newest.select_related("account")[:MOST_FINDINGS]))

    @cached_property
    def approvals(self) -> list[ApprovalRequest]:
        """Requests for it, the newest first."""
        return list(ApprovalRequest.objects.filter(operation=self.operation).order_by("-id"))

    @cached_property
    def decisions(self) -> list[Decision]:
        """Signatures on those requests."""
        return list(
            Decision.objects.filter(request__in=self.approvals)
            .select_related("user", "key", "request")
            .order_by("decided_at")
        )

    @cached_property
    def resolutions(self) -> list[Resolution]:
        """Signed settlements."""
        return list(
            Resolution.objects.filter(operation=self.operation)
            .select_related("user")
            .order_by("decided_at")
        )

    @cached_property
    def compensations(self) -> list[Operation]:
        """Calls that undo it: the live one, and those of its run that ended."""
        of_run = Q(run=self.operation.run_id, compensates=self.operation)
        found = Operation.objects.filter(Q(compensation_slot=self.operation.pk) | of_run)
        return list(found.order_by("id"))

    @cached_property
    def incidents(self) -> list[Incident]:
        """Broken promises, open ones first."""
        return list(self.operation.incidents.order_by("resolved_at", "-id"))

    @cached_property
    def names(self) -> dict[str, str]:
        """Actors by name."""
        return actors.names(event.actor for event in self.events)

    @cached_property
    def settled_by(self) -> str:
        """Who settled it with a signature; empty where evidence or nobody did."""
        applied = [
            resolution
            for resolution in self.resolutions
            if resolution.applied and resolution.choice.startswith("settle-")
        ]
        return str(applied[-1].user) if applied else ""

    @cached_property
    def facts(self) -> list[Fact]:
        """Decision, claim, outcome."""
        signed = [decision for decision in self.decisions if decision.counts]
        newest = signed[-1] if signed else None
        return [
            facts.decision(
                self.operation,
                by=f"by {newest.user} (signed)" if newest else "",
                at=newest.decided_at if newest else None,
            ),
            facts.claim(self.operation, self.attempts[-1] if self.attempts else None),
            facts.outcome(
                self.operation,
                since=self.since,
                settled_by=f"by {self.settled_by} (signed)" if self.settled_by else "",
            ),
        ]

    @cached_property
    def since(self) -> datetime:
        """When it came into its present state."""
        for event in reversed(self.events):
            if event.to_state == self.operation.state and event.from_state != event.to_state:
                return event.at
        return self.operation.updated_at

    @cached_property
    def windows(self) -> list[str]:
        """Crash windows that nothing known excludes."""
        return documents.possible_windows(
            cast("LockedOperation", self.operation),
            documents.Beside(
                run_status=self.operation.run.status,
                has_doubt=any(attempt.standing == "in_doubt" for attempt in self.attempts),
                may_have_sent=any(
                    attempt.standing == "live" and (attempt.permit_at or not attempt.fenced)
                    for attempt in self.attempts
                ),
            ),
        )

    @cached_property
    def verdict(self) -> Headline:
        """What the findings prove."""
        return words.verdict_headline(words.verdict_kind(self.operation))

    @cached_property
    def waiting_for(self) -> str:
        """Whom or what it waits for, in words."""
        return words.WAITING_WORDS.get(self.operation.waiting_on or "", "nothing")

    @cached_property
    def ladder(self) -> EvidenceLadder | None:
        """What was asked, when, the answer, and what such an answer can prove."""
        if self.operation.state != states.UNKNOWN and not self.findings:
            return None
        return evidence_ladder(self.operation.pk)

    @cached_property
    def timeline(self) -> list[timeline.Moment | timeline.Band]:
        """History with its uncertainty bands."""
        return timeline.assemble(
            self.events, self.findings, self.attempts, self.names, self._evidence()
        )

    def _evidence(self) -> str:
        """What is said of an attempt that is still in doubt itself."""
        kind = words.verdict_kind(self.operation)
        if kind in {"committed", "committed_late", "in_flight", "conflict", "duplicate"}:
            return "The provider's evidence says W3: an effect is there."
        if kind == "absent":
            return "The provider's evidence says W2: there is no effect."
        if self.operation.state in states.TERMINAL and self.settled_by:
            return f"The record never told; {self.settled_by} settled it with a signature."
        return ""

    @cached_property
    def payloads(self) -> dict[str, Payload]:
        """Args, result, reason and error; the newest of each kind."""
        rows = Payload.objects.filter(operation=self.operation).exclude(kind="evidence")
        return {payload.kind: payload for payload in rows.order_by("id")}

    @cached_property
    def args(self) -> Arguments | None:
        """The exact arguments as a table; None where they are erased or were never readable."""
        return self._readable("args")

    @cached_property
    def result(self) -> Arguments | None:
        """What came back, the same way."""
        return self._readable("result")

    def _readable(self, kind: str) -> Arguments | None:
        payload = self.payloads.get(kind)
        body = bytes(payload.body) if payload and payload.body is not None else None
        return arguments.read(body) if body is not None else None

    @cached_property
    def reason(self) -> str:
        """The agent's own words; never verified."""
        payload = self.payloads.get("reason")
        if payload is None or payload.body is None:
            return ""
        return bytes(payload.body).decode(errors="replace")
