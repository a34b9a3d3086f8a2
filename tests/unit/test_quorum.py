"""People first, then keys, then groups; a denial beats any number of approvals."""

import pytest

from approvals.quorum import Vote, tally


def vote(person: str, key: str = "", verdict: str = "approve") -> Vote:
    return Vote(person, f"{person}@x", key or f"key-of-{person}", verdict)


@pytest.mark.parametrize(
    ("votes", "approvals", "met"),
    [
        ([vote("a"), vote("b")], 2, True),
        ([vote("a")], 1, False),
        ([vote("a", "k1"), vote("a", "k2")], 1, False),
        ([vote("a", "k"), vote("b", "k")], 1, False),
        ([vote("a", "k1"), vote("b", "k1"), vote("b", "k2")], 2, True),
        ([], 0, False),
    ],
)
def test_n44_people_are_counted_then_keys(votes: list[Vote], approvals: int, met: bool) -> None:
    counted = tally(votes, 2, [])
    assert (counted.approvals, counted.met) == (approvals, met)


def test_n48_a_denial_beats_any_number_of_approvals() -> None:
    counted = tally([vote("a"), vote("b"), vote("c", verdict="deny")], 2, [])
    assert counted.denied
    assert not counted.met


def test_every_group_must_be_heard() -> None:
    groups = [
        {"name": "finance", "members": ["a@x", "b@x"], "quorum": 1},
        {"name": "legal", "members": ["l@x"], "quorum": 1},
    ]
    assert tally([vote("a"), vote("b")], 2, groups).missing == "1 of legal"
    assert tally([vote("a"), vote("l")], 2, groups).met


def test_a_quorum_of_nobody_is_never_met() -> None:
    assert not tally([], 0, []).met
