"""What a provider is: a folder with one `provider`, its account schema, and the looks it offers.

A provider only ever reads. It knows nothing of operations, states or verdicts: it is asked
questions, and delivers what it saw as `evidence.Look`.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, ClassVar, Protocol
from uuid import UUID

from reconcilers.evidence import Look, Way
from reconcilers.providers.hooks import Hook, NoHooks


class ProviderError(Exception):
    """A provider could not be asked. `permanent` means that only a person's change helps."""

    def __init__(
        self,
        message: str,
        *,
        permanent: bool = False,
        status: int | None = None,
        retry_after_seconds: float | None = None,
    ) -> None:
        super().__init__(message)
        self.permanent = permanent
        self.status = status
        # A provider's header may say "nan", and no instant is that far away.
        usable = retry_after_seconds is not None and math.isfinite(retry_after_seconds)
        self.retry_after_seconds = retry_after_seconds if usable else None


class BadConfig(ValueError):
    """A configuration does not fit the provider's schema; the message names the field."""


@dataclass(frozen=True, kw_only=True)
class ConfigField:
    """One member of an account's configuration, in a file or in the console's form.

    `type` is one of str, int, float, bool, dict, list; `choices` bounds what a text may be, and
    `long` says that it wants more than one line.
    """

    name: str
    help: str
    secret: bool = False
    required: bool = False
    default: Any = None
    type: type = str
    choices: tuple[str, ...] = ()
    long: bool = False

    def check(self, value: Any) -> None:
        """Raise BadConfig, naming the field and never the value, where it does not fit."""
        number = self.type is float and isinstance(value, int)
        fits = isinstance(value, self.type) or number
        if not fits or (isinstance(value, bool) and self.type is not bool):
            raise BadConfig(f"{self.name}: expected {_KINDS[self.type]} ({self.help})")
        if self.choices and value not in self.choices:
            raise BadConfig(f"{self.name}: expected one of {', '.join(self.choices)}")


#: What the messages call the types of fields.
_KINDS: Mapping[type, str] = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    dict: "a mapping",
    list: "a list",
}


@dataclass(frozen=True, kw_only=True)
class AccountAccess:
    """An account opened for a session. Secrets never show in `repr`, logs or tracebacks."""

    id: UUID
    kind: str
    name: str
    environment: str
    external_id: str
    config: Mapping[str, Any]
    secrets: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class KnownObject:
    """An object of ours, seen before: it must be visible, or an empty list means nothing.

    `marker` is the text that its marker field held, empty where the read showed none.
    """

    kind: str
    id: str
    created_at: datetime
    marker: str = ""


@dataclass(frozen=True, kw_only=True)
class Question:
    """Did the call with this marker take effect?

    `object_ids` are ids that were reported or seen; `window_from` is the first instant at which
    the call can have been sent; `settles_at` the instant from which an empty answer may count;
    `count_effects` asks for every object, where one would do otherwise; `wanted` says that the
    call may still be executed under this key, so that nothing may be done to prevent it.
    """

    operation_id: UUID
    marker: str
    object_kind: str
    window_from: datetime
    object_ids: tuple[str, ...] = ()
    lookups: tuple[str, ...] = ()
    settles_at: datetime | None = None
    count_effects: bool = False
    wanted: bool = True

    def allows(self, lookup: str) -> bool:
        """Whether the tool's catalogue entry allows this look-up; none named allows all."""
        return not self.lookups or lookup in self.lookups


@dataclass(frozen=True, kw_only=True)
class Answer:
    """Every look that was made for one question, oldest first."""

    operation_id: UUID
    looks: tuple[Look, ...]


#: Called once per question, as soon as that question is done.
Deliver = Callable[[Answer], Awaitable[None]]


