"""Random histories of one operation: whatever happens in whatever order, the promises hold."""

import dataclasses
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from operations import closing, states
from operations.errors import DomainError
from operations.models import Event, Operation
from tests.support import claiming
from tests.support.claiming import MAIL, PUT, SAFE, Agent

pytestmark = pytest.mark.django_db

NUMBERS = st.integers(1, 4)
ACTIONS = st.one_of(
    st.tuples(
        st.just("claim"), st.sampled_from("abc"), st.booleans(), st.sampled_from([None, "t", "u"])
    ),
    st.tuples(st.just("sending"), NUMBERS, st.sampled_from(["t", "u"])),
    st.tuples(
        st.just("report"),
        NUMBERS,
        st.sampled_from(["committed", "unknown", "negative", "final", "replayed", "forged"]),
    ),
    st.tuples(st.just("lapse"), st.booleans()),
    st.tuples(st.just("release"), st.sampled_from(["safe", "replay", "absent", "signed"])),
    st.tuples(st.just("settle"), st.sampled_from(["committed", "absent"])),
    st.tuples(st.just("close"), st.booleans()),
    st.tuples(st.just("wait"), st.sampled_from([30, 3_000, 90_000])),
)

#: Where the interesting histories begin: nothing yet, or a second try beside a doubt.
BEGINNINGS = [
    (),
    (
        ("claim", "a", False, None),
        ("report", 1, "unknown"),
        ("wait", 3_000),
        ("release", "replay"),
        ("release", "signed"),
        ("release", "safe"),
    ),
]


@dataclasses.dataclass
class History:
    """One operation, and what a careful witness knows about its attempts."""

    agent: Agent
    tool: str
    request: Any = None
    answer: Any = None
    tokens: dict[int, str] = dataclasses.field(default_factory=dict)
    ids: dict[int, str] = dataclasses.field(default_factory=dict)
    #: Attempts that may have sent, and of which nothing has proved that they did not.
    doubts: set[int] = dataclasses.field(default_factory=set)
    was_committed: bool = False
    version: int = 0

    def __post_init__(self) -> None:
        self.request = self.agent.call(tool=self.tool)

    @property
    def op(self) -> Operation:
        return self.agent.row(self.answer)

    def do(self, action: tuple[Any, ...]) -> None:
        name, *said = action
        if self.answer is None and name != "claim":
            return
        try:
            getattr(self, name)(*said)
        except DomainError:
            pass
        if self.answer is not None:
            self.check()

    def claim(self, attempt_id: str, fenced: bool, token: str | None) -> None:
        before = self.op if self.answer is not None else None
        call = dataclasses.replace(
            self.request, attempt_id=attempt_id, fenced=fenced, send_token=token
        )
        answer = self.agent.claim(call)
        if answer.status != 201:
            return
        number = answer.body["attempt_number"]
        is_new = before is None or number > before.attempt_number
        self.answer = self.answer or answer
        if is_new and before is not None:
            assert before.state in (states.PENDING, states.INVOKED) or self.tool == SAFE
        if not is_new:
            assert self.ids[number] == attempt_id
        self.ids[number] = attempt_id
        if answer.body["send_within_ms"] is not None:
            assert self.tokens.setdefault(number, token or "") == token
        if not fenced and token is None:
            self.doubts.add(number)
        if number in self.tokens:
            self.doubts.add(number)

    def sending(self, number: int, token: str) -> None:
        done = self.agent.sending(self.answer, token, number)
        assert self.tokens.setdefault(number, token) == token
        assert done["operation"]["state"] == states.INVOKED
        assert done["operation"]["attempt_number"] == number
        self.doubts.add(number)

    def report(self, number: int, what: str) -> None:
        said: dict[str, Any] = {
            "attempt_number": number,
            "attempt_id": "forged" if what == "forged" else self.ids.get(number),
            "send_token": self.tokens.get(number),
        }
        if what in ("committed", "unknown"):
            done = self.agent.report(self.answer, what, **said)
            if what == "committed":
                assert done["operation"]["state"] == states.COMMITTED
            return
        error = {"replayed": what == "replayed"}
        done = self.agent.nothing_happened(
            self.answer, permanent=what in ("final", "replayed"), error=error, **said
        )
        if what == "forged":
            assert done["superseded"]
            return
        # The sender itself says so: that much is proof for this one attempt, where it counted.
        standing = dict(self.op.attempt_set.values_list("number", "standing"))
        self.doubts = {one for one in self.doubts if standing[one] != "no_effect"}

    def lapse(self, swept: bool) -> None:
        claiming.let_lapse(self.op)
        if swept:
            claiming.sweep()

    def release(self, reason: str) -> None:
        claiming.release(self.op, reason, proved_by_class="B")
        if reason in ("safe", "absent"):
            self.doubts.clear()

    def settle(self, what: str) -> None:
        from operations import rows, settling

        with rows.hot_cursor() as cur:
            if what == "committed":
                settling.settle_committed(cur, self.op.id, actor="user:1", provider_ref="pi_1")
            else:
                settling.settle_absent(cur, self.op.id, actor="user:1")
                self.doubts.clear()

    def close(self, cancelled: bool) -> None:
        verb = closing.cancel if cancelled else closing.close
        verb(self.agent.runtime, self.answer.body["idem_key"])

    def wait(self, seconds: int) -> None:
        claiming.age(self.op, seconds)

    def check(self) -> None:
        op = self.op
        standing = dict(op.attempt_set.values_list("number", "standing"))
        live = [number for number, what in standing.items() if what == "live"]
        doubtful = [number for number, what in standing.items() if what == "in_doubt"]
        assert len(live) <= 1
        assert (op.state == states.INVOKED) == (len(live) == 1)
        assert op.version >= self.version
        assert (op.waiting_on is None) == (op.state in states.TERMINAL)
        if self.was_committed:
            assert op.state == states.COMMITTED
        self.was_committed = op.state == states.COMMITTED
        self.version = op.version
        if op.state == states.FAILED:
            assert not doubtful
        if op.state == states.PENDING and doubtful:
            assert op.release_reason in ("replay", "signed")
        if op.state == states.UNKNOWN:
            assert doubtful
        if self.tool != SAFE:
            self.check_no_doubt_is_lost(standing)
        check_ledger(op)

    def check_no_doubt_is_lost(self, standing: dict[int, str]) -> None:
        for number in self.doubts:
            kept: tuple[str, ...] = ("live", "in_doubt", "committed", "covered")
            if self.tool == PUT:
                # A saved failure that the provider replays is proof for every send under the key.
                kept = (*kept, "no_effect")
            assert standing[number] in kept, (number, standing)


def check_ledger(op: Operation) -> None:
    """The events alone tell the state and the version, without a gap."""
    events = list(Event.objects.filter(operation=op).order_by("version"))
    assert [event.version for event in events] == list(range(1, op.version + 1))
    state = None
    for event in events:
        if event.to_state is not None:
            assert event.from_state == state
            assert states.allowed(state, event.to_state, event.type)
            state = event.to_state
    assert state == op.state


@pytest.mark.parametrize("tool", [MAIL, PUT, SAFE])
@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(beginning=st.sampled_from(BEGINNINGS), actions=st.lists(ACTIONS, min_size=3, max_size=14))
def test_whatever_happens_the_promises_hold(
    tool: str, beginning: tuple[Any, ...], actions: list[tuple[Any, ...]]
) -> None:
    claiming.publish(*claiming.TOOLS)
    history = History(Agent(), tool)
    for action in (*beginning, *actions):
        history.do(action)
