"""Seeded operations with every fault on: what is done to each, and who is right about it."""

import random
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import stripe
from django.db import connection

from operations.models import Event
from tests.support.reconciling import CHARGE, IDEMPOTENT, Call, World

#: Name -> (weight, what happens to the write). Short delays stand for long ones.
STORIES: dict[str, tuple[int, dict[str, Any]]] = {
    "well": (4, {}),
    "response lost": (6, {"drop": "after"}),
    "never arrived": (6, {"drop": "before"}),
    "answered too late": (2, {"hold_seconds": 1.4}),
    "committed late": (3, {"commit_after_seconds": 2.0, "drop": "before"}),
    "committed after the settle point": (2, {"commit_after_seconds": 25.0, "drop": "before"}),
    "500, nothing happened": (2, {"error_500": "none"}),
    "500, and it happened": (2, {"error_500": "now"}),
    "500, rolled forward": (2, {"error_500": "later", "later_seconds": 2.0}),
    "rate limited": (2, {"status": 429, "retry_after": 1}),
    "objects locked": (1, {"status": 429, "code": "lock_timeout"}),
    "key refused": (1, {"status": 401}),
    "processing, then done": (2, {"processing": True, "processing_seconds": 2.0}),
    "processing for days": (1, {"processing": True}),
    "not in search": (2, {"drop": "after", "search_lag_seconds": 600}),
}
WEBHOOKS = (
    "lost", "lost", "twice", "reversed", "wrong_mode", "wrong_account", "altered", "forged",
    "stale", None, None,
)  # fmt: skip
MONEY = {"amount": 25_000, "currency": "usd"}
#: Tool -> (facts, how its call is made).
TOOLS: dict[str, tuple[dict[str, Any], str]] = {
    "charge": (CHARGE, "payment_intents"),
    "idempotent": (IDEMPOTENT, "payment_intents"),
    "searched": (CHARGE | {"lookups": ["search"]}, "payment_intents"),
    "listened": (CHARGE | {"lookups": ["events"]}, "payment_intents"),
    "transfer": (CHARGE | {"provider_object": "transfer"}, "transfers"),
    "payout": (CHARGE | {"provider_object": "payout"}, "payouts"),
}
_PARAMS: dict[str, dict[str, Any]] = {
    "payment_intents": {"confirm": True, "payment_method": "pm_card_visa"},
    "transfers": {"destination": "acct_1"},
    "payouts": {},
}
#: What reads meet, by the number of the read.
READ_FAULTS: tuple[tuple[dict[str, Any], int], ...] = (
    ({"status": 500}, 11),
    ({"status": 429, "retry_after": 0.3}, 13),
    ({"drop": "after"}, 17),
    ({"latency_ms": 150}, 7),
)


@dataclass
class Case:
    """One operation, its story, and what the agent saw of it."""

    call: Call
    tool: str
    story: str
    seen: str = ""
    sends: int = 0
    refs: list[str] = field(default_factory=list)

    def send(self) -> None:
        """Make the call once, as the tool does, and keep what came back."""
        self.sends += 1
        service = TOOLS[self.tool][1]
        params = MONEY | _PARAMS[service] | {"metadata": {"idem_key": self.call.key}}
        api = getattr(self.call.world.stripe.v1, service)
        try:
            made = api.create(params, {"idempotency_key": self.call.key})
        except stripe.StripeError as problem:
            self.seen = f"{problem.http_status or 'no answer'}"
            return
        self.refs.append(made.id)
        done = getattr(made, "status", "succeeded") in {"succeeded", "paid"}
        self.seen = "done" if done else "open"

    def report(self) -> None:
        """What an honest runtime says: done, or that it does not know."""
        if self.seen == "done":
            self.call.report("committed", provider_ref=self.refs[-1])
            return
        known: dict[str, Any] = {"provider_ref": self.refs[-1]} if self.refs else {}
        error: dict[str, Any] = {"type": "lost", "message": self.seen}
        if self.seen.isdigit():
            error["http_status"] = int(self.seen)
        self.call.report("unknown", error=error, **known)


