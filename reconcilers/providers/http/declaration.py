"""What an account declares about its interface, checked, and the addresses it makes."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from string import Formatter
from typing import Any, Final
from urllib.parse import quote, urljoin, urlsplit

from reconcilers.evidence import PROVES_ABSENCE, Stage, Way
from reconcilers.providers.base import BadConfig, ProviderError, Question
from reconcilers.providers.http.addresses import refused_address

CLASSES: Final = ("A", "B", "C", "E")
EMPTY: Final = ("404", "empty_list")
POINTERS: Final = (
    "items",
    "id",
    "marker",
    "status",
    "amount",
    "currency",
    "created_at",
    "mode",
    "next",
)
_STAGES: Final = tuple(stage.value for stage in Stage)
_POINTER: Final = re.compile(r"(/([^~/]|~[01])*)+")
#: A header's name, and none that would change what is asked or how the answer comes.
_HEADER: Final = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,60}")
_HEADERS_OF_OURS: Final = frozenset(
    {"host", "connection", "content-length", "transfer-encoding", "accept-encoding", "cookie"}
)


@dataclass(frozen=True)
class Declaration:
    """An account's configuration, with its defaults."""

    config: Mapping[str, Any]

    @property
    def lookup_class(self) -> str:
        return str(self.config["class"])

    @property
    def way(self) -> Way:
        """The one look-up, and what it can prove."""
        return Way(
            name="lookup",
            lookup_class=self.lookup_class,
            words=f"the answer of {self.host}",
            exhaustive=self.lookup_class in PROVES_ABSENCE,
            lag=timedelta(seconds=self.config.get("lag_seconds") or 0),
        )

    @property
    def host(self) -> str:
        return urlsplit(str(self.config["url"])).hostname or ""

    @property
    def horizon(self) -> timedelta | None:
        """How long the interface remembers; None for ever."""
        days = self.config.get("horizon_days")
        return timedelta(days=days) if days else None

    def means_empty(self, condition: str) -> bool:
        """Whether this condition was declared to say that nothing is there."""
        return condition in map(str, self.config["empty"])

    def pointer(self, name: str) -> str | None:
        """Where this fact stands, None where the account does not say."""
        found: str | None = self.config.get(name)
        return found

    def question_url(self, question: Question) -> str:
        """The address that asks about one call; its parts are escaped."""
        return self.key_url(question.marker, question.window_from)

    def key_url(self, key: str, since: datetime) -> str:
        """The same for any key."""
        return _filled(
            str(self.config["url"]),
            {
                "key": key,
                "since": since.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
                "since_unix": str(int(since.timestamp())),
            },
        )

    def item_url(self, object_id: str) -> str | None:
        """The address of one object by its id."""
        template = self.config.get("item_url")
        return _filled(str(template), {"id": object_id}) if template else None

    def next_url(self, current: str, told: str) -> str:
        """The next page's address; raises ProviderError where it leaves the origin."""
        found = urljoin(current, told)
        if _origin(found) != _origin(current):
            raise ProviderError("the next page is at another origin", permanent=True)
        return found


def check(values: Mapping[str, Any]) -> None:
    """Raise BadConfig where the declaration cannot be right, or promises what it must not."""
    _check_url("url", values, needs="key", allows={"key", "since", "since_unix"})
    _check_url("item_url", values, needs="id", allows={"id"})
    _check_url("account_url", values, needs="", allows=set())
    _check_auth(values)
    for name in (*POINTERS, "account_pointer"):
        if values.get(name) and not _POINTER.fullmatch(values[name]):
            raise BadConfig(f"{name}: expected a JSON pointer, such as /data/0/id")
    _check_words(values)
    _check_numbers(values)
    _check_class(values)


