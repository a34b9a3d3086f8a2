"""The repository's own promises: what is locked, ignored and named."""

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def test_the_lock_names_no_host_and_pins_every_package_by_hash():
    lock = (ROOT / "requirements.lock").read_text()
    stanzas = [part for part in lock.replace("\\\n", " ").splitlines() if part.strip()]
    assert "://" not in lock
    assert stanzas
    for stanza in stanzas:
        assert "==" in stanza
        assert "--hash=sha256:" in stanza


@pytest.mark.parametrize("name", ["setup", "run", "test", "check", "bench", "lab", "clean"])
def test_the_makefile_has_the_promised_target(name):
    assert f"\n{name}:" in (ROOT / "Makefile").read_text()
