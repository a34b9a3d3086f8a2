"""DSSE v1: the bytes M that every human signature covers, and the JSON around them.

`M = PAE("application/vnd.in-toto+json", JCS(statement))`. `sig` is the signature in the form its
method has: the SSHSIG blob of a passkey or an SSH key, `r ‖ s` of a WebCrypto key.
"""

from hashlib import sha256
from typing import Any, Final

from approvals.encodings import b64, unb64
from approvals.refusals import SignatureRefused

PAYLOAD_TYPE: Final = "application/vnd.in-toto+json"
MAX_SIGNATURES: Final = 8


def pae(payload: bytes, payload_type: str = PAYLOAD_TYPE) -> bytes:
    """`"DSSEv1" SP LEN(type) SP type SP LEN(payload) SP payload`, lengths in bytes."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)


def decision_id_of(message: bytes) -> str:
    """What names a decision: never the signature, which can be respelled (r, n-s)."""
    return "sha256:" + sha256(message).hexdigest()


def seal(payload: bytes, key_id: str, signature: bytes) -> dict[str, Any]:
    """The envelope as JSON."""
    return {
        "payload": b64(payload),
        "payloadType": PAYLOAD_TYPE,
        "signatures": [{"keyid": key_id, "sig": b64(signature)}],
    }


def unseal(envelope: object) -> tuple[bytes, str, bytes]:
    """(payload, key id, signature) of an envelope with exactly one signature.

    Refuses other members and empty or many signatures (`envelope.schema`), another payload type
    (`envelope.type`) and sloppy base64 (`encoding`).
    """
    if not isinstance(envelope, dict) or set(envelope) != {"payload", "payloadType", "signatures"}:
        raise SignatureRefused("envelope.schema", "the envelope has missing or unknown members")
    if envelope["payloadType"] != PAYLOAD_TYPE:
        raise SignatureRefused("envelope.type", f"payloadType is not {PAYLOAD_TYPE}")
    signatures = envelope["signatures"]
    if not isinstance(signatures, list) or not 1 <= len(signatures) <= MAX_SIGNATURES:
        raise SignatureRefused("envelope.schema", "the envelope holds no signature, or too many")
    if len(signatures) != 1:
        raise SignatureRefused("envelope.schema", "each reviewer has an envelope of their own")
    first = signatures[0]
    if not isinstance(first, dict) or set(first) != {"keyid", "sig"}:
        raise SignatureRefused("envelope.schema", "a signature has missing or unknown members")
    if not isinstance(first["keyid"], str):
        raise SignatureRefused("envelope.schema", "keyid is no string")
    return unb64(envelope["payload"]), first["keyid"], unb64(first["sig"])
