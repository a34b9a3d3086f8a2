"""Base64 read strictly: one byte string has one spelling, or a digest of the text means nothing."""

import base64
import binascii

from approvals.refusals import SignatureRefused


def b64(data: bytes) -> str:
    """Standard alphabet, padded."""
    return base64.b64encode(data).decode()


def b64url(data: bytes) -> str:
    """URL alphabet, unpadded: the WebAuthn and JOSE spelling."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def unb64(text: object) -> bytes:
    """Refuse slack bits, white space, missing padding and the URL alphabet (`encoding`)."""
    return _decode(text, b64, lambda ascii_text: base64.b64decode(ascii_text, validate=True))


def unb64url(text: object) -> bytes:
    """Refuse slack bits, white space, padding and the standard alphabet (`encoding`)."""

    def decode(ascii_text: bytes) -> bytes:
        padded = ascii_text + b"=" * (-len(ascii_text) % 4)
        return base64.b64decode(padded, altchars=b"-_", validate=True)

    return _decode(text, b64url, decode)


def _decode(text: object, spell, decode) -> bytes:  # type: ignore[no-untyped-def]
    if not isinstance(text, str):
        raise SignatureRefused("encoding", "a base64 string is missing")
    try:
        data: bytes = decode(text.encode("ascii"))
    except (UnicodeEncodeError, binascii.Error, ValueError) as error:
        raise SignatureRefused("encoding", f"not base64: {error}") from None
    if spell(data) != text:
        raise SignatureRefused("encoding", "base64 is not in its one canonical spelling")
    return data
