"""Group commit at the door: what arrives while a group is away forms the next one.

Nobody waits for company: a request that finds no group away leaves at once, alone; under load the
groups grow by themselves. One group at a time makes the largest groups and so the cheapest calls;
one that stays away for long, behind somebody's lock, is not waited for. Whatever is not plain, and
every member of a group that failed, is answered by its ordinary handler, as if there were no groups
(`operations.together`).
"""

import asyncio
import logging
from collections import deque
from typing import Any, Final

from django.db import Error as DatabaseFailure
from django.db import connections

from console.api import problems
from console.api.requests import Answer, Request
from console.api.routes import Route
from console.api.workers import Workers
from operations.errors import DomainError
from operations.together import Group, Member

log = logging.getLogger(__name__)

#: Beyond this many the statements grow faster than the share of the commit shrinks.
_MOST_TOGETHER: Final = 64
#: A group that has been away for longer does not hold up the next.
_LONG_AWAY_SECONDS: Final = 0.05
_MOST_AWAY: Final = 4
#: Reading a longer body would hold up its neighbours.
_LONGEST_BODY: Final = 32 * 1024
#: The plans of these statements are made once per connection: for keys, never for whole tables.
_PLANS: Final = "-c enable_seqscan=off -c enable_hashjoin=off -c enable_mergejoin=off"


class Groups:
    """Gathers requests whose route names a `member`, for one event loop."""

    def __init__(self, ordinary: Workers) -> None:
        self._threads = Workers("api-groups", _MOST_AWAY, options=_PLANS)
        self._ordinary = ordinary
        self._away = 0
        self._left_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._queue: deque[_Entry] = deque()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def waiting(self) -> int:
        """Requests that wait for a group to leave."""
        return len(self._queue)

    async def run(self, route: Route, request: Request) -> Answer:
        """The request's answer; raises its Problem. Hanging up stops nothing that has left."""
        if len(request.body) > _LONGEST_BODY:
            return await self._ordinary.run(route.handler, request)
        entry = _Entry(route, request, asyncio.get_running_loop().create_future())
        self._queue.append(entry)
        self._leave()
        answer = await entry.future
        if answer is not None:
            return answer
        try:
            return await self._ordinary.run(route.handler, request)
        except problems.Problem as problem:
            if entry.may_be_stored and problem.code == "UNAVAILABLE":
                raise problems.outcome_uncertain() from problem
            raise

    def stop(self) -> None:
        """Let the groups that are away come back."""
        self._threads.stop()

    def _leave(self) -> None:
        """Send whoever waits, unless a group is away that will soon be back."""
        while self._queue and self._away < _MOST_AWAY:
            loop = asyncio.get_running_loop()
            wait = self._left_at + _LONG_AWAY_SECONDS - loop.time() if self._away else 0
            if wait > 0:
                if self._timer is None:
                    self._timer = loop.call_later(wait, self._look_again)
                return
            taken = [self._queue.popleft() for _ in range(min(len(self._queue), _MOST_TOGETHER))]
            self._away += 1
            self._left_at = loop.time()
            task = asyncio.create_task(self._travel(taken))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _look_again(self) -> None:
        self._timer = None
        self._leave()

    async def _travel(self, taken: list["_Entry"]) -> None:
        try:
            await self._threads.run(_carry_out, taken)
        except Exception:
            log.exception("a group of %d failed; each is answered alone", len(taken))
            for entry in taken:
                entry.no_room = False
                entry.may_be_stored = True
        finally:
            self._away -= 1
        for entry in taken:
            if entry.no_room:
                entry.no_room = False
                # At the end: many calls of one run must not hold up everybody else's.
                self._queue.append(entry)
            elif not entry.future.done():
                entry.tell()
        self._leave()


class _Entry:
    """One request on its way."""

    __slots__ = ("answer", "error", "future", "may_be_stored", "member", "no_room", "request",
                 "route")  # fmt: skip

    def __init__(
        self, route: Route, request: Request, future: asyncio.Future[Answer | None]
    ) -> None:
        self.route = route
        self.request = request
        self.future = future
        self.member: Member | None = None
        self.answer: Answer | None = None
        self.error: problems.Problem | None = None
        self.no_room = False
        self.may_be_stored = False

    def tell(self) -> None:
        """Give the answer, the refusal, or nothing: then its ordinary handler is asked."""
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.answer)


def _carry_out(entries: list[_Entry]) -> None:
    """In a thread: read the bodies, carry out what may be plain, note the answers."""
    group = Group()
    joined = [entry for entry in entries if _join(entry, group)]
    try:
        group.carry_out()
    except DatabaseFailure as error:
        database: Any = connections["default"]
        # Sent, and then no word: the handlers find out, unless they too hear nothing.
        lost = database.has_been_open and database.is_lost(error)
        if database.is_lost(error):
            database.close()
        log.warning("a group of %d is answered one by one: %s", len(joined), type(error).__name__)
        for entry in joined:
            entry.may_be_stored = lost
        return
    for entry in joined:
        entry.answer = _answer_of(entry.member)


def _join(entry: _Entry, group: Group) -> bool:
    if entry.member is None:
        make = entry.route.member
        try:
            entry.member = make(entry.request) if make is not None else None
        except problems.Problem as problem:
            entry.error = problem
        except DomainError as error:
            entry.error = problems.of(error)
        except DatabaseFailure:
            return False
    if entry.member is None:
        return False
    if not group.add(entry.member):
        entry.no_room = True
        return False
    return True


def _answer_of(member: Member | None) -> Answer | None:
    found = member.answer if member is not None else None
    if found is None or isinstance(found, dict):
        return Answer(200, found) if found is not None else None
    return Answer(found.status, found.body, found.headers)
