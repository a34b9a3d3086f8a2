"""Credentials of agent runtimes: minted once, kept only as a digest."""

import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Final
from uuid import UUID

from django.db import connection

from operations.actors import Runtime
from operations.ids import uuid7
from operations.models import ApiKey
from operations.models.access import SCOPES
from operations.models.scoped import ENVIRONMENTS

_PREFIX_SHOWN: Final = 16

_FIND = """
SELECT id, name, environment, namespace, scopes, extract(epoch FROM expires_at - now())::float8
FROM operations_apikey
WHERE digest = %s AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now())
"""


@dataclass(frozen=True, slots=True)
class Found:
    """A key that is good now, and for how many seconds it stays so (None: no end is set)."""

    runtime: Runtime
    seconds_left: float | None


def digest_of(token: str) -> bytes:
    """What is stored of a token: a plain digest, for 256 random bits cannot be guessed back."""
    return sha256(token.encode()).digest()


def create(
    name: str,
    *,
    environment: str,
    namespace: str,
    scopes: Iterable[str],
    expires_at: datetime | None = None,
) -> tuple[ApiKey, str]:
    """A new key and its token, which nobody can read again. ValueError says what is not allowed."""
    wanted = list(dict.fromkeys(scopes))
    if environment not in ENVIRONMENTS:
        raise ValueError(f"environment is one of {', '.join(ENVIRONMENTS)}, not {environment!r}")
    if not wanted or not set(wanted) <= set(SCOPES):
        raise ValueError(f"scopes are some of {', '.join(SCOPES)}, not {wanted}")
    if not name.strip() or not namespace.strip():
        raise ValueError("a key needs a name and a namespace")
    token = f"cs_{environment}_{secrets.token_urlsafe(32)}"
    key = ApiKey.objects.create(
        id=uuid7(),
        name=name.strip(),
        environment=environment,
        namespace=namespace.strip(),
        scopes=wanted,
        digest=digest_of(token),
        token_prefix=token[:_PREFIX_SHOWN],
        expires_at=expires_at,
    )
    return key, token


def find(digest: bytes) -> Found | None:
    """The runtime whose key has this digest; None where it is unknown, expired or revoked."""
    with connection.cursor() as cur:
        cur.execute(_FIND, [digest])
        row = cur.fetchone()
    if row is None:
        return None
    key_id, name, environment, namespace, scopes, seconds_left = row
    runtime = Runtime(
        key_id=UUID(str(key_id)),
        name=name,
        environment=environment,
        namespace=namespace,
        scopes=frozenset(scopes),
    )
    return Found(runtime, seconds_left)
