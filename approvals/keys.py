"""Public keys in their spellings: SPKI, SSH, COSE. One key has one id, whatever it came as.

`key_id = "sha256:" + hex(SHA-256(SubjectPublicKeyInfo))`, so a key that is enrolled twice, as a
passkey and as an SSH key, is recognised as one key.
"""

import base64
import binascii
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, utils
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_der_public_key,
)

from approvals.refusals import SignatureRefused
from approvals.sshwire import Reader, string

type PublicKey = ec.EllipticCurvePublicKey | Ed25519PublicKey

NAMESPACE: Final = "decision.v1@countersign"
ED25519: Final = "ssh-ed25519"
SK_ED25519: Final = "sk-ssh-ed25519@openssh.com"
SK_ECDSA: Final = "sk-ecdsa-sha2-nistp256@openssh.com"
ECDSA: Final = "ecdsa-sha2-nistp256"
CURVE: Final = "nistp256"
P256_ORDER: Final = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551


@dataclass(frozen=True)
class SshKey:
    """An SSH public key. `application` is the relying party of an `sk-` key, else empty."""

    kind: str
    blob: bytes
    key: PublicKey
    application: str = ""

    @property
    def line(self) -> str:
        """`<type> <base64>`, as it stands in a .pub file, without a comment."""
        return f"{self.kind} {base64.b64encode(self.blob).decode()}"


def spki_of(key: PublicKey) -> bytes:
    """SubjectPublicKeyInfo, DER."""
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def key_id_of(key: PublicKey) -> str:
    return "sha256:" + sha256(spki_of(key)).hexdigest()


def load_spki(spki: bytes) -> PublicKey:
    """P-256 or Ed25519, else `algorithm`."""
    try:
        key = load_der_public_key(spki)
    except Exception as error:  # whatever the parser meets, it is no key of ours
        raise SignatureRefused("algorithm", f"the public key cannot be read: {error}") from error
    if isinstance(key, Ed25519PublicKey):
        return key
    if isinstance(key, ec.EllipticCurvePublicKey) and isinstance(key.curve, ec.SECP256R1):
        return key
    raise SignatureRefused("algorithm", "only P-256 and Ed25519 keys can sign decisions")


def point_of(key: PublicKey) -> bytes:
    """The uncompressed P-256 point, or the 32 bytes of an Ed25519 key."""
    if isinstance(key, Ed25519PublicKey):
        return key.public_bytes(Encoding.Raw, PublicFormat.Raw)
    return key.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)


def sk_ecdsa(key: PublicKey, application: str) -> SshKey:
    """A passkey in the form that stock `ssh-keygen -Y verify` knows it by."""
    blob = string(SK_ECDSA) + string(CURVE) + string(point_of(key)) + string(application)
    return SshKey(SK_ECDSA, blob, key, application)


def plain_ecdsa(key: PublicKey) -> SshKey:
    """A WebCrypto key as an SSH key, for lists of keys; it signs M itself, no SSHSIG."""
    return SshKey(ECDSA, string(ECDSA) + string(CURVE) + string(point_of(key)), key)


def parse_blob(blob: bytes) -> SshKey:
    """A key that may sign decisions; ssh-rsa, DSA, certificates and others are `algorithm`."""
    reader = Reader(blob)
    kind = reader.text()
    application = ""
    if kind in (ED25519, SK_ED25519):
        key: PublicKey = _ed25519(reader.string())
    elif kind == SK_ECDSA:
        if reader.text() != CURVE:
            raise SignatureRefused("algorithm", "only the nistp256 curve is taken")
        key = _p256(reader.string())
    else:
        raise SignatureRefused("algorithm", f"SSH keys of type {kind} cannot sign decisions")
    if kind != ED25519:
        application = reader.text()
    reader.end()
    return SshKey(kind, blob, key, application)


def parse_line(line: str) -> SshKey:
    """A line of a .pub file."""
    words = line.split()
    if len(words) < 2:
        raise SignatureRefused("encoding", "this is no SSH public key line")
    try:
        blob = base64.b64decode(words[1], validate=True)
    except (binascii.Error, ValueError):
        raise SignatureRefused("encoding", "the SSH public key is not base64") from None
    key = parse_blob(blob)
    if key.kind != words[0]:
        raise SignatureRefused("algorithm", "the line names another key type than it holds")
    return key


def _ed25519(raw: bytes) -> Ed25519PublicKey:
    try:
        return Ed25519PublicKey.from_public_bytes(raw)
    except ValueError as error:
        raise SignatureRefused("algorithm", f"not an Ed25519 key: {error}") from None


def _p256(point: bytes) -> ec.EllipticCurvePublicKey:
    if len(point) != 65 or point[0] != 4:
        raise SignatureRefused("algorithm", "not an uncompressed P-256 point")
    try:
        return ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), point)
    except ValueError as error:
        raise SignatureRefused("algorithm", f"not a P-256 key: {error}") from None


def verify_p256(key: PublicKey, r: int, s: int, data: bytes) -> None:
    """ECDSA with SHA-256 over `data`; anything else than a valid pair is `signature.invalid`."""
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise SignatureRefused("algorithm", "the key is not a P-256 key")
    if not (0 < r < P256_ORDER and 0 < s < P256_ORDER):
        raise SignatureRefused("signature.invalid", "r or s is out of range")
    try:
        key.verify(utils.encode_dss_signature(r, s), data, ec.ECDSA(hashes.SHA256()))
    except InvalidSignature:
        raise SignatureRefused("signature.invalid", "the signature does not fit") from None


def verify_ed25519(key: PublicKey, signature: bytes, data: bytes) -> None:
    if not isinstance(key, Ed25519PublicKey):
        raise SignatureRefused("algorithm", "the key is not an Ed25519 key")
    try:
        key.verify(signature, data)
    except InvalidSignature:
        raise SignatureRefused("signature.invalid", "the signature does not fit") from None


def split_der(signature: bytes) -> tuple[int, int]:
    """(r, s) of a strict DER signature; BER, padding and trailing bytes are refused."""
    try:
        r, s = utils.decode_dss_signature(signature)
    except ValueError:
        raise SignatureRefused("signature.invalid", "the signature is not DER") from None
    if utils.encode_dss_signature(r, s) != signature:
        raise SignatureRefused("signature.invalid", "the signature is not in strict DER")
    return r, s


def split_raw(signature: bytes) -> tuple[int, int]:
    """(r, s) of a P1363 signature: exactly 64 bytes."""
    if len(signature) != 64:
        raise SignatureRefused("signature.invalid", f"{len(signature)} bytes instead of 64")
    return int.from_bytes(signature[:32], "big"), int.from_bytes(signature[32:], "big")


def allowed_signers(principal: str, ssh_public_key: str) -> str:
    """The line that `ssh-keygen -Y verify -f` takes, bound to our namespace."""
    return f'{principal} namespaces="{NAMESPACE}" {ssh_public_key}'
