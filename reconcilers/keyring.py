"""Secrets at rest: Fernet under a ring of keys, the newest first (COUNTERSIGN_KEYRING).

Every key of the ring opens, the first one seals. To rotate: put a new key in front, run
`rotate_provider_secrets`, then drop the old one.
"""

import json
from collections.abc import Mapping

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings


class Unreadable(Exception):
    """No key of the ring opens this. The message holds neither secret nor key."""


def _ring() -> MultiFernet:
    return MultiFernet([Fernet(key) for key in settings.COUNTERSIGN_KEYRING])


def seal(secrets: Mapping[str, str]) -> bytes:
    """Encrypt with the newest key."""
    return _ring().encrypt(json.dumps(dict(secrets)).encode())


def open_sealed(sealed: bytes) -> dict[str, str]:
    """Decrypt with whichever key fits; raises Unreadable."""
    try:
        opened: dict[str, str] = json.loads(_ring().decrypt(bytes(sealed)))
    except InvalidToken:
        raise Unreadable(
            "the account's secrets were sealed with a key that is not in COUNTERSIGN_KEYRING"
        ) from None
    return opened


def reseal(sealed: bytes) -> bytes:
    """The same secrets under the newest key."""
    try:
        return _ring().rotate(bytes(sealed))
    except InvalidToken:
        raise Unreadable(
            "the account's secrets were sealed with a key that is not in COUNTERSIGN_KEYRING"
        ) from None


def masked(secret: str) -> str:
    """`sk_test_…wxyz`: enough to tell two keys apart, too little to use one."""
    head, separator, _ = secret.rpartition("_")
    shown = f"{head}{separator}" if separator and len(head) <= 12 else ""
    tail = secret[-4:] if len(secret) >= 16 else ""
    return f"{shown}…{tail}"
