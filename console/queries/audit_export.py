"""The audit list as a file: NDJSON is the exact form, CSV is for spreadsheets and formula-safe."""

import csv
import json
from datetime import UTC, datetime
from hashlib import sha256
from io import StringIO
from typing import Any, Final

from django.db import connection, transaction

from approvals import audit
from approvals.models import User
from console.queries import audit as queries
from console.queries.audit import Filters
from operations.ids import handle
from operations.ledger import checkpoints
from operations.models import SealedEvent

#: The newest so many; the header says where the file ends.
MOST: Final = 20_000
#: What a spreadsheet takes for the beginning of a formula (OWASP).
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
_COLUMNS: Final = (
    "seq", "at", "sealed_at", "type", "actor", "environment", "namespace", "operation", "version",
    "from_state", "to_state", "data",
)  # fmt: skip


def as_ndjson(user: User, asked: Filters) -> tuple[str, bytes]:
    """`(file name, body)`: a header line, then one event a line, the newest first."""
    rows = _rows(asked)
    lines = [json.dumps(row, ensure_ascii=False, sort_keys=True) for row in rows]
    body = "".join(f"{line}\n" for line in lines).encode()
    header = _header(user, asked, rows, body)
    return _name("ndjson"), json.dumps(header, sort_keys=True).encode() + b"\n" + body


def as_csv(user: User, asked: Filters) -> tuple[str, bytes]:
    """The same for a spreadsheet; a cell that could be a formula begins with an apostrophe."""
    rows = _rows(asked)
    out = StringIO()
    writer = csv.DictWriter(out, _COLUMNS)
    writer.writeheader()
    for row in rows:
        told = row | {"data": json.dumps(row["data"], ensure_ascii=False, sort_keys=True)}
        writer.writerow({name: _safe(value) for name, value in told.items()})
    body = out.getvalue().encode()
    _header(user, asked, rows, body)
    return _name("csv"), body


def _rows(asked: Filters) -> list[dict[str, Any]]:
    found = queries.filtered(SealedEvent.objects.select_related("event").order_by("-seq"), asked)
    return [_row(row) for row in found[:MOST]]


def _row(sealed: SealedEvent) -> dict[str, Any]:
    event = sealed.event
    return {
        "seq": sealed.seq,
        "at": event.at.astimezone(UTC).isoformat(),
        "sealed_at": sealed.sealed_at.astimezone(UTC).isoformat(),
        "type": event.type,
        "actor": event.actor,
        "environment": event.environment,
        "namespace": event.namespace,
        "operation": handle("op", event.operation_id) if event.operation_id else None,
        "version": event.version,
        "from_state": event.from_state,
        "to_state": event.to_state,
        "data": event.data,
    }


def _header(user: User, asked: Filters, rows: list[dict[str, Any]], body: bytes) -> dict[str, Any]:
    """What the file is; logged with its digest, so a file can be matched with its export."""
    with transaction.atomic(), connection.cursor() as cur:
        published = checkpoints.latest(cur)
        header = {
            "type": "urn:countersign:audit-export:v1",
            "query": {"type": asked.type, "actor": asked.actor, "operation": asked.op},
            "zone": "UTC",
            "rows": len(rows),
            "is_cut_off": len(rows) == MOST,
            "seq_from": rows[-1]["seq"] if rows else None,
            "seq_to": rows[0]["seq"] if rows else None,
            "origin": published[0] if published else None,
            "checkpoint_size": published[1].size if published else None,
            "exported_by": user.email,
            "exported_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "sha256": sha256(body).hexdigest(),
        }
        data = {name: header[name] for name in ("query", "rows", "seq_from", "seq_to", "sha256")}
        audit.note(cur, "audit.exported", actor=f"user:{user.id}", data=data)
    return header


def _safe(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


def _name(ending: str) -> str:
    return f"countersign-audit-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.{ending}"
