"""Evidence bundles and their offline verifier: what is whole passes, whatever is touched fails."""

import base64
import json
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any

import countersign_verify as verifier
import pytest
from django.core.management import call_command

from approvals import bundles
from approvals.verify_md import VERIFY_MD
from operations import canonical
from operations.models import Event
from tests.support import approving, granting, sealing

pytestmark = pytest.mark.django_db

SCRIPT = Path(verifier.__file__)


@pytest.fixture
def evidence() -> tuple[bytes, dict[str, Any]]:
    """A bundle of an approved and claimed call, by a passkey, and what a verifier trusts."""
    sealing.seal()
    first = granting.approved()
    sealing.seal()
    del first
    asked = granting.approved()
    assert granting.claim(asked).status == 201
    sealing.seal()
    _, raw = bundles.of_operation(
        approving.user("auditor"), approving.operation(asked.op_id).handle
    )
    return raw, bundles.trust()


def check(raw: bytes, trust: dict[str, Any] | None) -> tuple[int, dict[str, str]]:
    """The exit code, and each check's outcome."""
    try:
        files = verifier.unpack(raw)
    except verifier.Malformed:
        return 3, {}
    run = verifier.Verifier(files, trust)
    code = run.run()
    return code, {result.name: f"{result.outcome}: {result.detail}" for result in run.results}


def again(raw: bytes, change: Callable[[dict[str, bytes]], None]) -> bytes:
    """The bundle with its files changed and its manifest made to fit, as a forger would."""
    files = verifier.unpack(raw)
    change(files)
    return bundles.pack(mended(files))


def mended(files: dict[str, bytes]) -> dict[str, bytes]:
    manifest = json.loads(files["manifest.json"])
    manifest["files"] = {
        name: sha256(body).hexdigest() for name, body in files.items() if name != "manifest.json"
    }
    return files | {"manifest.json": canonical.canonicalize(manifest)}


def test_a_whole_bundle_is_valid_and_the_same_evidence_is_the_same_bytes(
    evidence: tuple[bytes, dict[str, Any]],
) -> None:
    raw, trust = evidence
    code, checks = check(raw, trust)
    assert code == 0, checks
    assert len(checks) == 14
    assert all(outcome.startswith("pass") for outcome in checks.values())
    assert checks["decisions.witnessed"].startswith("pass: 1 ")
    assert check(again(raw, lambda files: None), trust)[0] == 0
    assert again(raw, lambda files: None) == raw
    assert Event.objects.filter(type="evidence.exported").count() == 1


def test_every_byte_that_is_flipped_fails(evidence: tuple[bytes, dict[str, Any]]) -> None:
    raw, trust = evidence
    passed = []
    for place in range(len(raw)):
        changed = bytearray(raw)
        changed[place] ^= 1
        if check(bytes(changed), trust)[0] not in (1, 3):
            passed.append(place)
    assert passed == []


def test_every_byte_flipped_by_a_forger_who_mends_the_manifest_fails(
    evidence: tuple[bytes, dict[str, Any]],
) -> None:
    """Of every file each fifth byte (all of them take minutes), the manifest made to fit: nothing
    that was signed or proved can be bent.
    """
    raw, trust = evidence
    files = verifier.unpack(raw)
    passed = []
    for name in sorted(files.keys() - {"manifest.json", "VERIFY.md"}):
        for place in range(len(name) % 5, len(files[name]), 5):
            changed = bytearray(files[name])
            changed[place] ^= 1
            body = bytes(changed)
            if verifier.Verifier(mended(files | {name: body}), trust).run() != 1:
                passed.append((name, place))
    assert passed == []


def test_n75_without_trust_nothing_is_called_valid(evidence: tuple[bytes, dict[str, Any]]) -> None:
    code, checks = check(evidence[0], None)
    assert code == 2
    for name in ("decisions.signed", "checkpoint.signed", "grant", "entries.included"):
        assert checks[name].startswith("not_checked")


def test_n74_trust_from_the_bundle_is_ignored(
    evidence: tuple[bytes, dict[str, Any]], tmp_path: Path
) -> None:
    raw, trust = evidence
    own = json.dumps(trust).encode()
    carried = again(raw, lambda files: files.update({"trust.json": own}))
    assert check(carried, None)[0] == 2
    assert check(carried, trust)[0] == 0
    bundle = tmp_path / "b.zip"
    bundle.write_bytes(carried)
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(bundle)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "it is ignored" in done.stderr


def test_n22_a_key_that_the_reader_does_not_trust_fails(
    evidence: tuple[bytes, dict[str, Any]],
) -> None:
    raw, trust = evidence
    for what, name in (
        ("reviewers", "decisions.signed"), ("vkeys", "checkpoint.signed"), ("grant_keys", "grant"),
    ):  # fmt: skip
        code, checks = check(raw, trust | {what: []})
        assert code == 1
        assert checks[name].startswith("fail: key.untrusted")


def test_n73_a_decision_that_is_not_in_the_log_fails(
    evidence: tuple[bytes, dict[str, Any]],
) -> None:
    raw, trust = evidence

    def drop(files: dict[str, bytes]) -> None:
        place = next(
            name for name, body in files.items()
            if name.startswith("entries/") and b'"approval.decided"' in body
        )  # fmt: skip
        del files[place], files[place.replace("entries", "proofs")]

    code, checks = check(again(raw, drop), trust)
    assert code == 1
    assert checks["decisions.logged"].startswith("fail")
    assert checks["entries.whole"].startswith("fail")


