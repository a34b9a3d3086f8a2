"""Looking at everything at once: as a rehearsal that writes nothing, or for good."""

import asyncio
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final
from uuid import UUID

from django.db import connection

from operations import rows
from reconcilers import conclusions, dossiers, engine, sweeps
from reconcilers.acting import Conclusion
from reconcilers.cases import Listener, Told
from reconcilers.models import ProviderAccount

_UNKNOWN: Final = """
SELECT operation_id FROM operations_standing WHERE state = 'UNKNOWN'
 ORDER BY operation_id LIMIT %s
"""
_DUE_NOW: Final = """
UPDATE reconcilers_duelook SET due_at = clock_timestamp(), asked_by = 'system:command'
 WHERE purpose = 'settle' AND (%s::text[] IS NULL OR lane = ANY(%s::text[]))
"""
_RUN_SECONDS: Final = 600.0


def rehearse(*, kind: str | None = None, most: int = 10_000) -> list[Conclusion]:
    """What would be concluded about every UNKNOWN operation. Asks providers, writes nothing."""
    with connection.cursor() as cur:
        cur.execute(_UNKNOWN, (most,))
        found = dossiers.load(cur, [row[0] for row in cur.fetchall()])
    wanted = [
        key
        for key, dossier in found.items()
        if kind is None or (dossier.account is not None and dossier.account.kind == kind)
    ]
    told: list[Conclusion] = []
    lock = threading.Lock()

    def judge(account_id: UUID | None, chunk: Sequence[Told]) -> Counter[str]:
        concluded = _judged(chunk)
        with lock:
            told.extend(concluded)
        return Counter(rehearsed=len(chunk))

    asyncio.run(engine.Engine().rehearse(wanted, judge))
    return sorted(told, key=lambda conclusion: conclusion.dossier.operation_id)


def look_at_everything(*, kind: str | None = None, listener: Listener) -> dict[str, int]:
    """Make every look of these accounts due, and work until nothing is."""
    while sweeps.run_once()["missing"]:
        continue
    lanes = None
    if kind is not None:
        of_kind = ProviderAccount.objects.filter(kind=kind).values_list("pk", flat=True)
        lanes = [str(key) for key in of_kind]
    with connection.cursor() as cur:
        cur.execute(_DUE_NOW, (lanes, lanes))
    conclude = partial(conclusions.conclude, listener=listener)
    return dict(engine.run(_RUN_SECONDS, kind=kind, conclude=conclude))


def _judged(chunk: Sequence[Told]) -> list[Conclusion]:
    with connection.cursor() as cur:
        now = rows.clock(cur)
        found = dossiers.load(cur, [one.lease.operation_id for one in chunk])
    concluded = []
    for one in chunk:
        dossier = found[one.lease.operation_id]
        dossier = replace(dossier, looks=(*dossier.looks, *one.looks))
        concluded.append(conclusions.judge(dossier, one.lease, one.looks, now))
    return concluded
