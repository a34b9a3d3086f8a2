"""SSHSIG (OpenSSH PROTOCOL.sshsig): what is signed, its armour, and its check.

The to-be-signed blob of a message is also the challenge of a passkey ceremony, so one armour
holds a signature of an SSH key, of an `sk-` key or of a passkey made in a browser, and stock
`ssh-keygen -Y verify` checks all three. Only `sha512` and version 1 are taken.
"""

import base64
import binascii
from dataclasses import dataclass
from hashlib import sha256, sha512
from typing import Final

from approvals import keys
from approvals.encodings import b64, b64url
from approvals.keys import NAMESPACE, SshKey
from approvals.refusals import SignatureRefused
from approvals.sshwire import Reader, mpint, string

MAGIC: Final = b"SSHSIG"
VERSION: Final = 1
HASH: Final = "sha512"
BEGIN: Final = "-----BEGIN SSH SIGNATURE-----"
END: Final = "-----END SSH SIGNATURE-----"
WEBAUTHN: Final = "webauthn-sk-ecdsa-sha2-nistp256@openssh.com"
MAX_ARMOR: Final = 32 * 1024

UP, UV, AT, ED = 0x01, 0x04, 0x40, 0x80


@dataclass(frozen=True)
class SshSig:
    """A parsed signature; nothing in it has been checked against a message yet."""

    key: SshKey
    namespace: str
    hash_name: str
    kind: str
    signature: bytes


def to_be_signed(message: bytes, namespace: str = NAMESPACE) -> bytes:
    """`"SSHSIG" ‖ str(namespace) ‖ str("") ‖ str("sha512") ‖ str(SHA-512(message))`."""
    digest = sha512(message).digest()
    return MAGIC + string(namespace) + string("") + string(HASH) + string(digest)


def armor(blob: bytes) -> str:
    """The text form, 70 columns wide as ssh-keygen writes it."""
    text = b64(blob)
    lines = [text[at : at + 70] for at in range(0, len(text), 70)]
    return "\n".join([BEGIN, *lines, END, ""])


def dearmor(text: str) -> bytes:
    """The bytes of an armoured signature; anything around it or a second one is `encoding`."""
    if len(text) > MAX_ARMOR:
        raise SignatureRefused("encoding", "the signature is too long")
    lines = text.replace("\r\n", "\n").strip("\n").split("\n")
    if lines[0] != BEGIN or lines[-1] != END or len(lines) < 3:
        raise SignatureRefused("encoding", "this is no armoured SSH signature")
    body = "".join(lines[1:-1])
    try:
        blob = base64.b64decode(body.encode("ascii"), validate=True)
    except (binascii.Error, ValueError):
        raise SignatureRefused("encoding", "the armour is not base64") from None
    if b64(blob) != body:
        raise SignatureRefused("encoding", "the armour is not canonical base64")
    return blob


def parse(text: str) -> SshSig:
    """Read an armoured signature; raises SignatureRefused(`encoding` or `algorithm`)."""
    reader = Reader(dearmor(text))
    if reader.take(len(MAGIC)) != MAGIC:
        raise SignatureRefused("encoding", "the magic of an SSH signature is missing")
    if (version := reader.uint32()) != VERSION:
        raise SignatureRefused("algorithm", f"SSHSIG version {version} is not known")
    key = keys.parse_blob(reader.string())
    namespace = reader.text()
    if reader.string():
        raise SignatureRefused("encoding", "the reserved field is not empty")
    hash_name = reader.text()
    inner = Reader(reader.string())
    reader.end()
    kind = inner.text()
    return SshSig(key, namespace, hash_name, kind, inner.rest())


