"""The Merkle log: whatever is changed by hand is found, named, and stops signing and granting."""

import base64
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import IntegrityError, connection, transaction

from approvals import admission, decisions, enrolment, epochs, signing_keys, statements
from approvals.errors import Refused
from operations.errors import DomainError
from operations.ledger import (
    breaks,
    checkpoints,
    keeping,
    merkle,
    notes,
    publication,
    sequencer,
    soundness,
    tree,
    watching,
)
from operations.models import Event
from tests.support import approving, claiming, deciding, granting, sealing
from tests.support.committed import _django_db_helper  # noqa: F401
from tests.support.records import record, report, runtime

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _from_the_beginning() -> Iterator[None]:
    yield
    soundness.forget()


def furnish() -> approving.Asked:
    """A decided and granted call among other events, sealed and published."""
    for call in range(12):
        report(runtime(), record("TOOL_INVOKED", call=f"c{call}"))
        report(runtime(), record("TOOL_COMMITTED", call=f"c{call}"))
    asked = granting.approved()
    sealing.seal()
    return asked


def by_hand(*statements_: str, **bound: Any) -> None:
    """As somebody with the database's password and no product would."""
    with connection.cursor() as cur:
        cur.execute("SET session_replication_role = replica")
        for statement in statements_:
            cur.execute(statement, bound or None)
        cur.execute("SET session_replication_role = DEFAULT")
    soundness.forget()


def watch() -> breaks.Break | None:
    """The running check, from where it stands to the end of the log."""
    for _ in range(20):
        found = watching.run_once(piece=100)
        if found is not None:
            return found
    return None


def current() -> tree.LogRow:
    with connection.cursor() as cur:
        log = tree.current(cur)
    assert log is not None
    return log


def test_the_tree_holds_every_sealed_event_and_its_proofs_verify() -> None:
    furnish()
    log = current()
    with connection.cursor() as cur:
        cur.execute("SELECT last_seq FROM operations_sequencerstate")
        assert cur.fetchone()[0] == log.size > 40
        published = checkpoints.newest(cur, log.id)
        assert published is not None
        _, keys = checkpoints.vkeys(cur)
        trusted = [notes.parse_verifier_key(key) for key in keys]
        signed = notes.open_checkpoint(published.note, trusted, log.origin)
        node = tree.nodes(cur, log.id)
        for index in (0, 7, signed.size - 1):
            proof = merkle.inclusion_proof(index, signed.size, node)
            leaf = tree.leaf_at(cur, log.id, index)
            merkle.verify_inclusion(leaf, index, signed.size, proof, signed.root)
        proof = merkle.consistency_proof(9, signed.size, node)
        before = tree.root_at(cur, log.id, 9)
        merkle.verify_consistency(9, signed.size, before, signed.root, proof)
    call_command("check_ledger")
    assert watch() is None
    assert keeping.read() == published.note


def test_it_grows_over_many_batches_as_in_one() -> None:
    for call in range(300):
        report(runtime(), record("TOOL_COMMITTED", call=f"c{call}"))
        if call % 37 == 0:
            sequencer.run_once()
    sequencer.run_once()
    call_command("check_ledger")
    log = current()
    with connection.cursor() as cur:
        leaves = [tree.leaf_at(cur, log.id, index) for index in range(log.size)]
        assert merkle.root_of(leaves) == log.range.root == tree.root_at(cur, log.id, log.size)
        cur.execute("SELECT count(*) FROM operations_ledgernode WHERE level = 8")
        assert cur.fetchone()[0] == log.size // 256 > 0


def test_events_that_were_sealed_before_there_was_a_tree_are_its_first_entries() -> None:
    furnish()
    size = current().size
    by_hand("DELETE FROM operations_ledgernode", "DELETE FROM operations_checkpoint",
            "DELETE FROM operations_ledgerlog")  # fmt: skip
    keeping.path().unlink()
    assert sequencer.run_once() == size
    assert checkpoints.publish(signing_keys.ledger_signer()) == size
    call_command("check_ledger")


