"""Asking the console and trying again: one layer of retries, and reports that are never lost."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from countersign import backoff, messages
from countersign.calls import Lease
from countersign.spool import Report, Spool
from countersign.steps import Pause, Reply, Send, Steps, Work


class Backstage:
    """What goes on behind a call: heartbeats and the relay of spooled reports (see background)."""

    def watch(self, lease: Lease) -> None: ...
    def unwatch(self, lease: Lease) -> None: ...
    def deliver_soon(self) -> None: ...


@dataclass(frozen=True)
class Console:
    """Everything that the protocol needs besides the call itself."""

    spool: Spool
    backstage: Backstage
    budget: backoff.RetryBudget
    #: How long a claim tries to reach the console before it raises ConsoleUnavailable.
    claim_seconds: float = 30.0
    #: How long a report is tried before it is left to the relay.
    report_seconds: float = 5.0
    #: How long one long poll waits.
    poll_seconds: int = 30
    #: The issuer's keys, where grants are to be checked here, too.
    grant_keys: Mapping[str, Any] | None = None


def asking(
    console: Console,
    send: Send,
    *,
    give_up_after: float,
    unanswered: Callable[[Reply], None] = lambda reply: None,
) -> Steps[Reply]:
    """The console's answer; the last one, where trying again for so many seconds did not help.

    `unanswered` is told of every try that got no answer of the console's own.
    """
    began = time.monotonic()
    number = 0
    while True:
        reply: Reply = yield send
        if not reply.passing:
            console.budget.succeeded()
            return reply
        unanswered(reply)
        number += 1
        pause = backoff.pause_before(number, reply.retry_after)
        late = time.monotonic() - began + pause > give_up_after
        if late or not console.budget.spend():
            return reply
        yield Pause(pause)


def reporting(
    console: Console, report: Report, *, give_up_after: float | None = None
) -> Steps[Reply]:
    """Stores the report, then delivers it; what is not delivered is left to the relay.

    An answer that is no success and no failure of the moment is the console's last word on it: the
    report is put aside, and the answer returned.
    """
    name: str = yield Work(lambda: console.spool.keep(report))
    seconds = console.report_seconds if give_up_after is None else give_up_after
    send = Send("POST", report.path, messages.encode(report.body))
    try:
        reply = yield from asking(console, send, give_up_after=seconds)
    except BaseException:
        leave_to_relay(console, name)
        raise
    verdict = settled(reply)
    if verdict is None:
        leave_to_relay(console, name)
    elif verdict:
        yield Work(lambda: console.spool.discard(name))
    else:
        yield Work(lambda: console.spool.refuse(name, reply.said()))
    return reply


def leave_to_relay(console: Console, name: str) -> None:
    console.spool.release(name)
    console.backstage.deliver_soon()


def settled(reply: Reply) -> bool | None:
    """True where the console has the report, False where it never will, None for later.

    404 has it: reports for keys that are not known yet go into the console's inbox.
    """
    if reply.ok or reply.status in (404, 409):
        return True
    if reply.passing or reply.status in (401, 403, 429):
        return None
    return False
