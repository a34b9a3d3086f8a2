"""Cutting a batch: what is handed on as parsed is what reading the text alone would give."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operations import canonical
from operations.canonical import InvalidJson
from operations.reports.splitting import Parsed, split_array

_DEEP = '{"args":' + "[" * 64 + "]" * 64 + "}"
_TOO_DEEP = '{"args":' + "[" * 65 + "]" * 65 + "}"
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(_JSON, max_size=5), st.booleans(), st.sampled_from(["", " ", "\n\t "]))
def test_an_element_is_parsed_exactly_where_its_text_alone_is_sound(
    values: list, is_ascii: bool, space: str
) -> None:
    try:
        texts = [json.dumps(value, ensure_ascii=is_ascii) for value in values]
        body = f"[{space}{f'{space},{space}'.join(texts)}{space}]".encode()
    except UnicodeEncodeError:
        return
    _compare(split_array(body), texts)


@pytest.mark.parametrize(
    "text",
    [
        '{"a":1,"a":2}',
        '{"a":{"b":1,"b":1}}',
        '{"n":9007199254740992.0}',
        '{"n":25000.0}',
        '{"n":1e999}',
        '{"n":NaN}',
        r'{"s":"\ud83d"}',
        r'{"s":"\ud83d\ude00"}',
        '{"s":"a\tb"}',
        '{"n":' + "1" * 5000 + "}",
        _DEEP,
        _TOO_DEEP,
        "[1]",
        "7",
        '"text"',
        "{}",
    ],
)
def test_odd_elements_are_judged_as_if_alone(text: str) -> None:
    body = f'[{{"a":1}}, {text} ,{{"b":[]}}]'.encode()
    _compare(split_array(body), ['{"a":1}', text, '{"b":[]}'])


def test_nothing_is_handed_on_of_a_body_that_is_no_utf8() -> None:
    found = split_array(b'[{"a":1},{"b":"\xff"}]')
    assert found == ['{"a":1}', '{"b":"\udcff"}']


def _compare(found: list[str | Parsed], texts: list[str]) -> None:
    assert [one.text if isinstance(one, Parsed) else one for one in found] == texts
    for one, text in zip(found, texts, strict=True):
        try:
            alone = canonical.parse_object(text)
        except InvalidJson:
            assert isinstance(one, str)
        else:
            assert isinstance(one, Parsed)
            assert (one.values, _types(one.values)) == (alone, _types(alone))


def _types(value: object) -> str:
    """Distinguishes 1, 1.0 and True, which compare as equal."""
    return repr(value)
