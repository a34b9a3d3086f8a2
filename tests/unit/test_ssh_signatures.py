"""SSHSIG by the real ssh-keygen, and by hand where ssh-keygen would not lie."""

from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, utils

from approvals import keys, sshsig
from approvals.refusals import SignatureRefused
from approvals.sshwire import mpint, string
from tests.support.approving import SshKey, keygen

MESSAGE = b"DSSEv1 the message"


def refused(armor: str, trusted: keys.SshKey, message: bytes = MESSAGE, **options: Any) -> str:
    with pytest.raises(SignatureRefused) as error:
        sshsig.verify(armor, message, trusted, **options)
    return error.value.check


def test_a_signature_of_ssh_keygen_verifies(tmp_path: Path) -> None:
    key = SshKey(tmp_path)
    sshsig.verify(key.sign(MESSAGE), MESSAGE, keys.parse_line(key.line), is_passkey=False)


@pytest.mark.parametrize("namespace", ["file", "git", "decision.v2@countersign"])
def test_n37_another_namespace_is_refused(tmp_path: Path, namespace: str) -> None:
    key = SshKey(tmp_path)
    armor = key.sign(MESSAGE, namespace)
    assert refused(armor, keys.parse_line(key.line)) == "namespace"


def test_n38_a_signature_over_other_bytes_is_refused(tmp_path: Path) -> None:
    key = SshKey(tmp_path)
    assert refused(key.sign(b'{"json": 1}'), keys.parse_line(key.line)) == "signature.invalid"


def test_another_persons_key_is_refused(tmp_path: Path) -> None:
    mine, theirs = SshKey(tmp_path), SshKey(tmp_path)
    assert refused(theirs.sign(MESSAGE), keys.parse_line(mine.line)) == "key.untrusted"


@pytest.mark.parametrize("kind", ["rsa", "ecdsa"])
def test_n39_other_key_types_cannot_be_enrolled_or_used(tmp_path: Path, kind: str) -> None:
    key = SshKey(tmp_path, kind)
    with pytest.raises(SignatureRefused) as error:
        keys.parse_line(key.line)
    assert error.value.check == "algorithm"
    assert refused(key.sign(MESSAGE), keys.parse_line(SshKey(tmp_path).line)) == "algorithm"


def test_n39_a_certificate_cannot_be_enrolled(tmp_path: Path) -> None:
    authority, key = SshKey(tmp_path), SshKey(tmp_path)
    keygen("-s", str(authority.path), "-I", "alice", f"{key.path}.pub")
    certificate = Path(f"{key.path}-cert.pub").read_text()
    with pytest.raises(SignatureRefused) as error:
        keys.parse_line(certificate)
    assert error.value.check == "algorithm"


def rebuilt(armor: str, **changes: Any) -> str:
    """The same signature with one field of its frame changed."""
    sig = sshsig.parse(armor)
    frame: dict[str, Any] = {
        "version": 1, "key": sig.key.blob, "namespace": sig.namespace, "reserved": "",
        "hash": sig.hash_name, "inner": string(sig.kind) + sig.signature, "tail": b"",
    } | changes  # fmt: skip
    return sshsig.armor(
        sshsig.MAGIC + frame["version"].to_bytes(4, "big") + string(frame["key"])
        + string(frame["namespace"]) + string(frame["reserved"]) + string(frame["hash"])
        + string(frame["inner"]) + frame["tail"]
    )  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "check"),
    [
        ({}, ""),
        ({"version": 2}, "algorithm"),
        ({"tail": b"\0"}, "encoding"),
        ({"hash": "md5"}, "algorithm"),
        ({"hash": "sha256"}, "algorithm"),
        ({"reserved": "x"}, "encoding"),
        ({"inner": string("ssh-ed25519") + string(bytes(64)) + b"\0"}, "encoding"),
        ({"inner": string("ssh-ed25519") + string(bytes(64))}, "signature.invalid"),
        ({"inner": string("sk-ssh-ed25519@openssh.com") + string(bytes(64))}, "algorithm"),
    ],
)
def test_n39_a_changed_frame_is_refused(
    tmp_path: Path, changes: dict[str, Any], check: str
) -> None:
    key = SshKey(tmp_path)
    armor = rebuilt(key.sign(MESSAGE), **changes)
    if check:
        assert refused(armor, keys.parse_line(key.line)) == check
    else:
        sshsig.verify(armor, MESSAGE, keys.parse_line(key.line))


@pytest.mark.parametrize(
    "spoil",
    [
        lambda text: text + text,
        lambda text: "garbage\n" + text,
        lambda text: text.replace("\nU1N", "\n U1N"),
        lambda text: text.replace("-----END SSH SIGNATURE-----", ""),
        lambda text: "",
    ],
)
def test_a_spoilt_armour_is_refused(tmp_path: Path, spoil: Any) -> None:
    key = SshKey(tmp_path)
    assert refused(spoil(key.sign(MESSAGE)), keys.parse_line(key.line)) == "encoding"


class HardwareKey:
    """An `sk-ecdsa` key in software: what a touch key would answer."""

    def __init__(self, application: str = "ssh:") -> None:
        self.private = ec.generate_private_key(ec.SECP256R1())
        self.public = keys.sk_ecdsa(self.private.public_key(), application)

    def sign(self, message: bytes, flags: int = 0x05, counter: int = 7) -> str:
        blob = sshsig.to_be_signed(message)
        head = sha256(self.public.application.encode()).digest() + bytes([flags])
        signed = head + counter.to_bytes(4, "big") + sha256(blob).digest()
        der = self.private.sign(signed, ec.ECDSA(hashes.SHA256()))
        r, s = utils.decode_dss_signature(der)
        inner = string(keys.SK_ECDSA) + string(mpint(r) + mpint(s)) + bytes([flags])
        frame = string(self.public.blob) + string(keys.NAMESPACE) + string("") + string("sha512")
        body = frame + string(inner + counter.to_bytes(4, "big"))
        return sshsig.armor(sshsig.MAGIC + (1).to_bytes(4, "big") + body)


def test_a_hardware_key_verifies_and_stock_ssh_keygen_agrees(tmp_path: Path) -> None:
    key = HardwareKey()
    armor = key.sign(MESSAGE)
    sshsig.verify(armor, MESSAGE, key.public, need_uv=True, is_passkey=False)
    signers, signature = tmp_path / "signers", tmp_path / "sig"
    signers.write_text(keys.allowed_signers("alice@example.com", key.public.line) + "\n")
    signature.write_text(armor)
    import subprocess

    done = subprocess.run(
        ["ssh-keygen", "-Y", "verify", "-f", signers, "-I", "alice@example.com", "-n",
         keys.NAMESPACE, "-s", signature],
        input=MESSAGE, capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_n40_a_hardware_key_that_nobody_touched_is_refused() -> None:
    key = HardwareKey()
    assert refused(key.sign(MESSAGE, flags=0x04), key.public) == "flags"
    assert refused(key.sign(MESSAGE, flags=0x01), key.public, need_uv=True) == "flags"
    sshsig.verify(key.sign(MESSAGE, flags=0x01), MESSAGE, key.public)


def test_n41_a_passkey_used_raw_and_a_raw_key_used_as_a_passkey_are_refused() -> None:
    key = HardwareKey()
    armor = key.sign(MESSAGE)
    sshsig.verify(armor, MESSAGE, key.public, is_passkey=False)
    assert refused(armor, key.public, is_passkey=True) == "method"
