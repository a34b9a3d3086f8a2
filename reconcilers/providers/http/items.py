"""From a JSON answer to sightings, by the account's pointers."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from operations.canonical import resolve_pointer
from reconcilers.evidence import Sighting, Stage
from reconcilers.providers.base import ProviderError
from reconcilers.providers.http.declaration import Declaration

KIND: Final = "object"
_LONGEST_TEXT: Final = 400
_MOST_DIGITS: Final = 18


def items_of(declared: Declaration, body: Any) -> list[Any]:
    """The objects of an answer: a list where one is declared, else the answer itself."""
    pointer = declared.pointer("items")
    if pointer is None:
        return body if isinstance(body, list) else [body]
    found = at(body, pointer)
    if not isinstance(found, list):
        raise ProviderError(f"the answer has no list at {pointer}")
    return found


def at(body: Any, pointer: str | None) -> Any:
    """What stands there, None where nothing does."""
    if pointer is None:
        return None
    try:
        return resolve_pointer(body, pointer)
    except LookupError:
        return None


def marked(declared: Declaration, items: Sequence[Any], marker: str) -> list[Any]:
    """Those that carry exactly our key."""
    return [item for item in items if at(item, declared.pointer("marker")) == marker]


def sighting(declared: Declaration, item: Any, *, environment: str, verified: bool) -> Sighting:
    """One object; raises ProviderError where it is not understood or is of the other mode."""
    object_id = at(item, declared.pointer("id"))
    if not isinstance(object_id, str | int) or isinstance(object_id, bool) or object_id == "":
        raise ProviderError("an object with our key and without an id", permanent=True)
    mode = _mode(at(item, declared.pointer("mode")))
    if mode not in {"", environment}:
        raise ProviderError(f"{str(object_id)[:60]} is of the other mode", permanent=True)
    status = at(item, declared.pointer("status"))
    marker = at(item, declared.pointer("marker"))
    currency = at(item, declared.pointer("currency"))
    return Sighting(
        id=str(object_id)[:_LONGEST_TEXT],
        kind=KIND,
        status="" if status is None else str(status)[:_LONGEST_TEXT],
        stage=_stage(declared.config.get("statuses", {}), status),
        marker=marker if isinstance(marker, str) else None,
        verified=verified,
        amount_minor=_amount(declared, at(item, declared.pointer("amount"))),
        currency=currency.upper()[:10] if isinstance(currency, str) else None,
        mode=mode,
        created_at=_instant(at(item, declared.pointer("created_at"))),
    )


def _stage(statuses: Mapping[str, Sequence[str]], status: Any) -> Stage:
    """Without words an object is a done effect; a word that is not known counts as open."""
    if not statuses:
        return Stage.DONE
    for stage in Stage:
        if str(status) in statuses.get(stage.value, ()):
            return stage
    return Stage.IN_FLIGHT


def _mode(found: Any) -> str:
    if isinstance(found, bool):
        return "live" if found else "test"
    return found if isinstance(found, str) else ""


def _amount(declared: Declaration, found: Any) -> int | None:
    """Minor units, told as they are or in units of 10^amount_exponent of them."""
    if found is None:
        return None
    try:
        amount = Decimal(str(found)) if not isinstance(found, bool) else Decimal("NaN")
        scaled = amount.scaleb(declared.config.get("amount_exponent") or 0)
        if (
            scaled.is_finite()
            and scaled.adjusted() < _MOST_DIGITS
            and scaled == scaled.to_integral_value()
        ):
            return int(scaled)
    except InvalidOperation:
        pass
    raise ProviderError("the amount is no whole number of minor units", permanent=True)


def _instant(found: Any) -> datetime | None:
    try:
        if isinstance(found, int | float) and not isinstance(found, bool):
            return datetime.fromtimestamp(found, UTC)
        if isinstance(found, str):
            instant = datetime.fromisoformat(found)
            return instant if instant.tzinfo else instant.replace(tzinfo=UTC)
    except (ValueError, OverflowError, OSError):
        pass
    return None