class Soak:
    """A seeded run over some worlds (accounts)."""

    def __init__(self, worlds: Sequence[World], *, seed: int) -> None:
        self.worlds = worlds
        self.dice = random.Random(seed)
        self.cases: list[Case] = []

    def begin(self, count: int) -> None:
        """Claim and send `count` operations, each with a story; report what was seen."""
        names = list(STORIES)
        weights = [STORIES[name][0] for name in names]
        for _ in range(count):
            tool = self.dice.choice(list(TOOLS))
            story = self.dice.choices(names, weights)[0]
            world = self.dice.choice(self.worlds)
            case = Case(world.claim(tool), tool, story)
            action: dict[str, Any] = dict(STORIES[story][1])
            if story == "committed after the settle point":
                action["webhooks"] = None  # Nothing else would ever tell of it in time.
            else:
                action["webhooks"] = self.dice.choice(WEBHOOKS)
                action["webhook_delay_seconds"] = self.dice.choice((0, 0, 0.5, 2.0))
            world.simulator.fault(action, times=1, method="POST", idem_key=case.call.key)
            self.cases.append(case)
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(Case.send, self.cases))
        for case in self.cases:
            case.report()

    def let_settle_points_pass(self, seconds: float = 2000) -> None:
        """Everything that the attempts did was that much earlier."""
        ids = [case.call.id for case in self.cases]
        with connection.cursor() as cur:
            cur.execute("SET session_replication_role = replica")
            cur.execute(
                "UPDATE operations_attempt SET emits_until = emits_until - make_interval(secs =>"
                " %s), permit_at = permit_at - make_interval(secs => %s)"
                " WHERE operation_id = ANY(%s)",
                (seconds, seconds, ids),
            )
            cur.execute(
                "UPDATE operations_operation SET first_sent_at = first_sent_at"
                " - make_interval(secs => %s) WHERE id = ANY(%s)",
                (seconds, ids),
            )
            cur.execute("SET session_replication_role = DEFAULT")

    def let_reads_be_older(self, seconds: float = 6) -> None:
        """So that the next read is far enough from the last to agree with it."""
        with connection.cursor() as cur:
            cur.execute(
                "UPDATE reconcilers_finding"
                " SET started_at = started_at - make_interval(secs => %s),"
                " ended_at = ended_at - make_interval(secs => %s) WHERE lookup <> 'webhook'",
                (seconds, seconds),
            )

    def again(self) -> int:
        """Execute anew what was released, as the runtime does: the same call under its own key."""
        redone = [
            case
            for case in self.cases
            if case.story != "committed after the settle point"
            and case.call.operation.state == "PENDING"
        ]
        for case in redone:
            case.call = case.call.again()
            assert case.call.answer["decision"] == "execute", case.call.answer
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(Case.send, redone))
        for case in redone:
            case.report()
        return len(redone)


def judge(case: Case, effects: list[dict[str, Any]]) -> list[str]:
    """What is wrong with one operation, by the provider's own book; empty where nothing is."""
    op = case.call.operation
    wrong = []
    if len(effects) > 1:
        wrong.append(f"{len(effects)} effects")
    if op.state == "COMMITTED":
        if not effects:
            wrong.append("committed, and nothing happened")
        elif op.provider_ref != effects[0]["object_id"]:
            wrong.append(f"committed by {op.provider_ref}, and it was {effects[0]['object_id']}")
    elif effects and op.state in {"FAILED", "PENDING", "INVOKED"}:
        wrong.append(f"{op.state}, and it happened")
    if op.state == "UNKNOWN":
        verdict = op.verdict or {}
        if not verdict.get("sentence"):
            wrong.append("unknown, and nobody says why")
        if case.call.due is None or case.call.due.due_at is None:
            wrong.append("unknown, and no look is due")
        open_for_good = case.story == "processing for days" or case.tool in {"searched", "listened"}
        if effects and not open_for_good:
            wrong.append(f"unknown ({verdict.get('kind')}), and it happened")
    for event in Event.objects.filter(operation=case.call.id):
        said_absent = event.data.get("reason") == "absent" or event.data.get("failure") == "absent"
        if said_absent and any(effect["at"] < event.at.timestamp() for effect in effects):
            wrong.append("said to be absent when it had happened")
    return wrong
