"""One query object for a list of operations, its count, its badge and its tile.

Pages are cut by key (the newest first, or the oldest), never by offset; counts stop at a cap.
"""

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Self

from django.db import OperationalError, connection, transaction
from django.db.models import Q, QuerySet
from psycopg.errors import QueryCanceled

from console.search import fields, grammar
from console.search.fields import Viewer
from console.search.grammar import BadQuery, Term
from operations.models import Operation

CAP: Final = 1000
PAGE: Final = 50
#: A list that takes longer is cancelled; the page says which filter to add.
SLOWEST_MILLISECONDS: Final = 2000


class TooBroad(Exception):
    """The database gave up: the query needs another filter."""


@dataclass(frozen=True)
class Count:
    """Exact up to the cap."""

    number: int
    capped: bool

    def __str__(self) -> str:
        return f"{self.number:,}+" if self.capped else f"{self.number:,}"

    def __bool__(self) -> bool:
        return self.number > 0


@dataclass(frozen=True)
class Page:
    """One screen of rows with the keys of its neighbours."""

    rows: list[Operation]
    older: str | None
    newer: str | None


@dataclass(frozen=True)
class Chip:
    """One term as the page shows it, with the query that is left when it is dropped."""

    term: Term
    says: str
    without: str


class OperationSearch:
    """A parsed query. `problem` is set where it could not be read, and it then finds nothing."""

    def __init__(
        self,
        query: str,
        viewer: Viewer,
        *,
        base: Q | None = None,
        oldest_first: bool = False,
    ) -> None:
        self.text = query.strip()
        self.viewer = viewer
        self.base = base
        self.oldest_first = oldest_first
        self.terms: tuple[Term, ...] = ()
        self.problem: BadQuery | None = None
        self._condition = Q()
        try:
            self.terms = grammar.parse(self.text, fields.FIELDS)
            for term in self.terms:
                self._condition &= fields.condition(term, viewer)
        except BadQuery as problem:
            self.problem = problem

    def narrowed(self, term: str) -> Self:
        """The same search with one more term; it replaces what the text says of that field."""
        field = term.partition(":")[0]
        kept = [str(known) for known in self.terms if known.field != field]
        return type(self)(
            " ".join([*kept, term]), self.viewer, base=self.base, oldest_first=self.oldest_first
        )

    def rows(self) -> QuerySet[Operation]:
        """Every row that matches, in no order."""
        if self.problem:
            return Operation.objects.none()
        found = Operation.objects.filter(self._condition)
        return found.filter(self.base) if self.base is not None else found

    def page(
        self,
        *,
        after: uuid.UUID | None = None,
        before: uuid.UUID | None = None,
        top: uuid.UUID | None = None,
    ) -> Page:
        """Rows after (or before) a key in the list's own order; `top` keeps out what is newer."""
        forward = before is None
        ascending = self.oldest_first is forward
        rows = self.rows().select_related("run").order_by("id" if ascending else "-id")
        edge = after if forward else before
        if edge is not None:
            rows = rows.filter(**{"id__gt" if ascending else "id__lt": edge})
        if top is not None and not self.oldest_first:
            rows = rows.filter(id__lte=top)
        with quickly():
            found = list(rows[: PAGE + 1])
        more = len(found) > PAGE
        found = found[:PAGE]
        if not forward:
            found.reverse()
        has_older = more if forward else True
        has_newer = after is not None if forward else more
        return Page(
            rows=found,
            older=found[-1].handle if found and has_older else None,
            newer=found[0].handle if found and has_newer else None,
        )

    def count(self) -> Count:
        """How many match, exact up to the cap."""
        return capped(self.rows())

    def chips(self, says: Callable[[Term], str] | None = None) -> list[Chip]:
        """The terms as chips."""
        return [
            Chip(
                term=term,
                says=says(term) if says else said(term),
                without=grammar.written([other for other in self.terms if other is not term]),
            )
            for term in self.terms
        ]


def capped[M](rows: "QuerySet[M]", cap: int = CAP) -> Count:  # type: ignore[type-var]
    """Count rows, stopping one past the cap."""
    with quickly():
        number = rows.order_by().values("pk")[: cap + 1].count()
    return Count(min(number, cap), number > cap)


@contextmanager
def quickly() -> Iterator[None]:
    """Run reads under the time limit of a page; raises :class:`TooBroad` beyond it."""
    try:
        with transaction.atomic():
            with connection.cursor() as cursor:
                cursor.execute(f"SET LOCAL statement_timeout = {SLOWEST_MILLISECONDS}")
            yield
            with connection.cursor() as cursor:
                cursor.execute("SET LOCAL statement_timeout = 0")
    except OperationalError as error:
        if isinstance(error.__cause__, QueryCanceled):
            raise TooBroad from error
        raise


_SIGNS: Final = {">": "more than", ">=": "at least", "<": "less than", "<=": "at most"}


def said(term: Term) -> str:
    """`state is unknown or stalled`, `age more than 30m`, `not tool is refund`."""
    name = {"text": "id begins with"}.get(term.field, term.field)
    match term.operator:
        case "in":
            phrase = f"{name}{'' if term.field == 'text' else ':'} {' or '.join(term.values)}"
        case "range":
            phrase = f"{name} {term.values[0]} to {term.values[1]}"
        case comparison:
            phrase = f"{name} {_SIGNS[comparison]} {term.values[0]}"
    return f"not {phrase}" if term.negated else phrase
