"""Search fields that compare: ages, dates, amounts, counts."""

import re
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from django.db.models import Q

from console.presentation import amounts
from console.search.grammar import BadQuery, Term

if TYPE_CHECKING:
    from console.search.fields import Viewer

_LENGTH = re.compile(r"(\d{1,6})(s|m|min|h|d|w)")
_SECONDS: Final = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400, "w": 604800}
_MONEY = re.compile(r"(-?[\d.]+)([A-Za-z]{3})")
_LOOKUP: Final = {">": "gt", ">=": "gte", "<": "lt", "<=": "lte"}
#: An age grows as its instant gets earlier, so every comparison turns round.
_TURNED: Final = {">": "lt", ">=": "lte", "<": "gt", "<=": "gte"}


def length(text: str) -> timedelta | None:
    """`30m`, `2h`, `7d`."""
    found = _LENGTH.fullmatch(text)
    return timedelta(seconds=int(found[1]) * _SECONDS[found[2]]) if found else None


def age(term: Term, viewer: "Viewer") -> Q:
    """`age:>30m`, `age:1h..2h`; one length alone means *older than*."""
    lengths = []
    for value in term.values:
        parsed = length(value)
        if parsed is None:
            raise BadQuery(f"“{value}” is no length of time.", "age:>30m")
        lengths.append(viewer.now - parsed)
    if term.operator == "range":
        return Q(created_at__gte=min(lengths), created_at__lte=max(lengths))
    return Q(**{f"created_at__{_TURNED.get(term.operator, 'lt')}": lengths[0]})


def created(term: Term, viewer: "Viewer") -> Q:
    """A day, an instant, `-7d` (the last seven days), a comparison or a range of them."""
    spans = [_day_or_instant(value, viewer) for value in term.values]
    begin, end = spans[0]
    match term.operator:
        case "range":
            return Q(created_at__gte=begin, created_at__lt=spans[1][1])
        case ">":
            return Q(created_at__gte=end)
        case ">=":
            return Q(created_at__gte=begin)
        case "<":
            return Q(created_at__lt=begin)
        case "<=":
            return Q(created_at__lt=end)
    return Q(created_at__gte=begin, created_at__lt=end)


def _day_or_instant(text: str, viewer: "Viewer") -> tuple[datetime, datetime]:
    """What it begins and ends with: a day lasts a day, `-7d` until now."""
    if text.startswith("-") and (back := length(text[1:])):
        return viewer.now - back, viewer.now + timedelta(minutes=1)
    today = viewer.now.astimezone(viewer.zone).replace(hour=0, minute=0, second=0, microsecond=0)
    if text in {"today", "yesterday"}:
        day = today - timedelta(days=1) if text == "yesterday" else today
        return day, day + timedelta(days=1)
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        raise BadQuery(
            f"“{text}” is neither a day nor an instant.", f"created:{today:%Y-%m-%d}"
        ) from None
    if parsed.tzinfo is None:
        parsed = parsed.replace(tzinfo=viewer.zone)
    whole_day = len(text) <= len("2026-11-30")
    return parsed, parsed + (timedelta(days=1) if whole_day else timedelta(seconds=1))


def amount(term: Term, viewer: "Viewer") -> Q:
    """`amount:>=1250.00EUR`: a currency is needed, and sums are compared within it alone."""
    parsed = [_money(value) for value in term.values]
    code = parsed[-1][1] or parsed[0][1]
    if code is None or any(other not in {None, code} for _, other in parsed):
        raise BadQuery("An amount needs one currency.", f"amount:>={term.values[0]}EUR")
    minors = []
    for number, _ in parsed:
        minor = amounts.minor_of(number, code)
        if minor is None:
            raise BadQuery(f"“{number}” is no amount in {code}.", "amount:>=1250.00EUR")
        minors.append(minor)
    same = Q(currency__in=[code, code.lower()])
    match term.operator:
        case "in":
            return same & Q(amount_minor__in=minors)
        case "range":
            return same & Q(amount_minor__gte=minors[0], amount_minor__lte=minors[1])
        case comparison:
            return same & Q(**{f"amount_minor__{_LOOKUP[comparison]}": minors[0]})


def _money(text: str) -> tuple[str, str | None]:
    found = _MONEY.fullmatch(text)
    return (found[1], found[2].upper()) if found else (text, None)


def attempts(term: Term, viewer: "Viewer") -> Q:
    """`attempt:>1`."""
    try:
        numbers = [int(value) for value in term.values]
    except ValueError:
        raise BadQuery("“attempt:” takes a whole number.", "attempt:>1") from None
    match term.operator:
        case "in":
            return Q(attempts__in=numbers)
        case "range":
            return Q(attempts__gte=numbers[0], attempts__lte=numbers[1])
        case comparison:
            return Q(**{f"attempts__{_LOOKUP[comparison]}": numbers[0]})
