"""The full product of look-up classes and answers (design: reconciliation, "Classes")."""

from datetime import timedelta
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconcilers.evidence import Look, Outcome, Stage, Way
from reconcilers.proofs import absence
from reconcilers.replays import Try, looks_of
from reconcilers.verdicts import judge
from tests.support.evidence import KEY, after, facts, look, sighting

NOW = after(2000)
CLASSES = "ABCERTN"
WAYS = tuple(
    Way(name=f"by_{name}", lookup_class=name, words=name, exhaustive=True) for name in CLASSES
)

#: class -> answer -> the verdict over two such looks after the settle point, with nothing else
#: known. "open" is whatever proves nothing: waiting, or a person where money is at stake.
TABLE = {
    # class: (verified hit, rumour, empty, pending, cannot look)
    "A": ("committed", "open", "absent", "in_flight", "cannot_look"),
    "B": ("committed", "open", "absent", "in_flight", "cannot_look"),
    "C": ("committed", "open", "open", "in_flight", "cannot_look"),
    "E": ("committed", "open", "open", "in_flight", "cannot_look"),
    "R": ("committed", "open", "open", "in_flight", "open"),
    "T": ("committed", "open", "absent", "in_flight", "cannot_look"),
    "N": ("committed", "open", "open", "in_flight", "cannot_look"),
}
ANSWERS = ("hit", "rumour", "empty", "pending", "cannot_look")
OPEN = {"waiting", "needs_human"}


def looks_like(lookup_class: str, answer: str) -> list[Look]:
    seen = {
        "hit": (sighting(),),
        "rumour": (sighting(verified=False),),
        "pending": (sighting(stage=Stage.IN_FLIGHT, status="processing"),),
    }.get(answer, ())
    outcome = "hit" if answer == "rumour" else answer
    named = {"lookup": f"by_{lookup_class}", "lookup_class": lookup_class, "sightings": seen}
    return [look(outcome, at, **named) for at in (1001, 1010)]


@pytest.mark.parametrize("lookup_class", CLASSES)
@pytest.mark.parametrize("answer", ANSWERS)
def test_what_each_class_proves_by_each_answer(lookup_class, answer):
    expected = TABLE[lookup_class][ANSWERS.index(answer)]
    verdict = judge(facts(ways=WAYS), looks_like(lookup_class, answer), NOW)
    assert verdict.kind in (OPEN if expected == "open" else {expected})


@pytest.mark.parametrize("lookup_class", CLASSES)
def test_before_the_settle_point_only_a_tombstone_proves_absence(lookup_class):
    early = [
        look("empty", at, lookup=f"by_{lookup_class}", lookup_class=lookup_class)
        for at in (200, 210)
    ]
    verdict = judge(facts(ways=WAYS), early, after(300))
    assert (verdict.kind == "absent") is (lookup_class == "T")


class TestTombstones:
    def test_refused_means_that_the_original_is_there_and_is_read(self):
        refused = look(
            "hit", 1, lookup="tombstone", lookup_class="T", sightings=(sighting(id="row 7"),)
        )
        verdict = judge(facts(emits_until=None), [refused], after(2))
        assert (verdict.kind, verdict.object_ids) == ("committed", ("row 7",))

    def test_refused_and_not_read_is_no_absence(self):
        refused = look(
            "cannot_look", 1, lookup="tombstone", lookup_class="T",
            sightings=(sighting(verified=False),),
        )  # fmt: skip
        assert judge(facts(), [refused], NOW).kind == "cannot_look"

    def test_an_original_seen_by_another_look_beats_an_accepted_tombstone(self):
        accepted = look("empty", 1, lookup="tombstone", lookup_class="T", covers_from=None)
        seen = look("hit", 0.5, sightings=(sighting(),))
        assert judge(facts(), [accepted, seen], NOW).kind == "committed"

    def test_it_needs_no_fence_and_no_known_end_of_the_sender(self):
        accepted = look("empty", 1, lookup="tombstone", lookup_class="T", covers_from=None)
        verdict = judge(facts(emits_until=None, fenced=False), [accepted], after(2))
        assert verdict.proof is not None
        assert (verdict.proof.lookup_class, verdict.proof.settles_at) == ("T", None)


