"""Typed readers for environment variables; a value that cannot be right stops the boot with a hint.

An empty variable counts as one that is not set: compose files pass empty strings for blanks.
"""

import os
from urllib.parse import parse_qsl, unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured


class Misconfigured(ImproperlyConfigured):
    """An environment variable is missing or wrong; the message says which and what to do."""

    def __init__(self, name: str, problem: str, hint: str) -> None:
        super().__init__(f"{name} {problem}\n  hint: {hint}")
        self.name = name


def text(name: str, default: str = "") -> str:
    """Return the variable's text without surrounding blanks."""
    return os.environ.get(name, "").strip() or default


def required(name: str, hint: str) -> str:
    """Return the variable's text; a missing one stops the boot with the hint."""
    if value := text(name):
        return value
    raise Misconfigured(name, "is not set", hint)


def flag(name: str, *, default: bool) -> bool:
    """Read 1/0, true/false, yes/no or on/off, in any case."""
    value = text(name).lower()
    if not value:
        return default
    if value in {"1", "true", "yes", "on"}:
        return True
    if value in {"0", "false", "no", "off"}:
        return False
    raise Misconfigured(name, f"is {value!r}, which is neither yes nor no", "use 1 or 0")


def integer(name: str, default: int, *, at_least: int = 0) -> int:
    """Read a whole number that is not below a bound."""
    value = text(name)
    if not value:
        return default
    try:
        number = int(value)
    except ValueError:
        raise Misconfigured(name, f"is {value!r}, not a whole number", f"try {default}") from None
    if number < at_least:
        raise Misconfigured(name, f"is {number}", f"it must be {at_least} or more")
    return number


def one_of(name: str, allowed: tuple[str, ...], default: str) -> str:
    """Read one of a few words."""
    value = text(name, default)
    if value not in allowed:
        raise Misconfigured(name, f"is {value!r}", f"use one of: {', '.join(allowed)}")
    return value


def listed(name: str, default: str = "") -> list[str]:
    """Read comma-separated words; blanks are dropped."""
    return [word.strip() for word in text(name, default).split(",") if word.strip()]


def origin(name: str, value: str) -> tuple[str, str]:
    """Check that a value is an origin (scheme and host, no path); return it and its host name."""
    parts = urlsplit(value)
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.path not in {"", "/"}:
        raise Misconfigured(
            name, f"is {value!r}", "use scheme and host alone: https://countersign.example.com"
        )
    return f"{parts.scheme}://{parts.netloc}", parts.hostname


def redis_url(name: str, value: str) -> str:
    """Check a Redis URL."""
    if urlsplit(value).scheme not in {"redis", "rediss"}:
        raise Misconfigured(
            name, "is no Redis URL", "redis://user:password@host:6379/0, or rediss:// for TLS"
        )
    return value


def database(name: str, url: str) -> dict[str, object]:
    """Turn a Postgres URL into the connection part of a Django DATABASES entry.

    Query parameters become libpq options (``sslmode=require``); ``host=/folder`` names the folder
    of a Unix socket, as libpq has it.
    """
    parts = urlsplit(url)
    if parts.scheme not in {"postgres", "postgresql"}:
        raise Misconfigured(
            name,
            "is no Postgres URL (Countersign runs on Postgres only)",
            "postgresql://user:password@host:5432/countersign",
        )
    options = dict(parse_qsl(parts.query))
    dbname = unquote(parts.path.lstrip("/"))
    if not dbname:
        raise Misconfigured(name, "names no database", "end it with /countersign")
    return {
        "NAME": dbname,
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": options.pop("host", None) or unquote(parts.hostname or ""),
        "PORT": str(parts.port or options.pop("port", "")),
        "OPTIONS": options,
    }
