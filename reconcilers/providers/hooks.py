"""What a provider's own messages to us look like once their signature holds.

A message is a hint: it says that somebody should look. What it claims is never believed.
"""

from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Final

from reconcilers.evidence import Sighting

#: Why a delivery was refused, and what to do about it; nothing of it was kept but this count.
CAUSES: Final = {
    "no_secret": "This account has no webhook secret, so nobody's signature can be checked.",
    "no_signature": "It carried no signature: it did not come from the provider.",
    "no_match": (
        "The signature fits no secret of this account: the endpoint's secret was changed, or"
        " something on the way rewrote the body."
    ),
    "other_account": "It is signed with the secret of another account: the endpoints are mixed up.",
    "stale": "It was signed too long ago: a clock is wrong, or somebody replays it.",
    "not_text": "The body is not UTF-8 text.",
}


class HookRefused(Exception):
    """A delivery whose signature does not hold; `cause` is one of CAUSES."""

    def __init__(self, cause: str, detail: str = "") -> None:
        super().__init__(CAUSES[cause])
        self.cause = cause
        self.detail = detail


class NoHooks(LookupError):
    """This provider sends nothing."""


@dataclass(frozen=True, kw_only=True)
class Hook:
    """One verified message.

    `unreadable` says what is missing, where it is not what it should be; it is kept all the same.
    `marker` is our key as the object itself holds it, `request_key` the key of the request that
    caused it. `change` is a digest of what the object looked like: two messages of one type about
    one object with one `change` are the same news. `account` is empty where it names none.
    """

    event_id: str
    type: str
    sighting: Sighting | None = None
    change: bytes = b""
    marker: str | None = None
    request_key: str | None = None
    mode: str = ""
    account: str = ""
    api_version: str = ""
    happened_at: datetime | None = None
    unreadable: str = ""

    @classmethod
    def illegible(cls, body: bytes, why: str) -> "Hook":
        """Signed and yet not to be read: known by its bytes alone."""
        return cls(event_id=f"sha256:{sha256(body).hexdigest()}", type="", unreadable=why)
