"""Array literals come back from Postgres as what they were made from."""

from datetime import UTC, datetime
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from operations import arrays, rows

pytestmark = pytest.mark.django_db

TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
ODD = ["", "NULL", "null", '"', "\\", "{a,b}", "a\nb\t", "\u202e", "é😀", "\x7f", "\\x41", " "]


@settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.one_of(st.none(), TEXT, st.sampled_from(ODD))))
def test_any_text_survives(values: list[str | None]) -> None:
    assert _back(arrays.texts(values), "text") == values


def test_every_kind_survives() -> None:
    moment = datetime(2026, 11, 30, 10, 0, 0, 123456, tzinfo=UTC)
    assert _back(arrays.plain([1, None]), "int") == [1, None]
    assert _back(arrays.plain([True, False]), "bool") == [True, False]
    assert _back(arrays.plain([UUID(int=7)]), "uuid") == [UUID(int=7)]
    assert _back(arrays.moments([moment, None]), "timestamptz") == [moment, None]
    assert _back(arrays.binaries([b"\0\xff", b"", None]), "bytea") == [b"\0\xff", b"", None]
    assert len(_back(arrays.documents([{"a": '"\\'}, None, []]), "jsonb")) == 3


def _back(literal: str, kind: str) -> list:
    with rows.hot_cursor() as cur:
        cur.execute(f"SELECT %s::{kind}[]", (literal,))
        return cur.fetchone()[0]