class Gate(Protocol):
    """The engine's half of a request: its clock, its shared limits, and its circuit breaker."""

    def now(self) -> datetime:
        """The database's clock."""

    async def turn(self, endpoint: str) -> None:
        """Wait for a turn at this endpoint; raises ProviderError where the wait is too long."""

    async def answered(self, endpoint: str) -> None:
        """The provider answered, whatever it said."""

    async def failed(self, endpoint: str, error: ProviderError) -> None:
        """It did not answer, or asked to be left alone."""


@dataclass(frozen=True, kw_only=True)
class Identity:
    """Which account and mode the credentials open."""

    account_id: str
    mode: str


class Session(ABC):
    """Credentials and connections of one account, for a while."""

    @abstractmethod
    async def identify(self) -> Identity:
        """Who the credentials belong to; raises ProviderError where that cannot be asked."""

    @abstractmethod
    async def ask(
        self, questions: Iterable[Question], known: Mapping[str, KnownObject], deliver: Deliver
    ) -> None:
        """Answer every question exactly once; a failure is a look that could not look."""

    @abstractmethod
    async def close(self) -> None:
        """Give connections back."""


class Provider(ABC):
    """One kind of provider. `limits` are requests per second by endpoint, `*` for any other."""

    kind: ClassVar[str]
    title: ClassVar[str]
    fields: ClassVar[tuple[ConfigField, ...]] = ()
    default_object: ClassVar[str] = ""
    limits: ClassVar[Mapping[str, float]] = {"*": 10.0}
    concurrency: ClassVar[int] = 8

    def limits_in(self, environment: str) -> Mapping[str, float]:
        """The limits of an account in this environment; `account` bounds all endpoints together."""
        return self.limits

    @abstractmethod
    def ways(self, object_kind: str) -> tuple[Way, ...]:
        """The look-ups for this kind of object, and what each can prove."""

    def ways_of(self, object_kind: str, config: Mapping[str, Any]) -> tuple[Way, ...]:
        """The look-ups of an account with this configuration, where they depend on it."""
        del config
        return self.ways(object_kind)

    @abstractmethod
    def open(self, access: AccountAccess, gate: Gate) -> Session:
        """A session. Makes no request yet."""

    def check_account(self, environment: str, values: Mapping[str, Any]) -> None:  # noqa: B027
        """Raise BadConfig where complete and well-typed values still cannot be right."""

    def kind_of_id(self, object_id: str) -> str:
        """The kind of object that an id names by its form; empty where its form does not say."""
        del object_id
        return ""

    @property
    def takes_hooks(self) -> bool:
        """Whether this provider sends messages to an address of ours."""
        return type(self).read_hook is not Provider.read_hook

    def read_hook(self, access: AccountAccess, headers: Mapping[str, str], body: bytes) -> Hook:
        """Verify and read a message to this account's address (design: the API, "Webhooks").

        `headers` in lower case, `body` as it came. Raises HookRefused where the signature does
        not hold, NoHooks where this provider sends nothing.
        """
        raise NoHooks(f"{self.title} sends no messages that this console reads")

    def request_lifetime(self, configured: timedelta, http_statuses: Iterable[int]) -> timedelta:
        """L: how long after `t_emit` the provider may still act, given what attempts were told."""
        return configured


def parse_config(
    provider: Provider, environment: str, document: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Split a configuration file into plain and secret values; raises BadConfig with the field."""
    known = {config_field.name: config_field for config_field in provider.fields}
    for name in document:
        if name not in known:
            raise BadConfig(f"{name}: {provider.kind} has no such field; it has {', '.join(known)}")
    plain: dict[str, Any] = {}
    secrets: dict[str, str] = {}
    for name, config_field in known.items():
        value = document.get(name, config_field.default)
        if value in (None, ""):
            if config_field.required:
                raise BadConfig(f"{name}: missing ({config_field.help})")
            continue
        config_field.check(value)
        if config_field.secret:
            secrets[name] = str(value)
        else:
            plain[name] = value
    provider.check_account(environment, {**plain, **secrets})
    return plain, secrets
