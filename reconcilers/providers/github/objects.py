"""GitHub's objects as data: where they are, where they carry our key, and what a status says.

Pure. Sources: docs.github.com, "REST API endpoints for deployments" (statuses) and "for issues".
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from reconcilers.evidence import Sighting, Stage

MARKER: Final = "idem_key"
FINGERPRINT: Final = "args_fingerprint"

DONE, OPEN, NOT = Stage.DONE, Stage.IN_FLIGHT, Stage.NOT_REACHED

#: By the newest status of a deployment; `created` where it has none yet.
DEPLOYMENT_STAGES: Final = {
    "created": OPEN,
    "pending": OPEN,
    "queued": OPEN,
    "waiting": OPEN,
    "in_progress": OPEN,
    "success": DONE,
    # It was active, and a later deployment took its place.
    "inactive": DONE,
    "failure": NOT,
    "error": NOT,
}


@dataclass(frozen=True, kw_only=True)
class ObjectType:
    """One kind of object. `number` is the member that its address has."""

    path: str
    number: str
    searchable: bool = False
    has_statuses: bool = False


OBJECTS: Final = {
    "deployment": ObjectType(path="deployments", number="id", has_statuses=True),
    "deployment_request": ObjectType(path="deployments", number="id"),
    "issue": ObjectType(path="issues", number="number", searchable=True),
}

_IN_BODY: Final = re.compile(r"<!--[ \t]*(idem_key|args_fingerprint):[ \t]*(.*?)[ \t]*-->")
_NUMBER: Final = re.compile(r"#?([0-9]{1,19})")


def is_one(kind: str, body: Any) -> bool:
    """Whether a list's member is of the kind: pull requests are listed among issues."""
    number = body.get(OBJECTS[kind].number) if isinstance(body, dict) else None
    if not isinstance(number, int) or isinstance(number, bool):
        return False
    return kind != "issue" or "pull_request" not in body


def number_of(reference: str, kind: str, repository: str) -> str | None:
    """The number that an id known to us names: bare, `#42`, `owner/name#42`, or an address.

    None where it names none, or one of another repository or kind.
    """
    alone = _NUMBER.fullmatch(reference)
    if alone:
        return alone[1]
    before, separator, number = reference.replace("#", "/").rpartition("/")
    if not separator or not _NUMBER.fullmatch(number):
        return None
    before = before.lower()
    ours = repository.lower()
    if before == ours or before.endswith(f"/{ours}/{OBJECTS[kind].path}"):
        return number
    return None


def texts_of(kind: str, body: Mapping[str, Any]) -> dict[str, str]:
    """Our texts in the object: in a deployment's payload, in comments of an issue's body."""
    if kind == "issue":
        texts: dict[str, str] = {}
        for name, text in _IN_BODY.findall(str(body.get("body") or "")):
            # The first counts: what somebody quotes comes further down.
            texts.setdefault(name, text)
        return texts
    payload = body.get("payload")
    if isinstance(payload, str):
        try:
            payload = json.loads(payload)
        except ValueError:
            return {}
    if not isinstance(payload, dict):
        return {}
    found = {name: payload.get(name) for name in (MARKER, FINGERPRINT)}
    return {name: text for name, text in found.items() if isinstance(text, str) and text}


def sighting_of(
    kind: str,
    body: Mapping[str, Any],
    statuses: Sequence[Mapping[str, Any]] = (),
    *,
    verified: bool,
    reported: str = "",
) -> Sighting:
    """One object with its statuses. `reported` is the id under which it was reported, if it was.

    A status that is not known counts as still open.
    """
    texts = texts_of(kind, body)
    number = str(body[OBJECTS[kind].number])
    status, stage = _standing(kind, body, statuses)
    marker = texts.get(MARKER)
    return Sighting(
        # Without a marker only the reported name ties it to the call: the verdict compares that.
        id=reported if marker is None and reported else number,
        kind=kind,
        status=status,
        stage=stage,
        marker=marker,
        verified=verified,
        fingerprint=texts.get(FINGERPRINT),
        detail=_detail(body) if OBJECTS[kind].path == "deployments" else "",
        created_at=moment(body.get("created_at")),
    )


def _standing(
    kind: str, body: Mapping[str, Any], statuses: Sequence[Mapping[str, Any]]
) -> tuple[str, Stage]:
    if kind == "issue":
        return str(body.get("state") or "exists"), DONE
    if kind == "deployment_request":
        return "exists", DONE
    newest = max(statuses, key=lambda each: (str(each.get("created_at")), _id(each)), default=None)
    status = "created" if newest is None else str(newest.get("state") or "")
    return status, DEPLOYMENT_STAGES.get(status, OPEN)


def _id(body: Mapping[str, Any]) -> int:
    number = body.get("id")
    return number if isinstance(number, int) else 0


def _detail(body: Mapping[str, Any]) -> str:
    parts = [f"{name} {body[name]}" for name in ("environment", "task") if body.get(name)]
    return ", ".join(parts)[:200]


def moment(text: Any) -> datetime | None:
    """A time as GitHub writes it; None where it is none."""
    try:
        found = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return found if found.tzinfo is not None else None
