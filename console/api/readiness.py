"""What the product needs to be ready, each part looked at by itself.

Freshness is judged, not whether a process exists: a sequencer that runs and seals nothing fails.
"""

import logging
import re
import time
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import redis
from django.apps import apps
from django.conf import settings
from django.db import Error, connection
from django.db.migrations.executor import MigrationExecutor

log = logging.getLogger(__name__)

LAG_SECONDS: Final = 10.0
SWEEP_SECONDS: Final = 30.0
_BROKER_SECONDS: Final = 1.0

_CREATES: Final = re.compile(r"CREATE OR REPLACE (?:CONSTRAINT )?TRIGGER (\w+)").findall
_TRIGGERS = "SELECT tgname FROM pg_trigger WHERE NOT tgisinternal AND tgenabled IN ('O', 'A')"

# Batches are sealed in order of their commits, so a few ids below the newest sealed ones may still
# be unsealed: the look begins some thousand back and stops at the first.
_LAG = """
SELECT extract(epoch FROM clock_timestamp() - state.ran_at)::float8,
       extract(epoch FROM clock_timestamp() - state.swept_at)::float8,
       (SELECT extract(epoch FROM clock_timestamp() - event.at)::float8
        FROM operations_event event
        WHERE event.id > (SELECT coalesce(max(event_id), 0) - 5000 FROM
                          (SELECT event_id FROM operations_sealedevent
                           ORDER BY seq DESC LIMIT 1000) newest)
          AND NOT EXISTS (SELECT FROM operations_sealedevent sealed
                          WHERE sealed.event_id = event.id)
        ORDER BY event.id LIMIT 1)
FROM operations_sequencerstate state
"""

Part = dict[str, Any]


def look() -> dict[str, Part]:
    """Every part with whether it is well, in a worker thread. Never raises."""
    return {
        "database": _part(_database),
        "migrations": _part(_migrations),
        "guards": _part(_guards),
        "broker": _part(_broker),
        "sequencer": _part(_sequencer),
        "sweep": _part(_sweep),
    }


def _part(check: Callable[[], str]) -> Part:
    """A check returns what is wrong, or nothing."""
    try:
        wrong = check()
    except Error:
        wrong = "the database cannot be asked"
        connection.close()
    except (redis.RedisError, OSError) as error:
        wrong = f"cannot be reached: {type(error).__name__}"
    except Exception as error:
        # A probe answers whatever happens; a part that cannot be looked at is not ready.
        log.exception("a part could not be looked at")
        wrong = type(error).__name__
    return {"ok": not wrong, **({"detail": wrong} if wrong else {})}


def _database() -> str:
    with connection.cursor() as cur:
        cur.execute("SELECT pg_is_in_recovery()")
        return "is a standby that cannot be written" if cur.fetchone()[0] else ""


_migrated_until = 0.0


def _migrations() -> str:
    """A database is never migrated backwards under a running process: a yes holds for a minute."""
    global _migrated_until
    if time.monotonic() < _migrated_until:
        return ""
    executor = MigrationExecutor(connection)
    plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
    if plan:
        missing = ", ".join(f"{migration.app_label}.{migration.name}" for migration, _ in plan[:5])
        return f"not applied: {missing}"
    _migrated_until = time.monotonic() + 60
    return ""


@lru_cache(maxsize=1)
def guards() -> frozenset[str]:
    """The triggers that the apps' `sql/*guards.sql` create: what everything else relies on."""
    folders = (Path(app.path) / "sql" for app in apps.get_app_configs())
    files = (file for folder in folders for file in folder.glob("*guards.sql"))
    return frozenset(name for file in files for name in _CREATES(file.read_text()))


def _guards() -> str:
    with connection.cursor() as cur:
        cur.execute(_TRIGGERS)
        missing = guards() - {name for (name,) in cur.fetchall()}
    return f"not installed or disabled: {', '.join(sorted(missing))}" if missing else ""


def _broker() -> str:
    client = redis.Redis.from_url(
        settings.REDIS_URL,
        socket_connect_timeout=_BROKER_SECONDS,
        socket_timeout=_BROKER_SECONDS,
    )
    with client:
        client.ping()
    return ""


def _sequencer() -> str:
    ran, _, unsealed = _lag()
    if ran is None:
        return "has never run"
    if ran > LAG_SECONDS:
        return f"last ran {ran:.0f} s ago"
    if unsealed is not None and unsealed > LAG_SECONDS:
        return f"the oldest unsealed event is {unsealed:.0f} s old"
    return ""


def _sweep() -> str:
    _, swept, _ = _lag()
    if swept is None:
        return "no sweep has finished yet"
    return f"the last finished sweep was {swept:.0f} s ago" if swept > SWEEP_SECONDS else ""


def _lag() -> tuple[float | None, float | None, float | None]:
    with connection.cursor() as cur:
        cur.execute(_LAG)
        row: tuple[float | None, float | None, float | None] | None = cur.fetchone()
    return row or (None, None, None)
