"""Published vectors: data files, kept outside the repository, found by COUNTERSIGN_VECTORS."""

import os
from pathlib import Path

import pytest

DEFAULT = Path(__file__).resolve().parents[2].parent / "shared" / "vectors"


@pytest.fixture(scope="session")
def vectors() -> Path:
    """The folder of vectors. Under CI its absence is a failure, elsewhere a skip that says why."""
    folder = Path(os.environ.get("COUNTERSIGN_VECTORS") or DEFAULT)
    if folder.is_dir():
        return folder
    reason = f"no vectors in {folder}: set COUNTERSIGN_VECTORS to the folder that holds rfc8785/"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)
