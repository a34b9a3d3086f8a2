"""C2SP signed notes: published notes, Go's malformed ones, and a checkpoint that Go opened."""

import base64
import json
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from operations.ledger import notes
from operations.ledger.notes import NoteRefused


class Key:
    """A signer of the tests' own."""

    def __init__(self) -> None:
        self.private = Ed25519PrivateKey.generate()
        self.public_key = self.private.public_key()
        self.sign = self.private.sign


def said(vectors: Path) -> dict:
    return json.loads((vectors / "signed-note" / "vectors.json").read_text())


def test_published_notes_open_and_bad_verifier_keys_are_refused(vectors: Path) -> None:
    opened = refused = 0
    for case in said(vectors)["vectors"]:
        if case.get("valid_vkey") is False:
            with pytest.raises(NoteRefused):
                notes.parse_verifier_key(case["vkey"])
            refused += 1
            continue
        key = notes.parse_verifier_key(case["vkey"])
        assert key.text == case["vkey"]
        text, signed = notes.open_note(case["note"], [key])
        assert signed == [key]
        assert case["note"].startswith(text)
        opened += 1
    assert (opened, refused) == (3, 2)


def test_a_checkpoint_that_go_opened_opens_here(vectors: Path) -> None:
    case = json.loads((vectors / "signed-note" / "python-checkpoint.json").read_text())
    key = notes.parse_verifier_key(case["vkey"])
    found = notes.open_checkpoint(case["checkpoint"], [key], "console.example.org/audit")
    assert (found.origin, found.size) == ("console.example.org/audit", 70)
    assert case["checkpoint"].startswith(found.text)


def test_the_published_checkpoint_is_read(vectors: Path) -> None:
    found = notes.unverified_checkpoint(said(vectors)["checkpoint_example"])
    assert (found.origin, found.size) == ("example.com/behind-the-sofa", 20852163)


def checkpoint(key: Key, text: str | None = None) -> tuple[str, notes.VerifierKey]:
    text = text or notes.Checkpoint("log.example/a", 42, b"\x07" * 32).text
    note = notes.sign(text, "log.example/a", key)
    return note, notes.verifier_key("log.example/a", key.public_key)


def test_what_is_signed_opens() -> None:
    note, vkey = checkpoint(Key())
    found = notes.open_checkpoint(note, [vkey])
    assert (found.origin, found.size, found.root) == ("log.example/a", 42, b"\x07" * 32)
    assert notes.parse_verifier_key(vkey.text).key_id == vkey.key_id


@pytest.mark.parametrize(
    "damage",
    [
        lambda note: note.split("\n\n")[0] + "\n",
        lambda note: note.split("\n\n")[0] + "\n\n",
        lambda note: note.rstrip("\n"),
        lambda note: note.replace("42", "4\x012", 1),
        lambda note: note.encode().replace(b"42", b"4\xff2", 1),
        lambda note: note.replace("— log.example/a ", "— log example/a "),
        lambda note: note + "unexpected\n",
        lambda note: note + note.split("\n\n")[1] * 100,
        lambda note: note.replace("42\n", "042\n", 1),
        lambda note: note.replace("42\n", "43\n", 1),
        lambda note: note.replace("log.example/a\n", "log.example/b\n", 1),
    ],
)  # fmt: skip
def test_a_damaged_note_is_refused(damage) -> None:
    """N70; its twin is the note itself, which opens."""
    note, vkey = checkpoint(Key())
    notes.open_checkpoint(note, [vkey])
    with pytest.raises(NoteRefused):
        notes.open_checkpoint(damage(note), [vkey], "log.example/a")


def test_a_note_by_another_key_or_about_another_log_is_refused() -> None:
    """N70: an unknown key; the same name with another key; a size that is not plain; N79: two
    signatures by one key are one.
    """
    key = Key()
    note, vkey = checkpoint(key)
    other = notes.verifier_key("log.example/a", Key().public_key)
    with pytest.raises(NoteRefused, match="no key that is trusted"):
        notes.open_checkpoint(note, [other])
    with pytest.raises(NoteRefused, match="not of"):
        notes.open_checkpoint(note, [vkey], "log.example/b")
    signed_wrongly, _ = checkpoint(
        key, "log.example/a\n042\n" + base64.b64encode(b"\x07" * 32).decode() + "\n"
    )
    with pytest.raises(NoteRefused, match="plain decimal"):
        notes.open_checkpoint(signed_wrongly, [vkey])
    twice = note + note.split("\n\n")[1]
    assert notes.open_note(twice, [vkey])[1] == [vkey]
