"""What the sequencer does, at once and in this transaction: seal, publish, open the gates."""

from django.db import connection

from approvals import signing_keys
from operations.ledger import checkpoints, keeping, publication, sequencer, soundness

#: As after a restore into another cluster, where whatever is visible and not sealed is sealed: a
#: snapshot never shows what its own transaction wrote.
_FUTURE = "99999999999:99999999999:"


def seal() -> int | None:
    """The size of the checkpoint that was published, or None where none was due.

    Inside a test's transaction nothing is kept outside the database: it is rolled back with it.
    """
    with connection.cursor() as cur:
        cur.execute(
            "INSERT INTO operations_sequencerstate (id, snapshot, last_seq) VALUES (1, %s, 0)"
            " ON CONFLICT (id) DO UPDATE SET snapshot = excluded.snapshot",
            (_FUTURE,),
        )
    sequencer.run_once()
    size = checkpoints.publish(signing_keys.ledger_signer())
    publication.open_gates()
    if connection.in_atomic_block:
        keeping.path().unlink(missing_ok=True)
    soundness.forget()
    return size
