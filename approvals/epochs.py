"""The epoch of grants: raised by a restore or a failover, which kills what was not consumed.

The row names the cluster that it was written in: its identity and its timeline. Where the database
that is asked is another one (a promoted standby, a restored backup), whoever asks first raises the
epoch in its own transaction, so no grant of the old timeline is spent in the new one.
"""

from typing import Any, Final

from approvals import audit

#: Identity of the cluster and its timeline, which a promotion and a point-in-time restore change.
_CLUSTER: Final = """
SELECT (SELECT system_identifier::text FROM pg_control_system()) || '/' ||
       (SELECT timeline_id::text FROM pg_control_checkpoint())
"""
_READ: Final = f"SELECT epoch, cluster, ({_CLUSTER}) FROM approvals_grantepoch WHERE id = 1"  # noqa: S608
_RAISE: Final = """
INSERT INTO approvals_grantepoch AS known (id, epoch, cluster, raised_at)
VALUES (1, %s, %s, clock_timestamp())
ON CONFLICT (id) DO UPDATE SET epoch = known.epoch + 1, cluster = excluded.cluster,
    raised_at = excluded.raised_at
RETURNING epoch
"""


def current(cur: Any) -> int:
    """The epoch that grants must have now; raised first where the database is another one."""
    cur.execute(_READ)
    row = cur.fetchone()
    if row is None:
        cur.execute(_CLUSTER)
        return _write(cur, 1, cur.fetchone()[0])
    epoch, cluster, here = row
    if cluster == here:
        return int(epoch)
    if not cluster:
        # The first time that anybody asks: nothing is known to have changed.
        cur.execute("UPDATE approvals_grantepoch SET cluster = %s WHERE id = 1", (here,))
        return int(epoch)
    return raise_epoch(cur, "another timeline", actor="system:database")


def raise_epoch(cur: Any, why: str, *, actor: str) -> int:
    """Kill every grant that was not consumed; the new epoch."""
    cur.execute("SELECT cluster FROM approvals_grantepoch WHERE id = 1 FOR UPDATE")
    row = cur.fetchone()
    cur.execute(_CLUSTER)
    here = cur.fetchone()[0]
    if why == "another timeline" and row is not None and row[0] == here:
        # Somebody else was first while this one waited for the row.
        cur.execute("SELECT epoch FROM approvals_grantepoch WHERE id = 1")
        return int(cur.fetchone()[0])
    epoch = _write(cur, 2, here)
    data = {"epoch": epoch, "why": why, "cluster": here}
    audit.note(cur, "ledger.epoch_raised", actor=actor, data=data)
    return epoch


def _write(cur: Any, first: int, cluster: str) -> int:
    cur.execute(_RAISE, (first, cluster))
    return int(cur.fetchone()[0])