_EVENT = "(SELECT event_id FROM operations_sealedevent WHERE seq = 5)"
DAMAGE = {
    "N67 edit": f"UPDATE operations_event SET actor = 'user:mallory' WHERE id = {_EVENT}",
    "N67 delete": f"DELETE FROM operations_event WHERE id = {_EVENT}",
    "N67 insert": f"""
        INSERT INTO operations_event (environment, namespace, operation_id, type, actor, data,
                                      version)
        SELECT environment, namespace, operation_id, 'test.fact', 'user:mallory', '{{}}', 99
          FROM operations_event WHERE id = {_EVENT}""",
    "N67 swap": """
        CREATE TEMP TABLE two AS
        SELECT seq, event_id FROM operations_sealedevent WHERE seq IN (5, 6);
        UPDATE operations_sealedevent SET event_id = -seq WHERE seq IN (5, 6);
        UPDATE operations_sealedevent s SET event_id = two.event_id FROM two
         WHERE s.seq IN (5, 6) AND s.seq <> two.seq;
        DROP TABLE two""",
    "a row that says another state": """
        UPDATE operations_operation SET state = 'UNKNOWN', waiting_on = 'look'
         WHERE state = 'COMMITTED'""",
    "arguments exchanged": """
        UPDATE operations_payload SET body = '{"amount":1}' WHERE kind = 'args'""",
    "another fingerprint": """
        UPDATE operations_operation SET args_fingerprint = 'jcs-sha256:' || repeat('0', 64)""",
    "a hash exchanged": """
        UPDATE operations_ledgernode SET hash = sha256('') WHERE level = 0 AND index = 4""",
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_what_is_changed_by_hand_is_named_by_the_check_and_found_by_the_running_one(
    damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    asked, who, open_one = furnish(), approving.person(), approving.ask()
    sealing.seal()
    call_command("check_ledger")
    assert watch() is None
    by_hand(DAMAGE[damage])
    with pytest.raises(CommandError, match="differences"):
        call_command("check_ledger")
    assert "expected" in capsys.readouterr().out
    found = watch()
    assert found is not None, damage
    soundness.forget()
    for work in (lambda: granting.mint(asked), lambda: deciding.begin(open_one, who)):
        with pytest.raises(Refused) as refused:
            work()
        assert (refused.value.code, refused.value.status) == ("UNAVAILABLE", 503)
        assert "manage.py start_new_log" in refused.value.detail
    report(runtime(), record("TOOL_INVOKED", call="goes-on"))
    sequencer.run_once()
    assert checkpoints.publish(signing_keys.ledger_signer()) is None


def test_n67_a_whole_chain_that_was_computed_again_does_not_match_a_checkpoint_held() -> None:
    furnish()
    held = keeping.read()
    assert held is not None
    by_hand(DAMAGE["N67 edit"], "DELETE FROM operations_ledgernode",
            "DELETE FROM operations_checkpoint",
            "UPDATE operations_ledgerlog SET size = 0, peaks = '', last_leaf = '',"
            " urgent_size = 0")  # fmt: skip
    sequencer.run_once()
    assert checkpoints.publish(signing_keys.ledger_signer()) is None
    found = soundness.standing()
    assert found is not None
    assert found.kind == "restored"
    assert keeping.read() == held
    with pytest.raises(DomainError) as refused:
        granting.claim(approving.ask())
    assert (refused.value.code, refused.value.status) == ("UNAVAILABLE", 503)
    # A claim that would travel in a group goes through the same door.
    agent = claiming.Agent()
    with pytest.raises(DomainError) as also_refused:
        admission.plain(agent.call(), agent.runtime)
    assert (also_refused.value.code, also_refused.value.status) == ("UNAVAILABLE", 503)


def test_n62_a_restored_backup_answers_503_until_an_admin_signs_the_break() -> None:
    """N62 and N68: the tail is gone, the old grant with it; twin: nothing restored, it is spent."""
    asked, twin = furnish(), granting.approved()
    other = approving.ask()
    granted, untouched = granting.mint(asked), granting.mint(twin)
    assert granting.consume(twin, untouched)["replayed"] is False
    report(runtime(), record("TOOL_INVOKED", call="after-the-backup"))
    by_hand("UPDATE operations_checkpoint SET published_at = now() - interval '61 seconds'")
    sealing.seal()
    with connection.cursor() as cur:
        size = current().size
        epoch = epochs.current(cur)
    by_hand(
        "DELETE FROM operations_ledgernode WHERE level = 0 AND index >= %(kept)s",
        "DELETE FROM operations_checkpoint WHERE size > %(kept)s",
        "DELETE FROM operations_event WHERE id IN"
        " (SELECT event_id FROM operations_sealedevent WHERE seq > %(kept)s)",
        "DELETE FROM operations_sealedevent WHERE seq > %(kept)s",
        "UPDATE operations_sequencerstate SET last_seq = %(kept)s",
        kept=size - 1,
    )
    shorten(size - 1)
    with pytest.raises(DomainError) as refused:
        granting.claim(other)
    assert (refused.value.code, refused.value.status) == ("UNAVAILABLE", 503)
    assert "backup was restored" in refused.value.detail
    with pytest.raises(Refused, match="UNAVAILABLE"):
        granting.consume(asked, granted)

    origin = current().origin
    approving.user("admin", "root@example.com")
    call_command("start_new_log", "--admin", "root@example.com", "--reason", "disk was replaced")
    soundness.forget()
    assert current().origin != origin
    sealing.seal()
    assert soundness.standing() is None
    with connection.cursor() as cur:
        assert epochs.current(cur) == epoch + 1
    granting.refused("GRANT_REVOKED", 410, lambda: granting.consume(asked, granted))
    assert granting.consume(asked, granting.mint(asked, "c2"), "c2")["replayed"] is False


def shorten(size: int) -> None:
    """The log's row as the backup had it."""
    log = current()
    with connection.cursor() as cur:
        peaks = merkle.CompactRange()
        for index in range(size):
            peaks.append(tree.leaf_at(cur, log.id, index))
        last = tree.leaf_at(cur, log.id, size - 1)
    by_hand(
        "UPDATE operations_ledgerlog SET size = %(size)s, peaks = %(peaks)s, last_leaf = %(last)s",
        size=size, peaks=b"".join(peaks.peaks), last=last,
    )  # fmt: skip


def test_another_timeline_raises_the_epoch_and_kills_what_was_not_consumed() -> None:
    first, second = granting.approved(), granting.approved()
    old, spent = granting.mint(first), granting.mint(second)
    assert granting.consume(second, spent)["replayed"] is False
    with connection.cursor() as cur:
        epoch = epochs.current(cur)
        assert epochs.current(cur) == epoch
    by_hand("UPDATE approvals_grantepoch SET cluster = '1/1'")
    granting.refused("GRANT_REVOKED", 410, lambda: granting.consume(first, old))
    assert granting.consume(second, spent)["replayed"] is True
    renewed = granting.mint(first, "c9")
    with connection.cursor() as cur:
        assert epochs.current(cur) == epoch + 1
    assert granting.consume(first, renewed, "c9")["replayed"] is False


def test_nothing_is_granted_before_the_decision_is_published() -> None:
    who, asked = approving.person(), approving.ask()
    ceremony = deciding.begin(asked, who)
    decisions.finish(
        who.user, who.session, ceremony.statement_id, who.sign(ceremony), approval_id=asked.id
    )
    waits = granting.claim(asked)
    assert (waits.status, waits.body["decision"]) == (202, "await_approval")
    assert waits.body["operation"]["waiting_on"] == "sealing"
    granting.refused("NOT_APPROVED", 409, lambda: granting.mint(asked))
    sequencer.run_once()
    assert publication.open_gates() == 0
    assert granting.claim(asked).status == 202
    assert checkpoints.publish(signing_keys.ledger_signer()) is not None
    assert publication.open_gates() == 1
    assert granting.claim(asked).status == 201


def test_a_statement_names_the_checkpoint_that_its_signer_was_shown() -> None:
    sealing.seal()
    who, asked = approving.person(), approving.ask()
    first = deciding.begin(asked, who).statement["predicate"]["log"]
    assert first == statements.EMPTY_LOG
    sealing.seal()
    seen = deciding.begin(asked, who).statement["predicate"]["log"]
    log = current()
    with connection.cursor() as cur:
        published = checkpoints.newest(cur, log.id)
    assert published is not None
    assert seen == {
        "origin": log.origin,
        "size": published.size,
        "root": base64.b64encode(published.root).decode(),
    }


def test_a_checkpoint_is_published_each_minute_where_the_log_grew() -> None:
    signer = signing_keys.ledger_signer()
    report(runtime(), record("TOOL_INVOKED", call="first"))
    sequencer.run_once()
    first = checkpoints.publish(signer)
    assert first is not None
    assert checkpoints.publish(signer) is None
    report(runtime(), record("TOOL_COMMITTED", call="first"))
    sequencer.run_once()
    assert checkpoints.publish(signer) is None
    by_hand("UPDATE operations_checkpoint SET published_at = now() - interval '61 seconds'")
    assert checkpoints.publish(signer) == current().size > first


def test_the_log_only_grows_and_nodes_and_checkpoints_are_for_ever() -> None:
    furnish()
    for statement in (
        "UPDATE operations_ledgerlog SET size = size - 1",
        "UPDATE operations_ledgerlog SET origin = 'another'",
        "DELETE FROM operations_ledgerlog",
        "UPDATE operations_ledgernode SET hash = ''",
        "DELETE FROM operations_checkpoint",
        "TRUNCATE operations_ledgernode",
    ):
        with (
            pytest.raises(IntegrityError, match=r"append-only|only grows"),
            transaction.atomic(),
            connection.cursor() as cur,
        ):
            cur.execute(statement)


def test_the_kept_checkpoint_is_its_owners_alone() -> None:
    furnish()
    assert os.stat(keeping.path()).st_mode & 0o077 == 0


def test_an_admin_signs_for_damage_with_an_ssh_key_and_later_damage_is_news(tmp_path: Path) -> None:
    """A lost event and a row by hand; twin: a key that is not the admin's signs nothing."""
    furnish()
    admin = approving.user("admin", "root@example.com")
    mine, other = approving.SshKey(tmp_path), approving.SshKey(tmp_path)
    enrolment.add_from_shell(admin, mine.line, "shell", actor="system:shell")
    by_hand(DAMAGE["N67 delete"], DAMAGE["a row that says another state"])
    assert watch() is not None
    command = ["start_new_log", "--admin", "root@example.com", "--reason", "an edit by hand"]
    with pytest.raises(CommandError, match="No enrolled SSH key"):
        call_command(*command, "--ssh-key", str(other.path))
    call_command(*command, "--ssh-key", str(mine.path))
    soundness.forget()
    sealing.seal()
    call_command("check_ledger")
    assert watch() is None
    signed = Event.objects.get(type="ledger.broken")
    assert signed.data["key_id"] is not None
    assert "entry #5" in signed.data["statement"]["differences"]
    by_hand(DAMAGE["N67 edit"].replace("seq = 5", "seq = 9"))
    with pytest.raises(CommandError, match="differences"):
        call_command("check_ledger")
    assert watch() is not None
