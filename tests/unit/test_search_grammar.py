"""The search box reads text into terms and writes them back; what it cannot read it says."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from console.search import grammar
from console.search.fields import FIELDS
from console.search.grammar import BadQuery, Term


def parse(query: str) -> tuple[Term, ...]:
    return grammar.parse(query, FIELDS)


def test_fields_values_and_negation_are_read() -> None:
    assert parse("state:unknown,stalled -tool:refund amount:>=1250.00EUR age:1h..2h") == (
        Term("state", "in", ("unknown", "stalled")),
        Term("tool", "in", ("refund",), negated=True),
        Term("amount", ">=", ("1250.00EUR",)),
        Term("age", "range", ("1h", "2h")),
    )


def test_bare_and_quoted_words_are_free_text() -> None:
    assert parse('pi_3Q "a b:c"') == (
        Term("text", "in", ("pi_3Q",)),
        Term("text", "in", ("a b:c",)),
    )


@pytest.mark.parametrize(
    ("query", "suggestion"),
    [("stat:unknown", "state:unknown"), ("-tol:charge", "-tool:charge"), ("xyzzy:1", "")],
)
def test_an_unknown_field_is_an_error_with_a_suggestion(query: str, suggestion: str) -> None:
    with pytest.raises(BadQuery) as bad:
        parse(query)
    assert bad.value.suggestion == suggestion


@pytest.mark.parametrize("query", ["state:", "age:1h..", 'tool:"charge', "x" * 501])
def test_what_is_half_written_is_an_error(query: str) -> None:
    with pytest.raises(BadQuery):
        parse(query)


_word = st.text("abcdefgh0123456789_-*", min_size=1, max_size=8)
_terms = st.one_of(
    st.builds(
        Term,
        st.sampled_from(sorted(FIELDS.keys() - {"text"})),
        st.just("in"),
        st.lists(_word, min_size=1, max_size=3).map(tuple),
        st.booleans(),
    ),
    st.builds(
        Term,
        st.sampled_from(["age", "amount"]),
        st.sampled_from([">", ">=", "<", "<="]),
        st.tuples(_word),
        st.booleans(),
    ),
    st.builds(Term, st.just("age"), st.just("range"), st.tuples(_word, _word), st.booleans()),
    st.builds(
        Term,
        st.just("text"),
        st.just("in"),
        st.tuples(st.text("abc :", min_size=2).filter(lambda text: text.strip() == text)),
    ),
)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.lists(_terms, max_size=5))
def test_what_is_written_is_read_again(terms: list[Term]) -> None:
    assert parse(grammar.written(terms)) == tuple(terms)
