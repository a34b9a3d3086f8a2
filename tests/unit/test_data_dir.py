"""DATA_DIR: one instance at a time, secrets made once, notes that are whole or absent."""

import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from console.runner.datadir import AlreadyRunning, DataDir, Instance


@pytest.fixture
def data(tmp_path):
    folder = DataDir(tmp_path / "data")
    folder.create()
    yield folder
    folder.unlock()


@pytest.fixture
def instance():
    return Instance(
        pid=1, port=8000, base_url="http://localhost:8000", database_url="p", redis_url="r"
    )


def test_the_folder_is_its_owners_alone(data, instance):
    data.secrets()
    data.note_instance(instance)
    for path in (data.path, data.path / "secrets.json", data.path / "instance.json"):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0


def test_secrets_are_made_once(tmp_path):
    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(lambda _: DataDir(tmp_path / "data").secrets(), range(16)))
    assert len(found) == 1


def test_a_second_instance_is_told_where_the_first_one_is(data, instance):
    data.lock()
    data.note_instance(instance)
    with pytest.raises(AlreadyRunning, match="http://localhost:8000"):
        DataDir(data.path).lock()
    assert DataDir(data.path).is_running()


def test_a_killed_instance_leaves_no_lock_and_its_note_is_not_believed(data, instance):
    holder = (
        "import os, signal, sys; from console.runner.datadir import DataDir;"
        "DataDir(sys.argv[1]).lock(); os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", holder, str(data.path)], check=False)
    data.note_instance(instance)
    assert not data.is_running()
    data.lock()
    assert data.instance() is None


def test_a_note_from_other_code_is_no_note(data):
    (data.path / "instance.json").write_text('{"pid": 1}')
    assert data.instance() is None
    (data.path / "instance.json").write_text("{")
    assert data.instance() is None


def test_without_data_dir_the_folder_lies_beside_manage_py(monkeypatch):
    monkeypatch.delenv("DATA_DIR")
    assert DataDir.from_environment().path.name == ".data"
    monkeypatch.setenv("DATA_DIR", "elsewhere")
    assert str(DataDir.from_environment().path) == os.path.realpath("elsewhere")
