"""SSHSIG and passkeys-as-SSHSIG against signatures of OpenSSH and of a real browser."""

import json
import subprocess
from pathlib import Path

import pytest

from approvals import keys, sshsig, webauthn
from approvals.encodings import unb64url
from approvals.refusals import SignatureRefused

OTHER_NAMESPACE = "decision.v1@toolgate"


def key_of(allowed_signers: Path) -> keys.SshKey:
    return keys.parse_line(" ".join(allowed_signers.read_text().split()[-2:]))


def test_it_verifies_a_signature_of_openssh(vectors: Path) -> None:
    folder = vectors / "sshsig"
    sshsig.verify(
        (folder / "message.sig").read_text(),
        (folder / "message.bin").read_bytes(),
        key_of(folder / "allowed_signers"),
        namespace=OTHER_NAMESPACE,
    )


def test_it_refuses_that_signature_in_our_namespace(vectors: Path) -> None:
    folder = vectors / "sshsig"
    with pytest.raises(SignatureRefused) as refused:
        sshsig.verify(
            (folder / "message.sig").read_text(),
            (folder / "message.bin").read_bytes(),
            key_of(folder / "allowed_signers"),
        )
    assert refused.value.check == "namespace"


def test_it_refuses_that_signature_over_another_message(vectors: Path) -> None:
    folder = vectors / "sshsig"
    with pytest.raises(SignatureRefused) as refused:
        sshsig.verify(
            (folder / "message.sig").read_text(),
            (folder / "message.bin").read_bytes() + b" ",
            key_of(folder / "allowed_signers"),
            namespace=OTHER_NAMESPACE,
        )
    assert refused.value.check == "signature.invalid"


def test_it_refuses_the_example_of_the_protocol_document(vectors: Path) -> None:
    """The document's own example predates the hash field, and stock ssh-keygen refuses it too."""
    with pytest.raises(SignatureRefused) as refused:
        sshsig.parse((vectors / "sshsig" / "protocol-example.sig").read_text())
    assert refused.value.check == "encoding"


def test_it_verifies_the_passkey_signature_of_a_browser(vectors: Path) -> None:
    folder = vectors / "sshsig-webauthn" / "browser"
    sshsig.verify(
        (folder / "message.sig").read_text(),
        (folder / "message.bin").read_bytes(),
        key_of(folder / "allowed_signers"),
        need_uv=True,
    )


def browser_assertion(vectors: Path) -> tuple[dict[str, object], webauthn.RelyingParty, bytes]:
    sample = json.loads((vectors / "sshsig-webauthn" / "browser" / "assertion.json").read_text())
    party = webauthn.RelyingParty(sample["rpId"], "test", (sample["origin"],))
    return sample, party, unb64url(sample["challenge"])


def enrolled(sample: dict[str, object], **changes: object) -> webauthn.Credential:
    key = keys.sk_ecdsa(point(sample), "")
    credential = sample["credential"]
    assert isinstance(credential, dict)
    facts: dict[str, object] = {
        "credential_id": unb64url(credential["id"]),
        "spki": keys.spki_of(key.key),
        "rp_id": sample["rpId"],
        "sign_count": 1,
        "backup_eligible": False,
        "user_handle": unb64url(credential["response"]["userHandle"]),
    }
    return webauthn.Credential(**{**facts, **changes})  # type: ignore[arg-type]


def point(sample: dict[str, object]) -> keys.PublicKey:
    raw = bytes.fromhex(str(sample["public_key_uncompressed_hex"]))
    return keys._p256(raw)


def test_the_browsers_challenge_is_our_blob_of_the_message(vectors: Path) -> None:
    message = (vectors / "sshsig-webauthn" / "browser" / "message.bin").read_bytes()
    _, _, challenge = browser_assertion(vectors)
    assert sshsig.to_be_signed(message) == challenge


def test_the_browsers_assertion_becomes_the_published_armour(vectors: Path, tmp_path: Path) -> None:
    folder = vectors / "sshsig-webauthn" / "browser"
    sample, party, blob = browser_assertion(vectors)
    proved = webauthn.check_assertion(party, sample["credential"], blob, enrolled(sample))
    assert proved.armor == (folder / "message.sig").read_text()
    assert proved.sign_count == 2

    signature = tmp_path / "m.sig"
    signature.write_text(proved.armor)
    done = subprocess.run(
        ["ssh-keygen", "-Y", "verify", "-f", folder / "allowed_signers", "-I", "alice@example.com",
         "-n", keys.NAMESPACE, "-s", signature],
        input=(folder / "message.bin").read_bytes(), capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("changes", "check"),
    [
        ({"sign_count": 2}, "counter"),
        ({"sign_count": 9}, "counter"),
        ({"backup_eligible": True}, "flags"),
        ({"rp_id": "example.com"}, "rp_id"),
        ({"user_handle": b"somebody else"}, "credential"),
        ({"credential_id": b"another"}, "credential"),
    ],
)
def test_it_refuses_the_browsers_assertion_for_another_enrolment(
    vectors: Path, changes: dict[str, object], check: str
) -> None:
    sample, party, blob = browser_assertion(vectors)
    with pytest.raises(SignatureRefused) as refused:
        webauthn.check_assertion(party, sample["credential"], blob, enrolled(sample, **changes))
    assert refused.value.check == check
