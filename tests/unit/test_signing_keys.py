"""Keys that sign grants: files of their own, never readable by others, never dev in production."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from approvals import signing_keys
from console.runner import check

#: Production with everything but a signing key; nothing is connected to.
PRODUCTION = check._SETTINGS | check._PRODUCTION


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, settings: Any) -> Path:
    settings.SIGNING_KEY_DIR = tmp_path / "keys"
    settings.PRODUCTION = False
    return tmp_path / "keys"


def test_a_development_key_is_made_on_first_use_and_kept(folder: Path) -> None:
    first = signing_keys.grant_signer()
    assert first.key_id.startswith("dev:")
    assert signing_keys.grant_signer().key_id == first.key_id
    (file,) = folder.iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    assert b"ENCRYPTED PRIVATE KEY" in file.read_bytes()
    assert file.name.startswith("dev-grant-")


def test_production_makes_no_key_by_itself_and_refuses_one_for_development(
    settings: Any, folder: Path
) -> None:
    settings.PRODUCTION = True
    with pytest.raises(ImproperlyConfigured, match="create_signing_key"):
        signing_keys.grant_signer()
    settings.PRODUCTION = False
    signing_keys.grant_signer()
    settings.PRODUCTION = True
    signing_keys._load.cache_clear()
    with pytest.raises(ImproperlyConfigured, match="development key"):
        signing_keys.grant_signer()
    for file in folder.iterdir():
        file.unlink()
    made = signing_keys.create()
    assert signing_keys.grant_signer().key_id == made.key_id
    assert not made.key_id.startswith("dev:")


def test_the_newest_key_signs_and_older_ones_still_verify() -> None:
    old, new = signing_keys.create(), signing_keys.create()
    assert signing_keys.grant_signer().key_id == new.key_id
    assert [one.key_id for one in signing_keys.grant_signers()] == [old.key_id, new.key_id]
    old.public_key.verify(old.sign(b"x"), b"x")


def test_a_key_that_others_can_read_is_refused(folder: Path) -> None:
    signing_keys.create()
    (file,) = folder.iterdir()
    file.chmod(0o644)
    signing_keys._load.cache_clear()
    with pytest.raises(ImproperlyConfigured, match="chmod 600"):
        signing_keys.grant_signer()


def test_a_key_of_another_passphrase_cannot_be_read(settings: Any) -> None:
    signing_keys.create()
    settings.SIGNING_KEY_PASSPHRASE = "another"
    signing_keys._load.cache_clear()
    with pytest.raises(ValueError, match=r"(?i)password|decrypt"):
        signing_keys.grant_signer()


def test_a_web_process_without_a_key_dies_at_boot_and_says_what_to_run(tmp_path: Path) -> None:
    boot = subprocess.run(
        [sys.executable, "-c", "import console.asgi"],
        cwd=Path(__file__).resolve().parents[2],
        env=os.environ | PRODUCTION | {"COUNTERSIGN_SIGNING_KEYS": str(tmp_path / "none")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert boot.returncode != 0
    assert "no signing key in" in boot.stderr
    assert "manage.py create_signing_key" in boot.stderr
