"""`make run`: parts die and come back, the whole dies and comes back, a stop leaves nothing."""

import os
import socket
import subprocess
import sys
import time
import urllib.request

import pytest

from tests.support.product import ROOT

PARTS = ["web-1", "web-2", "sequencer", "worker", "beat", "valkey", "postgres"]
COUNT_PEOPLE = (
    "from django.contrib.auth import get_user_model; print(get_user_model().objects.count())"
)


def start_another(data_dir, port):
    command = [sys.executable, "-m", "console.runner", "--demo", "0"]
    return subprocess.run(
        [*command, "--data-dir", str(data_dir), "--port", str(port)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def count_people(product):
    return int(product.manage("shell", "-v0", "-c", COUNT_PEOPLE))


def gone(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def until_gone(pids, within_seconds=15):
    deadline = time.monotonic() + within_seconds
    while left := {name for name, pid in pids.items() if not gone(pid)}:
        assert time.monotonic() < deadline, f"still there: {left}"
        time.sleep(0.05)


@pytest.mark.parametrize("name", PARTS)
def test_a_killed_part_is_back_in_seconds(own_product, name):
    own_product.kill(name)
    own_product.wait_until_ready(within_seconds=20)


def test_while_every_web_process_is_dead_clients_wait_and_are_not_refused(own_product):
    for name in ("web-1", "web-2"):
        own_product.kill(name, wait=False)
    url = f"http://127.0.0.1:{own_product.instance.port}/healthz"
    with urllib.request.urlopen(url, timeout=20) as answer:
        assert answer.status == 200


def test_a_second_instance_on_the_same_data_is_refused(own_product):
    done = start_another(own_product.data.path, 0)
    assert done.returncode == 1
    assert "already runs" in done.stderr
    assert own_product.base_url in done.stderr


def test_a_taken_port_is_refused_before_anything_starts(own_product, tmp_path):
    done = start_another(tmp_path / "other", own_product.instance.port)
    assert done.returncode == 1
    assert f"port {own_product.instance.port} is taken" in done.stderr
    assert not list((tmp_path / "other").glob("postgres*"))


def test_commands_reach_the_running_instance_by_its_data_dir(own_product):
    before = count_people(own_product)
    own_product.create_user("first@example.com", "viewer", "a long enough password")
    assert count_people(own_product) == before + 1


def test_after_sigkill_of_the_whole_nothing_is_left_and_the_data_is(own_product):
    own_product.create_user("kept@example.com", "viewer", "a long enough password")
    before, pids = count_people(own_product), own_product.pids()
    own_product.kill_supervisor()
    until_gone(pids)
    own_product.start()
    assert count_people(own_product) == before


def test_stopping_ends_every_process_even_with_a_client_that_stays(own_product):
    pids, port = own_product.pids(), own_product.instance.port
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert client.recv(15) == b"HTTP/1.1 200 OK"
        began = time.monotonic()
        own_product.stop()
    assert time.monotonic() - began < 20
    until_gone(pids, within_seconds=1)
    assert not os.path.exists(own_product.data.path / "instance.json")
    own_product.start()


def test_the_terminal_shows_no_traceback(own_product):
    assert "Traceback" not in own_product.output
