"""One slice of work: a batch of due looks of one lane, asked together and concluded as they come.

A slice holds leases, not transactions: it asks without a database, and concludes without a
network. It may die at any point; its leases lapse and the looks are made again.
"""

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from django.db import Error, connection

from operations import rows
from reconcilers import accounts, conclusions, dossiers, findings, keyring, queue
from reconcilers.breakers import Breakers, Door
from reconcilers.cases import Told
from reconcilers.dossiers import Dossier
from reconcilers.evidence import Look, Outcome
from reconcilers.models import ProviderAccount
from reconcilers.providers.base import Answer, KnownObject, ProviderError, Question, Session
from reconcilers.queue import Lease
from reconcilers.turns import DatabaseClock

logger = logging.getLogger(__name__)

#: No slice lasts longer; what it has not asked by then goes back unasked.
SLICE_SECONDS: Final = 60.0
#: Concluded in one transaction: enough that most of it is the statements' own work.
_CHUNK: Final = 500
_WRITERS: Final = 2
_FLUSH_SECONDS: Final = 0.1
#: A conclusion that Postgres could not take is offered again: it may be restarting.
_STORE_TRIES_SECONDS: Final = (0.2, 0.5, 1.0, 2.0, 4.0, 8.0)

#: Runs a function that uses the database in a thread of its own.
InThread = Callable[..., Awaitable[Any]]
Conclude = Callable[[UUID | None, Sequence[Told]], Counter[str]]
OpenSession = Callable[[ProviderAccount, DatabaseClock], Session]


@dataclass(frozen=True)
class Batch:
    """Leases with their dossiers, and the database's clock when they were read."""

    leases: dict[UUID, Lease]
    dossiers: dict[UUID, Dossier]
    clock: DatabaseClock
    account: ProviderAccount | None
    known: dict[str, KnownObject]


def read_batch(leases: Sequence[Lease]) -> Batch:
    """Everything that one slice needs to know before it asks."""
    by_id = {held.operation_id: held for held in leases}
    with connection.cursor() as cur:
        found = dossiers.load(cur, list(by_id))
        lane = leases[0].lane
        account = next((d.account for d in found.values() if d.account and d.lane == lane), None)
        known = findings.known_objects(cur, account.id) if account else {}
        clock = DatabaseClock.just_read(rows.clock(cur))
    return Batch(by_id, found, clock, account, known)