def test_n77_a_compromised_key_is_judged_by_the_decisions_place_in_the_log(
    evidence: tuple[bytes, dict[str, Any]],
) -> None:
    raw, trust = evidence
    files = verifier.unpack(raw)
    index = next(
        int(name[8:-5]) for name, body in files.items()
        if name.startswith("entries/") and b'"approval.decided"' in body
    )  # fmt: skip

    def revoked(reason: str, bad_from: int) -> dict[str, Any]:
        facts = {"reason": reason, "bad_from": bad_from}
        return trust | {"reviewers": [one | {"revoked": facts} for one in trust["reviewers"]]}

    assert check(raw, revoked("compromised", index))[0] == 1
    assert check(raw, revoked("compromised", index + 1))[0] == 0
    assert check(raw, revoked("superseded", 0))[0] == 0


def test_n14_without_the_arguments_nothing_about_them_is_called_checked(
    evidence: tuple[bytes, dict[str, Any]],
) -> None:
    raw, trust = evidence

    def erase(files: dict[str, bytes]) -> None:
        del files["args.json"]

    code, checks = check(again(raw, erase), trust)
    assert code == 2
    assert checks["args.fingerprint"].startswith("not_checked")
    assert checks["display.text"].startswith("not_checked")
    assert checks["decisions.signed"].startswith("pass")


def archive(*members: tuple[str, bytes], compress: int = zipfile.ZIP_STORED) -> bytes:
    out = BytesIO()
    with zipfile.ZipFile(out, "w", compress) as made:
        for name, body in members:
            made.writestr(name, body)
    return out.getvalue()


@pytest.mark.parametrize(
    "raw",
    [
        archive(("../manifest.json", b"{}")),
        archive(("/etc/passwd", b"{}")),
        archive(("manifest.json", b"0" * 40_000_000), compress=zipfile.ZIP_DEFLATED),
        archive(("manifest.json", b"{}")),
        b"",
        b"no zip at all",
    ],
)
def test_n76_what_is_no_bundle_is_malformed(raw: bytes) -> None:
    assert check(raw, None)[0] == 3


def test_n76_a_symlink_or_a_name_twice_is_malformed(
    evidence: tuple[bytes, dict[str, Any]],
) -> None:
    raw, trust = evidence
    assert check(raw, trust)[0] == 0
    out = BytesIO(raw)
    with pytest.warns(UserWarning, match="Duplicate"), zipfile.ZipFile(out, "a") as made:
        made.writestr("args.json", b"{}")
    assert check(out.getvalue(), trust)[0] == 3
    out = BytesIO()
    with zipfile.ZipFile(BytesIO(raw)) as whole, zipfile.ZipFile(out, "w") as made:
        for info in whole.infolist():
            info.external_attr = 0o120777 << 16
            made.writestr(info, whole.read(info))
    assert check(out.getvalue(), trust)[0] == 3


def test_n80_the_command_needs_no_network_and_no_product(
    evidence: tuple[bytes, dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    raw, _ = evidence
    call_command("export_trust")
    (tmp_path / "trust.json").write_text(capsys.readouterr().out)
    (tmp_path / "b.zip").write_bytes(raw)
    shutil.copy(SCRIPT, tmp_path / "verify.py")
    blocked = "import socket; socket.socket = None; import runpy, sys; sys.argv = sys.argv[1:];"
    command = [sys.executable, "-c", f"{blocked} runpy.run_path(sys.argv[0], run_name='__main__')"]
    command += ["verify.py", "b.zip", "--trust", "trust.json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "14 pass" in done.stdout
    assert "not_checked" not in done.stdout
    assert done.stdout.endswith("valid\n")


def test_stock_tools_check_the_same(evidence: tuple[bytes, dict[str, Any]], tmp_path: Path) -> None:
    """The commands of VERIFY.md: sha256sum, ssh-keygen on a passkey's decision, openssl."""
    raw, trust = evidence
    (tmp_path / "b.zip").write_bytes(raw)
    with zipfile.ZipFile(tmp_path / "b.zip") as bundle:
        bundle.extractall(tmp_path)
    statement = json.loads(
        base64.b64decode(
            json.loads((tmp_path / "decisions/1.envelope.json").read_text())["payload"]
        )
    )
    reviewer = next(
        one for one in trust["reviewers"]
        if one["key_id"] == statement["predicate"]["reviewer"]["key_id"]
    )  # fmt: skip
    (tmp_path / "allowed_signers").write_text(reviewer["allowed_signers"] + "\n")

    def shell(command: str) -> str:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command],
            cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert statement["subject"][0]["digest"]["sha256"] in shell("sha256sum args.json")
    assert statement["predicate"]["display"]["sha256"] in shell("sha256sum display.txt")
    assert statement["predicate"]["request"]["sha256"] in shell("sha256sum request.json")
    told = shell(_command("ssh-keygen").replace("NAME", reviewer["name"]))
    assert "Good" in told
    key = trust["vkeys"][0].split("+", 2)[2]
    openssl = [_command(word) for word in ("sed", "tail", "(printf '\\060", "openssl")]
    assert "Verified Successfully" in shell("\n".join(openssl).replace("KEY", key))


def _command(start: str) -> str:
    """A command as VERIFY.md spells it."""
    text = VERIFY_MD.replace("\\\n        ", "")
    return next(line.strip() for line in text.split("\n") if line.strip().startswith(start))
