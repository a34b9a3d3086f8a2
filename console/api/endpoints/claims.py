"""Claiming: "may I execute this call?"."""

import time
from typing import Final

from approvals import admission
from console.api import claim_bodies
from console.api.requests import Answer, Request
from operations.claims import Answer as Admitted
from operations.first_claims import PlainClaim

#: The sequencer is woken by a decision; where it is away, the claim is answered 202 after this.
_SEALING_SECONDS: Final = 0.5
_LOOK_AGAIN_SECONDS: Final = 0.02


def member(request: Request) -> PlainClaim | None:
    """The claim, if it may be carried out together with others."""
    return admission.plain(claim_bodies.claim_request(request.body), request.runtime)


def claim(request: Request) -> Answer:
    """`POST /api/v1/operations`."""
    runtime = request.runtime
    asked = claim_bodies.claim_request(request.body)
    answer = admission.admit(asked, runtime)
    # Decided, and on its way into the log: whoever comes right after the decision is not sent away.
    patience = time.monotonic() + _SEALING_SECONDS
    while _is_being_sealed(answer) and time.monotonic() < patience:
        time.sleep(_LOOK_AGAIN_SECONDS)
        answer = admission.admit(asked, runtime)
    return Answer(answer.status, answer.body, answer.headers)


def _is_being_sealed(answer: Admitted) -> bool:
    return answer.status == 202 and answer.body["operation"]["waiting_on"] == "sealing"
