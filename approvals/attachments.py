"""What a resolution names only by its digest: the object as the provider showed it before anybody
signed, and the arguments of the call that is to undo this one.
"""

import json
import re
from collections.abc import Buffer, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

from approvals import display, statements
from approvals.display import Display
from approvals.errors import Refused
from approvals.models import PendingStatement
from approvals.refusals import SignatureRefused
from operations import canonical

_TOOL: Final = re.compile(r"[A-Za-z0-9_.:/-]{1,200}")


@dataclass(frozen=True)
class Undoing:
    """The call that a compensation makes: a tool, and the exact JSON text of its arguments."""

    tool: str
    args_raw: bytes


def undoing(tool: str, args: str) -> Undoing:
    """Read what a person typed; raises Refused with the field that is wrong."""
    if not _TOOL.fullmatch(tool.strip()):
        raise Refused("VALIDATION_ERROR", "Name the tool that undoes it.", pointer="/tool")
    try:
        parsed = canonical.parse_strict(args)
    except canonical.InvalidJson as fault:
        raise Refused(
            "VALIDATION_ERROR", f"The arguments are no JSON that can be kept: {fault}.",
            pointer="/args",
        ) from None  # fmt: skip
    return Undoing(tool.strip(), canonical.canonicalize(parsed))


def shown(undoing: Undoing) -> Display:
    """The call that undoes, leaf by leaf, as the page shows it."""
    facts = {"tool": json.dumps(undoing.tool, ensure_ascii=False)}
    return display.render(facts, canonical.parse_strict(undoing.args_raw), ())


def undoing_of(pending: PendingStatement) -> Undoing | None:
    """The compensation that a statement is about, as it was typed."""
    predicate = statements.parse(bytes(pending.statement), statements.RESOLUTION)["predicate"]
    signed = predicate["compensation"]
    if signed["tool"] is None:
        return None
    raw = bytes(pending.attachment or b"")
    if sha256(raw).hexdigest() != signed["args_sha256"]:
        raise SignatureRefused("compensation.args", "the arguments are not those that were shown")
    return Undoing(signed["tool"], raw)


def attach(
    choice: str, fetched: Mapping[str, Any] | None, compensation: Undoing | None
) -> tuple[bytes | None, dict[str, str]]:
    """What is kept beside the statement, and its digest by the member that names it."""
    if choice == "compensate":
        if compensation is None:
            raise Refused("VALIDATION_ERROR", "Name the tool that undoes it.", pointer="/tool")
        return compensation.args_raw, {"args": sha256(compensation.args_raw).hexdigest()}
    if fetched is None:
        return None, {}
    document = canonical.canonicalize(dict(fetched))
    return document, {"object": sha256(document).hexdigest()}


def digest_or_none(kept: Buffer | None) -> str | None:
    return sha256(bytes(kept)).hexdigest() if kept is not None else None
