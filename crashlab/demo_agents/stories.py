"""What each agent does in its n-th run: drawn from the seed, so that it can be told again."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

VERSIONS = {"agent_version": "2.4.1", "prompt_version": "p18", "code_version": "git:1a2b3c4"}
_NAMES = ("Ada", "Bo", "Chen", "Dara", "Eli", "Femi", "Gita", "Hugo", "Ines", "Jun", "Kofi", "Lea")


@dataclass(frozen=True)
class Step:
    """One call that the model chose. `mishap` is what befalls it the first time; `reworded` is how
    the model puts the arguments when it is asked again after a crash."""

    tool: str
    args: dict[str, Any]
    goal: str
    reason: str
    mishap: str | None = None
    reworded: dict[str, Any] | None = None
    options: dict[str, Any] = field(default_factory=dict)

    def said(self, number: int) -> dict[str, Any]:
        """The model's message, as it is kept with the step."""
        return {"tool_call_id": f"call_{number}", "tool": self.tool, "args": self.args}


@dataclass(frozen=True)
class Story:
    name: str
    run_id: str
    steps: tuple[Step, ...]
    trigger: str | None = None
    budget: dict[str, Any] | None = None
    #: A version that a restarted process runs on, where that is the point.
    restarted_version: str | None = None


def story_of(agent: str, number: int, seed: int) -> Story:
    """The agent's n-th run (from 0): first everything once, then at random."""
    draw = random.Random(f"{seed}/{agent}/{number}")
    overture, later = REPERTOIRE[agent]
    make = overture[number] if number < len(overture) else draw.choice(later)
    story = make(f"run_{agent}_{number:04d}", draw)
    if story.trigger is None:
        story = replace(story, trigger=f"stripe:evt_{agent}_{seed}_{number}")
    return story


def _customer(draw: random.Random) -> str:
    return f"cus_{draw.choice(_NAMES).lower()}{draw.randint(1, 99)}"


def _charge(draw: random.Random, customer: str, mishap: str | None = None, **more: Any) -> Step:
    amount = draw.choice((1900, 4900, 9900, 19900, 49900))
    invoice = f"invoice {draw.randint(100, 999)}"
    args = {"customer": customer, "amount": amount, "currency": "usd", "description": invoice}
    return Step("stripe.charge", args | more, f"renew {customer}", f"{invoice} is due", mishap)


def _lookup(customer: str) -> Step:
    args = {"customer": customer}
    return Step("crm.lookup", args, f"renew {customer}", "who is this, and which plan do they have")


def _mail(customer: str, subject: str, mishap: str | None = None) -> Step:
    to = f"{customer}@example.com"
    body = f"Hello, this is about {subject.lower()}. Thank you for staying with us."
    args = {"to": to, "subject": subject, "body": body}
    return Step("mail.send", args, f"tell {customer}", f"{customer} wants to know", mishap)


def _renewal(mishap: str | None = None, **more: Any) -> Callable[[str, random.Random], Story]:
    def make(run_id: str, draw: random.Random) -> Story:
        customer = _customer(draw)
        charge = _charge(draw, customer, mishap, **more)
        steps = (_lookup(customer), charge, _mail(customer, "Your renewal"))
        return Story(mishap or "renewal", run_id, steps)

    return make


def _reworded(run_id: str, draw: random.Random) -> Story:
    story = _renewal("killed_after_effect")(run_id, draw)
    lookup, charge, mail = story.steps
    words = charge.args | {"amount": charge.args["amount"] / 100, "unit": "dollars"}
    return replace(story, name="reworded", steps=(lookup, replace(charge, reworded=words), mail))


def _redeployed(run_id: str, draw: random.Random) -> Story:
    story = _renewal("killed_before_send")(run_id, draw)
    return replace(story, name="redeployed", restarted_version="2.5.0")


def _duplicate_trigger(run_id: str, draw: random.Random) -> Story:
    story = _renewal()(run_id, draw)
    return replace(story, name="duplicate_trigger", trigger=f"stripe:evt_twice_{run_id[4:8]}")