def _check_url(name: str, values: Mapping[str, Any], *, needs: str, allows: set[str]) -> None:
    text = values.get(name)
    if not text:
        return
    try:
        found = [part[1:] for part in Formatter().parse(text) if part[1] is not None]
        fields = [field for field, spec, conversion in found if not spec and not conversion]
        if len(fields) < len(found) or not set(fields) <= allows:
            raise KeyError
        plain = _filled(text, dict.fromkeys(allows, "x"))
        parts = urlsplit(plain)
        bool(parts.port)  # raises where it is no number
    except (ValueError, KeyError, IndexError, AttributeError):
        known = ", ".join(f"{{{field}}}" for field in sorted(allows)) or "none"
        raise BadConfig(f"{name}: expected an address; its parameters are {known}") from None
    if needs and needs not in fields:
        raise BadConfig(f"{name}: does not use {{{needs}}}")
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.fragment:
        raise BadConfig(f"{name}: expected an address such as https://api.example/v1/x")
    if parts.username is not None or parts.password is not None:
        raise BadConfig(f"{name}: credentials do not belong into it")
    if "{" in "".join(urlsplit(text)[:2]):
        raise BadConfig(f"{name}: a parameter cannot choose the host")
    if parts.scheme == "http" and not values.get("allow_http"):
        raise BadConfig(f"{name}: expected https (or allow_http: true)")
    if not values.get("allow_private") and refused_address(parts.hostname):
        raise BadConfig(f"{name}: a private address (allow_private: true allows it)")


def _check_auth(values: Mapping[str, Any]) -> None:
    basic = [values.get("basic_user"), values.get("basic_password")]
    header = [values.get("header_name"), values.get("header_value")]
    if any(basic) != all(basic):
        raise BadConfig("basic_user: basic_user and basic_password go together")
    if any(header) != all(header):
        raise BadConfig("header_name: header_name and header_value go together")
    if sum(map(bool, (values.get("bearer"), any(basic), any(header)))) > 1:
        raise BadConfig("bearer: expected one way to sign in, not several")
    name = values.get("header_name", "x")
    if not _HEADER.fullmatch(name) or name.lower() in _HEADERS_OF_OURS:
        raise BadConfig("header_name: expected the name of a header that is free")
    for secret in ("bearer", "basic_user", "basic_password", "header_value"):
        if not str(values.get(secret, "")).isprintable():
            raise BadConfig(f"{secret}: expected one line of text")


def _check_words(values: Mapping[str, Any]) -> None:
    for condition in values["empty"]:
        # YAML reads 404 as a number.
        if str(condition) not in EMPTY:
            raise BadConfig(f"empty: expected some of {', '.join(EMPTY)}")
    for stage, words in values.get("statuses", {}).items():
        if stage not in _STAGES:
            raise BadConfig(f"statuses: {stage} is none of {', '.join(_STAGES)}")
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise BadConfig(f"statuses: expected a list of words for {stage}")
    if bool(values.get("statuses")) != bool(values.get("status")):
        raise BadConfig("statuses: goes together with status, the pointer to the word")
    if bool(values.get("account_url")) != bool(values.get("account_pointer")):
        raise BadConfig("account_pointer: goes together with account_url")


def _check_numbers(values: Mapping[str, Any]) -> None:
    for name in ("timeout_seconds", "deadline_hours", "horizon_days"):
        if values.get(name, 1) <= 0:
            raise BadConfig(f"{name}: expected a number above zero")
    for name in ("lag_seconds", "amount_exponent"):
        if values.get(name, 0) < 0:
            raise BadConfig(f"{name}: expected a number that is not negative")
    for name in ("limits", "signed_release_above"):
        members = values.get(name, {}).values()
        if not all(isinstance(value, int | float) and value > 0 for value in members):
            raise BadConfig(f"{name}: expected numbers above zero")


def _check_class(values: Mapping[str, Any]) -> None:
    """A and B are promises: they are made in words, or not at all."""
    declared = values["class"]
    promised = values.get("strongly_consistent") is True and values.get("complete") is True
    if declared in PROVES_ABSENCE and not promised:
        raise BadConfig(
            f"class: {declared} needs strongly_consistent: true (a read sees every earlier write)"
            " and complete: true (the answer holds every object with the key)"
        )
    if declared in PROVES_ABSENCE and values.get("lag_seconds"):
        raise BadConfig("lag_seconds: what is strongly consistent has no lag")
    if declared not in PROVES_ABSENCE and not values.get("item_url"):
        raise BadConfig(f"item_url: needed for class {declared}; its hits are read again by id")
    if declared == "B" and not values.get("items"):
        raise BadConfig("items: needed for class B, a list")


def _filled(template: str, values: Mapping[str, str]) -> str:
    return template.format(**{name: quote(value, safe="") for name, value in values.items()})


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port