def verify(
    text: str,
    message: bytes,
    trusted: SshKey,
    *,
    need_uv: bool = False,
    namespace: str = NAMESPACE,
    is_passkey: bool | None = None,
) -> None:
    """Numbered checks, the first failure ends it.

    1 armour and structure, 2 the key is the trusted one, 3 namespace, 4 hash, 5 signature type
    fits the enrolment (where `is_passkey` is said) and the key, 6 presence (and verification
    where `need_uv`) flags, 7 the signature itself.
    """
    sig = parse(text)
    if sig.key.blob != trusted.blob:
        raise SignatureRefused("key.untrusted", "the signature was made by another key")
    if sig.namespace != namespace:
        raise SignatureRefused("namespace", f"signed for {sig.namespace!r}, not {namespace!r}")
    if sig.hash_name != HASH:
        raise SignatureRefused("algorithm", f"hash {sig.hash_name} is not taken, only {HASH}")
    if is_passkey is not None and is_passkey != (sig.kind == WEBAUTHN):
        raise SignatureRefused("method", f"a {sig.kind} signature is not how this key signs")
    blob = to_be_signed(message, namespace)
    reader = Reader(sig.signature)
    if sig.kind == keys.ED25519 == trusted.kind:
        signature = reader.string()
        reader.end()
        keys.verify_ed25519(trusted.key, signature, blob)
    elif sig.kind == keys.SK_ED25519 == trusted.kind:
        signature = reader.string()
        signed = _sk_data(reader, trusted, blob, need_uv)
        keys.verify_ed25519(trusted.key, signature, signed)
    elif sig.kind == keys.SK_ECDSA == trusted.kind:
        r, s = _pair(reader)
        signed = _sk_data(reader, trusted, blob, need_uv)
        keys.verify_p256(trusted.key, r, s, signed)
    elif sig.kind == WEBAUTHN and trusted.kind == keys.SK_ECDSA:
        r, s = _pair(reader)
        signed = _webauthn_data(reader, trusted, blob, need_uv)
        keys.verify_p256(trusted.key, r, s, signed)
    else:
        raise SignatureRefused("algorithm", f"{sig.kind} is no signature of a {trusted.kind} key")


def _pair(reader: Reader) -> tuple[int, int]:
    pair = Reader(reader.string())
    r, s = pair.mpint(), pair.mpint()
    pair.end()
    return r, s


def _check_flags(flags: int, need_uv: bool) -> None:
    if not flags & UP:
        raise SignatureRefused("flags", "nobody touched the key")
    if need_uv and not flags & UV:
        raise SignatureRefused("flags", "the key did not verify its holder")


def _sk_data(reader: Reader, trusted: SshKey, blob: bytes, need_uv: bool) -> bytes:
    flags, counter = reader.byte(), reader.uint32()
    reader.end()
    _check_flags(flags, need_uv)
    head = sha256(trusted.application.encode()).digest() + bytes([flags])
    return head + counter.to_bytes(4, "big") + sha256(blob).digest()


def _webauthn_data(reader: Reader, trusted: SshKey, blob: bytes, need_uv: bool) -> bytes:
    flags, counter = reader.byte(), reader.uint32()
    origin, client_data, extensions = reader.text(), reader.string(), reader.string()
    reader.end()
    _check_flags(flags, need_uv)
    start = f'{{"type":"webauthn.get","challenge":"{b64url(blob)}","origin":"{origin}"'
    if not client_data.startswith(start.encode()):
        raise SignatureRefused("challenge", "the passkey signed another challenge or origin")
    if bool(flags & ED) != bool(extensions) or flags & AT:
        raise SignatureRefused("flags", "extension flags do not fit the extensions")
    head = sha256(trusted.application.encode()).digest() + bytes([flags])
    return head + counter.to_bytes(4, "big") + extensions + sha256(client_data).digest()


def from_assertion(
    key: SshKey, authenticator_data: bytes, client_data: bytes, signature: bytes, origin: str
) -> str:
    """The armour of a passkey assertion whose challenge was `to_be_signed(message)`."""
    r, s = keys.split_der(signature)
    flags, counter = authenticator_data[32], authenticator_data[33:37]
    inner = (
        string(WEBAUTHN)
        + string(mpint(r) + mpint(s))
        + bytes([flags])
        + counter
        + string(origin)
        + string(client_data)
        + string(authenticator_data[37:])
    )
    head = MAGIC + VERSION.to_bytes(4, "big") + string(key.blob)
    return armor(head + string(NAMESPACE) + string("") + string(HASH) + string(inner))
