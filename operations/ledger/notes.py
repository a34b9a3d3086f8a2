"""C2SP signed notes and checkpoints (Ed25519): how the log speaks to those who do not trust it.

A note is text, an empty line, and signature lines `— <name> <base64 of key id ‖ signature>`. A
checkpoint is a note of three lines: origin, number of entries, root in base64. Pure.
"""

import base64
import binascii
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Final, Protocol

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

ED25519: Final = b"\x01"
MAX_SIGNATURES: Final = 100
MAX_BYTES: Final = 64 * 1024
_DASH: Final = "— "
_SIZE: Final = re.compile(r"0|[1-9][0-9]{0,18}").fullmatch


class NoteRefused(Exception):
    """A note, a verifier key or a checkpoint that is not to be believed; the message says why."""


class Signer(Protocol):
    """Whoever holds a key: signs, and shows its public half alone."""

    @property
    def public_key(self) -> Ed25519PublicKey: ...
    def sign(self, data: bytes) -> bytes: ...


@dataclass(frozen=True)
class VerifierKey:
    """`<name>+<key id>+<base64 of algorithm ‖ public key>`, parsed."""

    name: str
    key_id: bytes
    public_key: Ed25519PublicKey

    @property
    def text(self) -> str:
        """As it is published."""
        key = base64.b64encode(ED25519 + _raw(self.public_key)).decode()
        return f"{self.name}+{self.key_id.hex()}+{key}"


@dataclass(frozen=True)
class Checkpoint:
    """The log as it stood at one size."""

    origin: str
    size: int
    root: bytes

    @property
    def text(self) -> str:
        """The body that is signed."""
        return f"{self.origin}\n{self.size}\n{base64.b64encode(self.root).decode()}\n"


def verifier_key(name: str, public_key: Ed25519PublicKey) -> VerifierKey:
    """The verifier key of a public key under a name."""
    check_name(name)
    return VerifierKey(name, _key_id(name, public_key), public_key)


def parse_verifier_key(text: str) -> VerifierKey:
    """A published verifier key; its id must be the one that its name and its bytes make."""
    name, _, rest = text.partition("+")
    digits, _, encoded = rest.partition("+")
    check_name(name)
    raw = _unbase64(encoded)
    if re.fullmatch(r"[0-9a-f]{8}", digits) is None or raw[:1] != ED25519 or len(raw) != 33:
        raise NoteRefused("this is no Ed25519 verifier key")
    key = verifier_key(name, Ed25519PublicKey.from_public_bytes(raw[1:]))
    if key.key_id.hex() != digits:
        raise NoteRefused("the verifier key's id is not that of its name and key")
    return key


def check_name(name: str) -> None:
    """Raise unless a name can stand in a signature line."""
    if not name or "+" in name or any(c.isspace() or ord(c) < 0x20 for c in name):
        raise NoteRefused("a key's name is empty or holds a space or a plus")


def sign(text: str, name: str, signer: Signer) -> str:
    """The signed note of a text that ends with a line feed."""
    _check_text(text)
    key = verifier_key(name, signer.public_key)
    blob = base64.b64encode(key.key_id + signer.sign(text.encode())).decode()
    return f"{text}\n{_DASH}{name} {blob}\n"


def open_note(note: str | bytes, keys: Collection[VerifierKey]) -> tuple[str, list[VerifierKey]]:
    """The text of a note and which of `keys` signed it, each once; raises where none did.

    A signature under a known name and id that does not fit refuses the whole note; one by a key
    that nobody asked about counts for nothing.
    """
    text, lines = _split(note)
    known: Mapping[tuple[str, bytes], VerifierKey] = {(k.name, k.key_id): k for k in keys}
    signed: list[VerifierKey] = []
    for line in lines:
        name, key_id, signature = _signature(line)
        key = known.get((name, key_id))
        if key is None or key in signed:
            continue
        try:
            key.public_key.verify(signature, text.encode())
        except InvalidSignature:
            raise NoteRefused(f"the signature of {name} does not fit") from None
        signed.append(key)
    if not signed:
        raise NoteRefused("no key that is trusted has signed this note")
    return text, signed


def parse_checkpoint(text: str, origin: str | None = None) -> Checkpoint:
    """The checkpoint that a note's text is; further lines (extensions) are left alone."""
    lines = text.split("\n")
    if len(lines) < 4 or lines[-1] or not all(lines[:3]):
        raise NoteRefused("a checkpoint has an origin, a size and a root")
    if _SIZE(lines[1]) is None:
        raise NoteRefused("the checkpoint's size is no plain decimal number")
    if origin is not None and lines[0] != origin:
        raise NoteRefused(f"the checkpoint is of {lines[0]}, not of {origin}")
    root = _unbase64(lines[2])
    if len(root) != 32:
        raise NoteRefused("the checkpoint's root is not 32 bytes long")
    return Checkpoint(lines[0], int(lines[1]), root)


def open_checkpoint(
    note: str | bytes, keys: Collection[VerifierKey], origin: str | None = None
) -> Checkpoint:
    """A signed checkpoint: the note, then its text, then that a key of its own origin signed."""
    text, signed = open_note(note, keys)
    found = parse_checkpoint(text, origin)
    if all(key.name != found.origin for key in signed):
        raise NoteRefused("the log itself has not signed this checkpoint")
    return found


def unverified_checkpoint(note: str) -> Checkpoint:
    """What a note says, whoever signed it."""
    return parse_checkpoint(_split(note)[0])


def _split(note: str | bytes) -> tuple[str, list[str]]:
    raw = note.encode() if isinstance(note, str) else note
    if len(raw) > MAX_BYTES:
        raise NoteRefused("the note is too long")
    try:
        whole = raw.decode()
    except UnicodeDecodeError:
        raise NoteRefused("the note is not UTF-8") from None
    _check_text(whole)
    body, found, block = whole.rpartition("\n\n")
    if not found or not block:
        raise NoteRefused("the note has no signature")
    lines = block.removesuffix("\n").split("\n")
    if len(lines) > MAX_SIGNATURES:
        raise NoteRefused("the note has too many signatures")
    return body + "\n", lines


def _check_text(text: str) -> None:
    if not text.endswith("\n"):
        raise NoteRefused("the text does not end with a line feed")
    if any((ord(c) < 0x20 and c != "\n") or c == "�" for c in text):
        raise NoteRefused("the text holds a control character")


def _signature(line: str) -> tuple[str, bytes, bytes]:
    name, _, encoded = line.removeprefix(_DASH).partition(" ")
    if not line.startswith(_DASH):
        raise NoteRefused("a signature line does not begin with a dash")
    check_name(name)
    blob = _unbase64(encoded)
    if len(blob) < 5:
        raise NoteRefused("a signature is too short")
    return name, blob[:4], blob[4:]


def _key_id(name: str, public_key: Ed25519PublicKey) -> bytes:
    return sha256(name.encode() + b"\n" + ED25519 + _raw(public_key)).digest()[:4]


def _raw(key: Ed25519PublicKey) -> bytes:
    return key.public_bytes(Encoding.Raw, PublicFormat.Raw)


def _unbase64(text: str) -> bytes:
    """Standard base64 in its one spelling."""
    try:
        raw = base64.b64decode(text.encode("ascii"), validate=True)
    except (UnicodeEncodeError, binascii.Error):
        raise NoteRefused("base64 is malformed") from None
    if base64.b64encode(raw).decode() != text:
        raise NoteRefused("base64 is not in its one spelling")
    return raw
