"""The evidence ladder: each kind of look with its last answer, and what such a look can prove."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from console.presentation import words
from console.presentation.words import Headline
from reconcilers.models import Finding

#: Class of a look-up -> what it can prove at best.
PROVES: Final = {
    "A": "presence and, after the settle point, absence: exact and never behind",
    "B": "presence and, after the settle point, absence: a complete list",
    "C": "presence only: an index can be behind, so nothing found proves nothing",
    "E": "presence only: an event may be late or lost",
    "R": "presence: the provider answered the same key again",
    "T": "both: the unique key itself was taken",
    "N": "nothing: there is no look-up",
}


@dataclass(frozen=True)
class Rung:
    """One kind of look. `times` counts its equal answers, of which `asked_at` is the last."""

    method: str
    asked_at: datetime | None
    headline: Headline
    detail: str
    proves: str
    times: int


def ladder(findings: Iterable[Finding]) -> list[Rung]:
    """The last answer of each look-up, the newest first."""
    rungs: dict[str, Rung] = {}
    for finding in findings:
        before = rungs.pop(finding.lookup, None)
        same = before is not None and before.headline.word == words.OUTCOMES[finding.outcome].word
        rungs[finding.lookup] = Rung(
            method=_method(finding),
            asked_at=finding.started_at,
            headline=words.OUTCOMES[finding.outcome],
            detail=_detail(finding),
            proves=PROVES.get(finding.lookup_class, ""),
            times=before.times + 1 if same and before else 1,
        )
    return list(reversed(rungs.values()))


def _method(finding: Finding) -> str:
    where = finding.account.name if finding.account else ""
    return f"{finding.lookup} at {where}" if where else finding.lookup


def _detail(finding: Finding) -> str:
    if finding.reason:
        return finding.reason
    objects = [
        f"{seen.get('id', '?')} ({seen['status']})" if seen.get("status") else str(seen.get("id"))
        for seen in finding.objects_seen
    ]
    if objects:
        return ", ".join(objects[:5])
    read = f"{finding.pages} page{'' if finding.pages == 1 else 's'} read" if finding.pages else ""
    return f"{read}, complete" if finding.complete and read else read
