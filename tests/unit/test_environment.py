"""Typed readers: what they accept, and the sentence a wrong value gets."""

import pytest

from console import env


@pytest.fixture(autouse=True)
def clean(monkeypatch):
    monkeypatch.delenv("SOME_VARIABLE", raising=False)


@pytest.mark.parametrize(("word", "meaning"), [("1", True), ("Yes", True), ("off", False)])
def test_a_flag_reads_the_usual_words(monkeypatch, word, meaning):
    monkeypatch.setenv("SOME_VARIABLE", word)
    assert env.flag("SOME_VARIABLE", default=not meaning) is meaning


def test_an_empty_variable_counts_as_not_set(monkeypatch):
    monkeypatch.setenv("SOME_VARIABLE", " ")
    assert env.flag("SOME_VARIABLE", default=True) is True
    assert env.integer("SOME_VARIABLE", 7) == 7
    assert env.listed("SOME_VARIABLE") == []
    with pytest.raises(env.Misconfigured, match=r"is not set\n  hint: do this"):
        env.required("SOME_VARIABLE", "do this")


@pytest.mark.parametrize(
    ("read", "value", "problem"),
    [
        (lambda: env.flag("SOME_VARIABLE", default=False), "perhaps", "neither yes nor no"),
        (lambda: env.integer("SOME_VARIABLE", 3), "three", "not a whole number"),
        (lambda: env.integer("SOME_VARIABLE", 3, at_least=2), "1", "2 or more"),
        (lambda: env.one_of("SOME_VARIABLE", ("local", "production"), "local"), "prod", "use one"),
    ],
)
def test_a_wrong_value_is_refused_with_a_hint(monkeypatch, read, value, problem):
    monkeypatch.setenv("SOME_VARIABLE", value)
    with pytest.raises(env.Misconfigured, match=problem):
        read()


def test_an_origin_has_no_path():
    assert env.origin("X", "https://c.example.com:8443/") == (
        "https://c.example.com:8443",
        "c.example.com",
    )
    for wrong in ("c.example.com", "https://c.example.com/console", "ftp://c.example.com", ""):
        with pytest.raises(env.Misconfigured):
            env.origin("X", wrong)


def test_a_database_url_becomes_a_connection():
    assert env.database("X", "postgres://u:p%40ss@db:6432/name?sslmode=require") == {
        "NAME": "name",
        "USER": "u",
        "PASSWORD": "p@ss",
        "HOST": "db",
        "PORT": "6432",
        "OPTIONS": {"sslmode": "require"},
    }


def test_a_database_url_may_name_a_unix_socket():
    connection = env.database("X", "postgresql://u@/name?host=/run/pg")
    assert connection["HOST"] == "/run/pg"
    assert connection["PORT"] == ""
    assert connection["OPTIONS"] == {}


@pytest.mark.parametrize("url", ["sqlite:///db.sqlite3", "mysql://h/db", "postgresql://host"])
def test_only_postgres_will_do(url):
    with pytest.raises(env.Misconfigured):
        env.database("X", url)