class TestReplays:
    """Two sends under one key; the second one was answered."""

    def sends(self, **second: object) -> tuple[Look, ...]:
        first = Try(
            number=1, standing="in_doubt", sent_at=after(0), ended_at=after(90),
            could_send_until=after(100), http_status=None, replayed=False, provider_ref=None,
        )  # fmt: skip
        told: dict[str, object] = {
            "number": 2, "standing": "no_effect", "sent_at": after(200), "ended_at": after(201),
            "could_send_until": after(300), "http_status": None, "replayed": False,
            "provider_ref": None,
        }  # fmt: skip
        again = Try(**told | second)  # type: ignore[arg-type]
        return looks_of([first, again], marker=KEY, key_expires_at=after(86_400))

    def test_a_kept_failure_given_back_proves_absence(self):
        looks = self.sends(http_status=402, replayed=True)
        verdict = judge(facts(), looks, after(202))
        assert verdict.proof is not None
        assert (verdict.kind, verdict.proof.lookup_class) == ("absent", "R")

    @pytest.mark.parametrize("status", [None, 400, 401, 403, 404, 409, 422, 429, 500, 503])
    @pytest.mark.parametrize("replayed", [True, False])
    def test_no_other_refusal_says_anything_about_the_first_send(self, status, replayed):
        looks = self.sends(http_status=status, replayed=replayed)
        assert [each.outcome for each in looks] == [Outcome.CANNOT_LOOK]
        assert absence(facts(), looks) is None
        # Nor is it a look of ours that failed.
        assert judge(facts(), looks, after(202)).code == "not_looked_yet"

    def test_a_fresh_failure_says_nothing(self):
        looks = self.sends(http_status=402, replayed=False)
        assert judge(facts(), looks, after(202)).kind == "waiting"

    def test_a_kept_failure_covers_no_send_after_the_key_was_forgotten(self):
        late = self.sends(
            standing="in_doubt", http_status=402, replayed=True, could_send_until=after(86_401)
        )
        unbounded = self.sends(
            standing="in_doubt", http_status=402, replayed=True, could_send_until=None
        )
        assert judge(facts(), late, NOW).kind != "absent"
        assert judge(facts(), unbounded, NOW).kind != "absent"

    def test_a_success_counts_once_its_object_was_read_by_id(self):
        looks = self.sends(standing="committed", http_status=200, provider_ref="pi_1")
        assert judge(facts(), looks, after(202)).kind == "waiting"
        read = look("hit", 203, lookup="get", lookup_class="A", sightings=(sighting(),))
        assert judge(facts(), [*looks, read], after(204)).kind == "committed"

    def test_a_success_makes_older_empty_reads_worthless(self):
        empty = [look("empty", 1001), look("empty", 1010)]
        told = self.sends(
            standing="committed", http_status=200, provider_ref="pi_1",
            sent_at=after(1020), ended_at=after(1021),
        )  # fmt: skip
        assert judge(facts(), [*empty, *told], NOW).kind != "absent"

    def test_the_first_send_is_no_replay_and_neither_is_one_that_was_never_sent(self):
        alone = Try(
            number=1, standing="in_doubt", sent_at=after(0), ended_at=after(9),
            could_send_until=after(100), http_status=402, replayed=True, provider_ref=None,
        )  # fmt: skip
        unsent = Try(
            number=2, standing="not_sent", sent_at=None, ended_at=after(20),
            could_send_until=None, http_status=None, replayed=False, provider_ref=None,
        )  # fmt: skip
        assert looks_of([alone, unsent], marker=KEY, key_expires_at=after(86_400)) == ()


# Properties over the whole product ---------------------------------------------------------------

_answers = st.tuples(st.sampled_from(CLASSES), st.sampled_from(ANSWERS))


@given(st.lists(_answers, max_size=6), st.randoms(use_true_random=False))
def test_no_order_of_answers_changes_the_verdict(answers, random):
    looks = [each for pair in answers for each in looks_like(*pair)]
    first = judge(facts(ways=WAYS), looks, NOW)
    random.shuffle(looks)
    second = judge(facts(ways=WAYS), looks, NOW)
    assert (first.kind, first.object_ids) == (second.kind, second.object_ids)
    if any(answer == "hit" for _, answer in answers):
        assert first.kind == "committed"


@given(st.lists(_answers, max_size=8))
def test_without_an_empty_of_a_b_or_t_nothing_is_ever_absent(answers):
    looks = [
        each
        for lookup_class, answer in answers
        if not (answer == "empty" and lookup_class in "ABT")
        for each in looks_like(lookup_class, answer)
    ]
    assert judge(facts(ways=WAYS, amount_minor=None), looks, NOW).kind != "absent"


def test_committed_stays_committed_whatever_is_read_afterwards():
    hit = looks_like("E", "hit")[:1]
    for pair in permutations([(name, answer) for name in "ABT" for answer in ("empty",)], 2):
        later = [
            look("empty", 1500 + at, lookup=f"by_{name}", lookup_class=name)
            for at, (name, _) in enumerate(pair)
        ]
        assert judge(facts(ways=WAYS), [*hit, *later], NOW + timedelta(days=4)).kind == "committed"