class Slice:
    """Serves one batch. `conclude` stores and judges; a dry run brings another."""

    def __init__(
        self,
        batch: Batch,
        *,
        in_thread: InThread,
        breakers: Breakers,
        open_session: OpenSession,
        conclude: Conclude = conclusions.conclude,
        learn: bool = True,
    ) -> None:
        self._batch = batch
        self._in_thread = in_thread
        self._breakers = breakers
        self._open_session = open_session
        self._conclude = conclude
        self._learn = learn
        self._told: list[Told] = []
        self._answered: set[UUID] = set()
        self.counts: Counter[str] = Counter()

    async def run(self) -> Counter[str]:
        """Ask, conclude, and hand back what could not be asked."""
        questions = self._sort()
        account = self._batch.account
        if questions and account is not None:
            questions = await self._through_the_door(account, questions)
        if questions and account is not None:
            await self._ask(account, questions)
        await self._flush()
        return self.counts

    def _sort(self) -> list[Question]:
        """The questions to ask; whatever needs no look is told at once."""
        questions = []
        for key, lease in self._batch.leases.items():
            dossier = self._batch.dossiers.get(key)
            if dossier is None:
                continue
            if lease.strikes >= queue.MOST_STRIKES:
                self._told.append(Told(lease=lease, looks=(), attention="look_kills_worker"))
            elif (
                dossier.lane != lease.lane
                or dossier.question is None
                or not _is_asked(dossier, lease)
            ):
                # Concluding writes the lane it belongs to, and the next look is made there.
                self._told.append(Told(lease=lease, looks=()))
            else:
                questions.append(dossier.question)
        return questions

    async def _through_the_door(
        self, account: ProviderAccount, questions: list[Question]
    ) -> list[Question]:
        """All of them, one as a probe, or none while the provider is down or paused."""
        if account.paused_at is not None:
            self._refuse(questions, f"asking {account.name} is paused", 300.0)
            return []
        door: Door = await asyncio.to_thread(self._breakers.ask, str(account.id))
        if door.state == "closed":
            return questions
        kept = questions[:1] if door.state == "probe" else []
        self._refuse(
            questions[len(kept) :],
            f"{account.name} has not been answering, and is left alone for a moment",
            max(door.seconds, 1.0),
        )
        return kept

    async def _ask(self, account: ProviderAccount, questions: Sequence[Question]) -> None:
        done = asyncio.Event()
        flusher = asyncio.create_task(self._keep_flushing(done))
        problem = "the look was broken off"
        try:
            async with asyncio.timeout(SLICE_SECONDS):
                session = await self._opened(account)
                await session.ask(questions, self._batch.known, self._deliver)
        except TimeoutError:
            if self._answered:
                self._hand_back(questions)
            problem = f"no answer within {SLICE_SECONDS:.0f} s"
        except ProviderError as error:
            self._refuse(
                [q for q in questions if q.operation_id not in self._answered],
                str(error),
                error.retry_after_seconds,
                kept=True,
            )
        except Exception as error:
            logger.exception("the %s provider failed", account.kind)
            problem = f"a defect in the {account.kind} provider ({_name_of(error)})"
        finally:
            # Never cancelled: its thread would go on without anybody who waits for it.
            done.set()
            await flusher
        self._refuse(
            [q for q in questions if q.operation_id not in self._answered], problem, None, kept=True
        )

    async def _opened(self, account: ProviderAccount) -> Session:
        """A session whose account is known to belong here."""
        try:
            session = self._open_session(account, self._batch.clock)
        except keyring.Unreadable as error:
            raise ProviderError(str(error), permanent=True) from None
        if self._learn and not account.external_id:
            try:
                identity = await session.identify()
            except ProviderError as error:
                if error.status != 403:
                    raise
                return session
            try:
                await self._in_thread(accounts.learn_external_id, account.id, identity.account_id)
            except accounts.AccountTaken as error:
                raise ProviderError(str(error), permanent=True) from None
        return session

    async def _deliver(self, answer: Answer) -> None:
        lease = self._batch.leases.get(answer.operation_id)
        if lease is None or answer.operation_id in self._answered:
            raise RuntimeError(f"an answer that nobody asked for: {answer.operation_id}")
        self._answered.add(answer.operation_id)
        # Not concluded here: what was read must not wait for what is written.
        self._told.append(Told(lease=lease, looks=answer.looks))

    def _refuse(
        self,
        questions: Iterable[Question],
        reason: str,
        retry_after_seconds: float | None,
        *,
        kept: bool = False,
    ) -> None:
        """A look that could not look; `kept` where something was really asked."""
        now = self._batch.clock.now()
        for question in questions:
            dossier = self._batch.dossiers[question.operation_id]
            way = next((w for w in dossier.facts.ways if question.allows(w.name)), None)
            look = Look(
                lookup=way.name if way else "look",
                lookup_class=way.lookup_class if way else "N",
                outcome=Outcome.CANNOT_LOOK,
                started_at=now,
                ended_at=now,
                reason=reason,
                retry_after_seconds=retry_after_seconds,
            )
            self._answered.add(question.operation_id)
            self._told.append(
                Told(lease=self._batch.leases[question.operation_id], looks=(look,), kept=kept)
            )

    def _hand_back(self, questions: Iterable[Question]) -> None:
        """There was more to ask than fits a slice: the rest is due again, and nothing is held
        against it."""
        for question in questions:
            if question.operation_id not in self._answered:
                self._answered.add(question.operation_id)
                self._told.append(
                    Told(lease=self._batch.leases[question.operation_id], looks=(), unasked=True)
                )

    async def _keep_flushing(self, done: asyncio.Event) -> None:
        while not done.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(done.wait(), _FLUSH_SECONDS)
            await self._flush()

    async def _flush(self) -> None:
        """Conclude what has been told so far, in chunks, a few at a time."""
        await asyncio.gather(*(self._flush_chunks() for _ in range(_WRITERS)))

    async def _flush_chunks(self) -> None:
        while self._told:
            chunk, self._told = self._told[:_CHUNK], self._told[_CHUNK:]
            self.counts += await self._store(chunk)

    async def _store(self, chunk: list[Told]) -> Counter[str]:
        account = self._batch.account
        account_id = account.id if account else None
        for pause in _STORE_TRIES_SECONDS:
            try:
                counts: Counter[str] = await self._in_thread(self._conclude, account_id, chunk)
            except Error as error:
                logger.warning("Postgres took no conclusion (%s); trying again", _name_of(error))
                await asyncio.sleep(pause)
            except Exception:
                logger.exception("%d looks could not be concluded", len(chunk))
                break
            else:
                return counts
        # Their leases lapse, and the looks are made again: a strike for each.
        return Counter(unstored=len(chunk))


def _is_asked(dossier: Dossier, lease: Lease) -> bool:
    """Whether the provider has anything to say about it in this state."""
    facts = dossier.facts
    if facts.state == "UNKNOWN":
        return facts.tool_class != "safe"
    return lease.purpose == "recheck"


def _name_of(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    return type(error).__name__
