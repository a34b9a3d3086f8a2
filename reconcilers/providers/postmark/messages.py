"""Messages as sightings: what a status and its events say about the effect. Pure.

The effect of sending is that the mail left. What a recipient's server answers later is a later
fact, except that a mail which every recipient's server has refused was never delivered to anybody.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from reconcilers.evidence import Sighting, Stage

MARKER: Final = "idem_key"
FINGERPRINT: Final = "args_fingerprint"

#: A metadata value holds no more characters (Postmark, "Custom metadata").
LONGEST_VALUE: Final = 80

DONE, OPEN, NOT = Stage.DONE, Stage.IN_FLIGHT, Stage.NOT_REACHED

#: By `Status` of the message's details, before its events are looked at.
STAGES: Final = {"queued": OPEN, "processed": DONE, "sent": DONE}

#: Events after which it is known that the recipient's server took the mail.
_ARRIVED: Final = frozenset({"Delivered", "Opened", "LinkClicked"})


def sighting_of(body: Mapping[str, Any], *, marker_in: str, verified: bool) -> Sighting:
    """One message; a status that is not known counts as still open."""
    metadata = body.get("Metadata")
    known = metadata if isinstance(metadata, dict) else {}
    status, stage, detail = _standing(body)
    sandboxed = body.get("Sandboxed")
    return Sighting(
        id=str(body["MessageID"]),
        kind="email",
        status=status,
        stage=stage,
        marker=_text(body.get("Tag") if marker_in == "tag" else known.get(MARKER)),
        verified=verified,
        fingerprint=_text(known.get(FINGERPRINT)),
        mode="" if sandboxed is None else "test" if sandboxed else "live",
        detail=detail,
        created_at=_moment(body.get("ReceivedAt")),
    )


def may_be_ours(hit: Mapping[str, Any], marker: str, marker_in: str) -> bool:
    """Whether a search's hit is worth reading: filters may be coarse, and hits may be brief."""
    member = "Tag" if marker_in == "tag" else "Metadata"
    if member not in hit:
        return True
    return sighting_of(hit, marker_in=marker_in, verified=False).marker == marker


def _standing(body: Mapping[str, Any]) -> tuple[str, Stage, str]:
    """(status, stage, detail), the events taken together over all recipients."""
    status = str(body.get("Status") or "").lower()
    stage = STAGES.get(status, OPEN)
    events = body.get("MessageEvents")
    told = [each for each in events if isinstance(each, dict)] if isinstance(events, list) else []
    if stage is not DONE or not told:
        return status, stage, ""
    everyone = {_recipient(name) for name in body.get("Recipients") or []}
    arrived = {_recipient(each.get("Recipient")) for each in told if each.get("Type") in _ARRIVED}
    bounced = {_recipient(each.get("Recipient")) for each in told if each.get("Type") == "Bounced"}
    bounced -= arrived
    refused = f"bounced for {len(bounced)} of {len(everyone | bounced)}" if bounced else ""
    if bounced and everyone <= bounced:
        return "bounced", NOT, refused
    return ("delivered" if arrived else status), DONE, refused


def _recipient(name: Any) -> str:
    return str(name).strip().lower()


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _moment(text: Any) -> datetime | None:
    try:
        moment = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else None
