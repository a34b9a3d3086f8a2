"""The provider's object as the signing page shows it, with what does not fit said in words."""

from dataclasses import dataclass
from datetime import datetime

from console.presentation import amounts
from console.presentation.amounts import Amount
from operations.models import Operation
from reconcilers.single_object import FetchedObject

_MARKERS = {
    "ours": "It carries this operation's key.",
    "none": "It carries no key, so nothing on it says that it is of this call.",
    "other": "It carries the key of another call.",
}


@dataclass(frozen=True)
class Fetched:
    """`found` by its facts; else `sentence` says why not. `doubts` are reasons to look again."""

    seen: FetchedObject
    at: datetime
    sentence: str
    amount: Amount | None
    marker: str
    doubts: tuple[str, ...]


def of(seen: FetchedObject, operation: Operation) -> Fetched:
    """Put one fetched object beside the operation that it is said to be of."""
    at = datetime.fromisoformat(seen.fetched_at)
    if seen.outcome == "cannot_look":
        sentence = f"The provider could not be asked just now. {seen.reason}"
        return Fetched(seen, at, sentence, None, "", ())
    if seen.outcome == "missing":
        sentence = f"There is no {seen.id} in {seen.account} ({seen.mode})."
        return Fetched(seen, at, sentence, None, "", (sentence,))
    amount = None
    if seen.amount_minor is not None:
        amount = amounts.amount(seen.amount_minor, seen.currency, None)
    return Fetched(seen, at, "", amount, _MARKERS[seen.marker], tuple(_doubts(seen, operation)))


def _doubts(seen: FetchedObject, operation: Operation) -> list[str]:
    doubts = [_MARKERS[seen.marker]] if seen.marker != "ours" else []
    asked = (operation.amount_minor, (operation.currency or "").upper())
    shows = (seen.amount_minor, (seen.currency or "").upper())
    if None not in (seen.amount_minor, operation.amount_minor) and shows != asked:
        doubts.append("Its amount is not the one that was asked for.")
    if seen.mode and seen.mode != operation.environment:
        doubts.append(f"It is of the {seen.mode} mode; this operation is {operation.environment}.")
    return doubts