def _over_budget(run_id: str, draw: random.Random) -> Story:
    customer = _customer(draw)
    steps = tuple(_charge(draw, customer, None) for _ in range(3))
    steps = tuple(replace(step, args=step.args | {"amount": 19900}) for step in steps)
    budget = {"max_spend_minor": 50000, "currency": "USD"}
    return Story("over_budget", run_id, steps, budget=budget)


#: By which the robot among the reviewers knows what is its to decide (see reviewer.VERDICTS).
_GOALS = {"robot_denies": "pay to a blocked account:", "robot_approves": "renew a known customer:"}


def _large(name: str, low: int, high: int) -> Callable[[str, random.Random], Story]:
    def make(run_id: str, draw: random.Random) -> Story:
        customer = _customer(draw)
        charge = _charge(draw, customer)
        amount = draw.randrange(low, high, 500)
        args = charge.args | {"amount": amount, "description": "annual plan"}
        goal = f"{_GOALS.get(name, 'renew')} {customer}"
        charge = replace(charge, args=args, goal=goal)
        return Story(name, run_id, (charge, _mail(customer, "Your annual plan")))

    return make


def _adjustment(run_id: str, draw: random.Random) -> Story:
    account = f"acc_{draw.randint(1000, 9999)}"
    args = {"account": account, "amount": draw.randrange(60000, 90000, 100), "currency": "usd"}
    step = Step("ledger.adjust", args, f"correct {account}", "the books differ by this much")
    return Story("nobody_decides", run_id, (step,))


def _notice(mishap: str | None = None) -> Callable[[str, random.Random], Story]:
    def make(run_id: str, draw: random.Random) -> Story:
        customer = _customer(draw)
        subject = draw.choice(("Your question", "A change of terms", "Your refund", "We are sorry"))
        return Story(
            mishap or "notice", run_id, (_lookup(customer), _mail(customer, subject, mishap))
        )

    return make


def _report(run_id: str, draw: random.Random) -> Story:
    args = {"report": f"revenue-{draw.randint(1, 52):02d}", "seconds": draw.randint(30, 60)}
    step = Step("report.render", args, "weekly numbers", "it is due on Monday")
    return Story("report", run_id, (step,))


Repertoire = tuple[Callable[[str, random.Random], Story], ...]

REPERTOIRE: dict[str, tuple[Repertoire, Repertoire]] = {
    "renewals": (
        (
            _renewal(),
            _renewal("killed_after_effect"),
            _renewal(card="pm_card_chargeDeclined"),
            _redeployed,
            _renewal("sent_twice"),
            _over_budget,
            _reworded,
            _renewal("timeout_after_success"),
            _duplicate_trigger,
            _duplicate_trigger,
            _renewal("lost_response"),
            _renewal("late_commit"),
            _renewal("processing"),
            _renewal("never_arrived"),
        ),
        (
            *(_renewal(),) * 12,
            _renewal("killed_after_effect"),
            _renewal("killed_before_send"),
            _renewal("timeout_after_success"),
            _renewal("lost_response"),
            _renewal("rate_limited"),
            _renewal("rolled_forward"),
            _renewal(card="pm_card_chargeDeclinedInsufficientFunds"),
        ),
    ),
    "payouts": (
        (
            _large("needs_a_person", 150_000, 400_000),
            _large("robot_denies", 150_000, 400_000),
            _large("robot_approves", 150_000, 400_000),
            _adjustment,
            _large("needs_two_people", 1_000_000, 3_000_000),
        ),
        (
            _large("needs_a_person", 150_000, 900_000),
            _large("robot_denies", 150_000, 400_000),
            *(_large("robot_approves", 150_000, 400_000),) * 3,
            _adjustment,
        ),
    ),
    "support": (
        (_notice(), _notice("killed_after_effect"), _notice(), _notice("lost_response")),
        (*(_notice(),) * 20, _notice("killed_after_effect")),
    ),
    "reports": ((), (_report,)),
}
