"""One namespace's questions: workflows by id, activities by the history of their workflow.

NOT_FOUND proves something only while the namespace still remembers whatever can have closed since
the call was sent; after that it says nothing.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from reconcilers.evidence import CLOCK_SLACK, Look, Way
from reconcilers.providers.asking import OneByOne, could_not, looked
from reconcilers.providers.base import (
    AccountAccess,
    Gate,
    Identity,
    KnownObject,
    ProviderError,
    Question,
)
from reconcilers.providers.temporal import lookups
from reconcilers.providers.temporal.client import Frontend, Missing, Namespace
from reconcilers.providers.temporal.executions import named
from reconcilers.providers.temporal.lookups import LookUp, Reading
from reconcilers.providers.temporal.provider import WORKFLOWS, TemporalProvider

_PROVIDER: Final = TemporalProvider()


class TemporalSession(OneByOne):
    """Reads with one set of credentials."""

    def __init__(self, access: AccountAccess, gate: Gate, *, concurrency: int) -> None:
        super().__init__(gate, concurrency=concurrency)
        self._frontend = Frontend(access, gate)
        self._environment = access.environment
        self._expected = access.external_id
        self._namespace: Namespace | None = None
        self._unseen: ProviderError | None = None

    async def identify(self) -> Identity:
        """The namespace's id. Temporal has no modes, so that the account's own is returned."""
        namespace = await self._frontend.describe_namespace()
        return Identity(account_id=namespace.id, mode=self._environment)

    async def close(self) -> None:
        """Let the connection go."""
        self._frontend.close()

    def ways(self, question: Question) -> tuple[Way, ...]:
        """As the provider offers them."""
        return _PROVIDER.ways(question.object_kind)

    async def check(self, known: Mapping[str, KnownObject]) -> None:
        """The namespace is the one that was meant, and an earlier workflow of ours is visible."""
        self._namespace = await self._read_namespace()
        if self._expected and self._namespace.id and self._namespace.id != self._expected:
            raise ProviderError(
                f"the namespace {self._frontend.namespace} here is {self._namespace.id}, and this"
                f" account is {self._expected}",
                permanent=True,
            )
        self._unseen = await self._control(known)

    async def look_for(self, question: Question) -> list[Look]:
        """By id; where effects are counted, by the visibility index as well."""
        kind = question.object_kind
        ways = {way.name: way for way in self.ways(question) if question.allows(way.name)}
        looks = []
        if kind in WORKFLOWS and "describe" in ways:
            looks.append(await self._look(ways["describe"], question, lookups.describe))
        if kind in WORKFLOWS and "list" in ways and (question.count_effects or not looks):
            looks.append(await self._look(ways["list"], question, lookups.list_runs))
        if kind == "activity" and "history" in ways:
            looks.append(await self._look(ways["history"], question, lookups.history))
        return looks

    async def _read_namespace(self) -> Namespace:
        try:
            return await self._frontend.describe_namespace()
        except ProviderError as problem:
            if problem.status != 403:
                raise
            # What is found counts all the same; what is not found then proves nothing.
            return Namespace(id="", retention=None, is_replicated=True)

    async def _control(self, known: Mapping[str, KnownObject]) -> ProviderError | None:
        horizon = self._horizon()
        for kind in WORKFLOWS:
            each = known.get(kind)
            run_and_id = named(each.id, "") if each else None
            if each is None or run_and_id is None or not run_and_id[0]:
                continue
            if horizon is None or each.created_at <= horizon:
                # It may have been forgotten, and proves nothing either way.
                continue
            try:
                await self._frontend.describe(*run_and_id)
            except Missing:
                return ProviderError(
                    f"an earlier workflow of ours, {run_and_id[0]}, is not visible in this"
                    " namespace, so that nothing found would mean nothing"
                )
            except ProviderError as problem:
                return problem
        return None

    def _horizon(self) -> datetime | None:
        return self._namespace.forgets_before(self._gate.now()) if self._namespace else None

    async def _look(self, way: Way, question: Question, read: LookUp) -> Look:
        reading = Reading(self._gate.now())
        try:
            await read(self._frontend, question, reading)
        except ProviderError as problem:
            reading.problem = problem
        facts: dict[str, Any] = {
            "started_at": reading.started_at,
            "ended_at": self._gate.now(),
            "endpoint": f"{self._frontend.namespace}: {way.name} workflow",
            "account_seen": self._namespace.id if self._namespace else "",
        }
        found = tuple(reading.sightings.values())
        horizon = self._horizon()
        silence = None if found or reading.problem else self._why_silence_is_none(question, horizon)
        if silence is not None and way.may_prove_absence:
            return could_not(way, silence, reading.started_at, **facts)
        return looked(
            way,
            found,
            reading.problem,
            answers=reading.answers,
            **facts,
            exhaustive=way.exhaustive and reading.exhaustive and not self._is_replicated(),
            covers_from=horizon,
            pages=reading.pages,
            control_passed=self._unseen is None,
        )

    def _is_replicated(self) -> bool:
        return self._namespace is None or self._namespace.is_replicated

    def _why_silence_is_none(
        self, question: Question, horizon: datetime | None
    ) -> ProviderError | None:
        """Why NOT_FOUND says nothing here, or None where it does."""
        if self._unseen is not None:
            return self._unseen
        if horizon is None:
            return ProviderError(
                "nothing was found, but how long this namespace keeps closed workflows may not be"
                " asked: give the credentials its read role",
                permanent=True,
            )
        if question.window_from - CLOCK_SLACK <= horizon:
            return ProviderError(
                "nothing was found, but the namespace has forgotten workflows that closed before"
                f" {horizon:%Y-%m-%d %H:%M} UTC, and the call may have been one: find out by hand",
                permanent=True,
            )
        return None
