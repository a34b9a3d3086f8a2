"""Messages from providers: `POST /hooks/<kind>/<account>`. Stored first, worked on afterwards."""

from typing import Final

from console.api import problems
from console.api.requests import Answer, Request
from reconcilers import inbox
from reconcilers.keyring import Unreadable
from reconcilers.providers.hooks import HookRefused

#: Stripe's largest events are some tens of KiB.
LIMIT: Final = 512 * 1024


def receive(request: Request) -> Answer:
    """The signature is checked over the raw body, the body stored, and 200 answered.

    400 where the signature does not hold: the provider tries again, and the count is seen on the
    reconcilers page. 503 where nothing could be stored.
    """
    headers = {name.decode("latin-1"): value.decode("latin-1")
               for name, value in request.headers.items()}  # fmt: skip
    try:
        received = inbox.receive(
            request.params["kind"], request.params["account"], headers, request.body
        )
    except inbox.NoSuchAddress:
        raise problems.not_found("There is no such address for messages.") from None
    except HookRefused as refused:
        raise problems.Problem(
            400, "INVALID_SIGNATURE", "The signature does not hold", str(refused),
            cause=refused.cause,
        ) from None  # fmt: skip
    except Unreadable as sealed:
        raise problems.unavailable(f"{sealed}; nothing was stored.") from None
    return Answer(
        200,
        {"event": received.event_id, "standing": received.standing, "times": received.times},
    )
