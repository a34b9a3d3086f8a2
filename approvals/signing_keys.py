"""The keys that sign, behind one Signer: folders of files now, a KMS by the same shape.

Each key is an encrypted PKCS#8 file, mode 0600, `<purpose>-<made at>-<digest>.pem`; the newest
signs, all of them verify, so rotation is a new file now and the removal of the old one later. Keys
made for development are marked `dev:` in their id and their file, and production refuses them.
Grants and the ledger have folders of their own: only the sequencer needs to reach the ledger's.
"""

import os
import stat
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Final, Protocol

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

GRANT: Final = "grant"
LEDGER: Final = "ledger"
DEV: Final = "dev"
_HINTS: Final = {
    GRANT: "manage.py create_signing_key",
    LEDGER: "manage.py create_ledger_key",
}


class Signer(Protocol):
    """Signs with one key, which it never shows."""

    @property
    def key_id(self) -> str: ...
    @property
    def public_key(self) -> Ed25519PublicKey: ...
    def sign(self, data: bytes) -> bytes: ...


@dataclass(frozen=True)
class FileSigner:
    """A key that was read from a file of the key directory."""

    key_id: str
    private_key: Ed25519PrivateKey

    @property
    def public_key(self) -> Ed25519PublicKey:
        return self.private_key.public_key()

    def sign(self, data: bytes) -> bytes:
        return self.private_key.sign(data)


def grant_signer() -> Signer:
    """The newest key for grants; locally one is made where there is none."""
    return _newest(GRANT)


def check_there_is_one() -> None:
    """At boot: raise ImproperlyConfigured where production could sign no grant."""
    if settings.PRODUCTION:
        grant_signer()


def grant_signers() -> tuple[Signer, ...]:
    """Every key that may verify a grant, the newest last."""
    return _signers(GRANT)


def ledger_signer() -> Signer:
    """The newest key for checkpoints. For the sequencer: the web process has no use for it."""
    return _newest(LEDGER)


def folder_of(purpose: str) -> Path:
    """Where the keys of one purpose lie."""
    return Path(settings.LEDGER_KEY_DIR if purpose == LEDGER else settings.SIGNING_KEY_DIR)


def _newest(purpose: str) -> Signer:
    signers = _signers(purpose)
    if signers:
        return signers[-1]
    if settings.PRODUCTION:
        raise ImproperlyConfigured(
            f"no signing key in {folder_of(purpose)}\n  hint: {_HINTS[purpose]} makes one"
        )
    create(purpose, dev=True)
    return _signers(purpose)[-1]


def _signers(purpose: str) -> tuple[Signer, ...]:
    folder = folder_of(purpose)
    names = [path.name for path in folder.glob("*.pem")] if folder.is_dir() else []
    wanted = (f"{purpose}-", f"{DEV}-{purpose}-")
    made_at = {name: name.removeprefix(f"{DEV}-") for name in names if name.startswith(wanted)}
    return tuple(_load(folder / name) for name in sorted(made_at, key=made_at.__getitem__))


def create(purpose: str = GRANT, *, dev: bool = False) -> Signer:
    """Make a key and write its file; it signs from now on."""
    folder = folder_of(purpose)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    key = Ed25519PrivateKey.generate()
    made_at = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%f")
    mark = f"{DEV}-" if dev else ""
    path = folder / f"{mark}{purpose}-{made_at}-{_digest(key.public_key())}.pem"
    pem = key.private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(_passphrase())
    )
    draft = path.with_suffix(f".{os.getpid()}.tmp")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
        out.write(pem)
        out.flush()
        os.fsync(out.fileno())
    draft.replace(path)
    return _load(path)


@lru_cache(maxsize=32)
def _load(path: Path) -> FileSigner:
    is_dev = path.name.startswith(f"{DEV}-")
    if is_dev and settings.PRODUCTION:
        raise ImproperlyConfigured(
            f"{path.name} is a development key\n  hint: make one without --dev, and remove it"
        )
    if stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise ImproperlyConfigured(f"{path} can be read by others\n  hint: chmod 600")
    key = load_pem_private_key(path.read_bytes(), _passphrase())
    if not isinstance(key, Ed25519PrivateKey):
        raise ImproperlyConfigured(f"{path.name} is no Ed25519 key")
    digest = _digest(key.public_key())
    return FileSigner(f"{DEV}:{digest}" if is_dev else digest, key)


def _digest(key: Ed25519PublicKey) -> str:
    return sha256(key.public_bytes(Encoding.Raw, PublicFormat.Raw)).hexdigest()[:16]


def _passphrase() -> bytes:
    return settings.SIGNING_KEY_PASSPHRASE.encode()
