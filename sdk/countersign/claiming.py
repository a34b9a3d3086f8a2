"""Claiming: the same claim again and again until it is answered, and never a claim forgotten."""

import time
from dataclasses import dataclass

from countersign import messages
from countersign.asking import Console, asking, leave_to_relay
from countersign.calls import Call, Ticket
from countersign.spool import Report
from countersign.steps import Reply, Send, Steps


@dataclass
class Progress:
    """What one guarded call has been through so far."""

    deadline: float
    ticket: Ticket
    attempts_left: int
    attempts_made: int = 0
    #: A claim may have been granted without our hearing of it; nothing was sent under it.
    unheard: bool = False
    #: Why the last attempt did not end in a result.
    cause: BaseException | None = None

    @classmethod
    def start(cls, call: Call) -> "Progress":
        return cls(
            time.monotonic() + call.timeout,
            Ticket.fresh(call.options.get("attempt_id")),
            max(1, call.options.get("attempts", 3)),
        )

    def left(self) -> float:
        return self.deadline - time.monotonic()

    def missed(self, reply: Reply) -> None:
        """A claim went unanswered. UNAVAILABLE says that nothing was stored; anything else may have
        been a grant."""
        self.unheard = self.unheard or (reply.reached and reply.code != "UNAVAILABLE")


def claiming(console: Console, call: Call, progress: Progress) -> Steps[Reply]:
    """The console's answer to a claim. Asking again with the same ticket is the same claim, so a
    lost answer costs nothing. Raises ConsoleUnavailable; the call was not executed then."""
    send = Send("POST", "/api/v1/operations", messages.claim_body(call, progress.ticket))
    try:
        reply = yield from asking(
            console, send, give_up_after=console.claim_seconds, unanswered=progress.missed
        )
    except BaseException:
        progress.unheard = True
        disown(console, call, progress)
        raise
    if not reply.passing:
        return reply
    disown(console, call, progress)
    raise messages.refusal(reply, call) from progress.cause


def disown(console: Console, call: Call, progress: Progress) -> None:
    """Where a claim's answer was never heard: leaves word that it was not executed, or its permit
    would put the operation in doubt. The relay finds out which attempt it was."""
    if not progress.unheard:
        return
    body = vars(progress.ticket)
    name = console.spool.keep(Report("disown", messages.path_of(call.idem_key), dict(body)))
    leave_to_relay(console, name)
    progress.unheard = False
    progress.ticket = Ticket.fresh()
