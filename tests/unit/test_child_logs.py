"""Children's output: all of it in a file, errors with their tracebacks on the terminal."""

import pytest

from console.runner.logs import PYTHON_ERRORS, ChildLog


@pytest.fixture
def log(tmp_path):
    opened = ChildLog("worker", tmp_path, PYTHON_ERRORS)
    yield opened
    opened.close()


def test_lines_come_whole_however_they_arrive(log):
    log.feed(b"2026-01-01 INFO one\n2026-01-01 IN")
    log.feed(b"FO two\n")
    lines = log.path.read_text().splitlines()
    assert [line.split(" ", 1)[1] for line in lines] == [
        "2026-01-01 INFO one",
        "2026-01-01 INFO two",
    ]


def test_an_error_and_its_traceback_are_shown_and_nothing_else(log, capsys):
    log.feed(
        b"2026-01-01 INFO x: fine\n2026-01-01 ERROR x: broken\nTraceback (most recent call last):\n"
        b'  File "a.py"\nValueError: no\n2026-01-01 INFO x: fine again\n'
    )
    assert capsys.readouterr().err.splitlines() == [
        "worker | 2026-01-01 ERROR x: broken",
        "worker | Traceback (most recent call last):",
        'worker |   File "a.py"',
        "worker | ValueError: no",
    ]


def test_a_flood_of_errors_is_cut_and_the_file_named(log, capsys):
    log.feed(b"2026-01-01 ERROR x: again\n" * 500)
    shown = capsys.readouterr().err.splitlines()
    assert len(shown) == 61
    assert str(log.path) in shown[-1]


def test_a_line_without_end_does_not_fill_memory(log):
    log.feed(b"x" * 200_000)
    assert log.path.stat().st_size > 100_000


def test_a_file_that_grew_is_set_aside(log, monkeypatch):
    monkeypatch.setattr("console.runner.logs._KEEP_BYTES", 100)
    log.feed(b"first " * 30 + b"\n")
    log.feed(b"second\n")
    assert "second" in log.path.read_text()
    assert "first" in log.path.with_suffix(".log.1").read_text()
