"""One operation's evidence: each look-up, what it answered, and what such an answer can prove."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db import connection

from reconcilers import dossiers
from reconcilers.evidence import Facts, Look, Outcome, Way
from reconcilers.models import DueLook, Finding
from reconcilers.proofs import counts_towards_absence


@dataclass(frozen=True, kw_only=True)
class Rung:
    """One look-up on the ladder: what it is, when it was asked, and what its answer can prove."""

    lookup: str
    lookup_class: str
    words: str
    proves: str
    asked: int
    last_at: datetime | None
    answer: str
    horizon_at: datetime | None
    meaning: str
    looks: tuple[dict[str, Any], ...]


@dataclass(frozen=True, kw_only=True)
class EvidenceLadder:
    """Everything that was asked about one operation, and what comes next."""

    rungs: tuple[Rung, ...]
    settles_at: datetime | None
    next_look_at: datetime | None
    is_looking: bool
    key_expires_at: datetime | None
    deadline_at: datetime
    account: str
    nobody_to_ask: str


#: What an empty answer of each class can prove, in words.
PROVES: Final = {
    "A": "exact: settles it both ways",
    "B": "complete list: settles it both ways after the horizon",
    "C": "may be behind: a hit settles it, nothing else does",
    "E": "events: a hit settles it, nothing else does",
    "R": "a write that only the agent makes: a 2xx or a kept failure settles it, nothing else",
    "T": "takes the key: settles it at once",
    "N": "proves nothing",
}


def evidence_ladder(op_id: UUID) -> EvidenceLadder | None:
    """The ladder of one operation; None where there is no such operation."""
    with connection.cursor() as cur:
        dossier = dossiers.load(cur, [op_id]).get(op_id)
        if dossier is None:
            return None
    rows = list(Finding.objects.filter(operation=op_id).order_by("id").defer("answer"))
    due = DueLook.objects.filter(pk=op_id).first()
    facts = dossier.facts
    by_lookup: dict[str, list[tuple[Finding, Look]]] = {}
    for row, look in zip(rows, dossier.looks, strict=True):
        by_lookup.setdefault(look.lookup, []).append((row, look))
    ways = {way.name: way for way in facts.ways}
    for name, those in by_lookup.items():
        # A look-up that the tool no longer offers still shows what it once answered.
        newest = those[-1][1]
        ways.setdefault(
            name, Way(name=name, lookup_class=newest.lookup_class, words=newest.endpoint or name)
        )
    rungs = [_rung(facts, way, by_lookup.get(way.name, [])) for way in ways.values()]
    if dossier.replays:
        rungs.append(_replays(facts, dossier.replays))
    return EvidenceLadder(
        rungs=tuple(rungs),
        settles_at=facts.settles_at(),
        next_look_at=due.due_at if due else None,
        is_looking=bool(due and due.holder),
        key_expires_at=facts.key_expires_at if facts.accepts_key else None,
        deadline_at=facts.deadline_at,
        account=dossier.account.name if dossier.account else "",
        nobody_to_ask=facts.blind,
    )


def _rung(facts: Facts, way: Way, seen: Sequence[tuple[Finding, Look]]) -> Rung:
    horizon = facts.settles_at(way.lag) if way.may_prove_absence else None
    if not seen:
        answer, meaning = "not asked", "no id recorded" if way.name == "get" else "not needed yet"
    else:
        newest = seen[-1][1]
        answer, meaning = _answer(newest), _meaning(facts, newest)
    return Rung(
        lookup=way.name,
        lookup_class=way.lookup_class,
        words=way.words,
        proves=PROVES[way.lookup_class],
        asked=len(seen),
        last_at=seen[-1][1].started_at if seen else None,
        answer=answer,
        horizon_at=horizon,
        meaning=meaning,
        looks=tuple(_shown(row, look) for row, look in reversed(seen)),
    )


def _replays(facts: Facts, looks: Sequence[Look]) -> Rung:
    """What the runtime was told when it sent the same call again: no look of ours."""
    newest = looks[-1]
    return Rung(
        lookup="replay",
        lookup_class="R",
        words="the runtime's own sends under the same key",
        proves=PROVES["R"],
        asked=len(looks),
        last_at=newest.started_at,
        answer=_answer(newest),
        horizon_at=None,
        meaning=_meaning(facts, newest),
        looks=(),
    )


def _answer(look: Look) -> str:
    if look.saved_failure:
        return "the failure that was kept for this key, once more"
    if look.outcome is Outcome.CANNOT_LOOK:
        return f"{'' if look.lookup_class == 'R' else 'could not look: '}{look.reason}"
    if look.outcome is Outcome.EMPTY:
        return "0 objects"
    noun = "object" if len(look.sightings) == 1 else "objects"
    return f"{len(look.sightings)} {noun}: " + ", ".join(
        f"{seen.id} {seen.status}" for seen in look.sightings
    )


def _meaning(facts: Facts, look: Look) -> str:
    if look.outcome is Outcome.CANNOT_LOOK:
        return "says nothing about the call"
    if look.outcome is Outcome.PENDING:
        return "it arrived, its effect is still open"
    if look.outcome is Outcome.HIT:
        return "it happened" if any(seen.verified for seen in look.sightings) else "a rumour"
    if counts_towards_absence(facts, look):
        return "counts towards absence"
    return "not visible yet"


def _shown(row: Finding, look: Look) -> dict[str, Any]:
    return {
        "id": row.pk,
        "outcome": look.outcome.value,
        "answer": _answer(look),
        "endpoint": look.endpoint,
        "account": look.account_seen,
        "mode": look.mode,
        "started_at": look.started_at,
        "ended_at": look.ended_at,
        "pages": look.pages,
        "objects": look.rows,
        "complete": look.complete,
        "control_passed": look.control_passed,
        "request_id": look.request_id,
        "answer_sha256": bytes(row.answer_sha256).hex() if row.answer_sha256 else "",
    }


def raw_answer(op_id: UUID, finding_id: int) -> bytes | None:
    """The raw answer of one finding, for inert display; None where it was erased or never was."""
    row = Finding.objects.filter(operation=op_id, pk=finding_id).only("answer").first()
    return bytes(row.answer) if row is not None and row.answer is not None else None
