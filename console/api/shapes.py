"""Request bodies as the contract has them, and the dataclasses they become."""

import re
from collections.abc import Mapping
from typing import Any, Final

from console.api import problems
from console.api.fields import (
    BIG_INTEGER_MAX,
    Shape,
    anything,
    boolean,
    integer,
    many,
    one_of,
    required,
    text,
)
from operations import canonical
from operations.canonical import InvalidJson, Member

TOOL: Final = r"[A-Za-z0-9_.:/-]{1,200}"
IDEM_KEY: Final = r"(?!\.{1,2}\Z)[A-Za-z0-9_.:-]{1,255}"

_is_idem_key = re.compile(IDEM_KEY, re.ASCII).fullmatch

tool_name = text(1, 200, TOOL, says="1 to 200 of A-Z a-z 0-9 _ . : / -")
idem_key = text(1, 255, IDEM_KEY, says="1 to 255 of A-Z a-z 0-9 _ . : - and neither . nor ..")
send_token = text(1, 255)
attempt_number = integer(1)
lease_seconds = integer(1, 3600)

_BUDGET = Shape(
    max_steps=integer(),
    max_spend_minor=integer(0, BIG_INTEGER_MAX),
    currency=text(3, 3, r"[A-Za-z]{3}", says="an ISO 4217 code of three letters"),
)
RUN = Shape(
    id=required(text(1, 512)),
    agent=required(text()),
    agent_version=text(),
    prompt_version=text(),
    code_version=text(),
    trigger=text(1, 255),
    budget=_BUDGET.field(),
)
ATTEMPT = Shape(id=text(), layer=text(1, 64), worker=text())

CLAIM = Shape(
    run=required(RUN.field()),
    step=required(integer()),
    tool_call_id=text(0, 1024),
    position=integer(),
    tool=required(tool_name),
    args=anything("The arguments: any JSON value, read strictly. This or `args_raw`."),
    args_raw=text(1, 1024 * 1024, nul=True, says="the exact JSON text of the args"),
    args_fingerprint=text(1, 128),
    redacted=many(text(0, 1024, nul=True), 1000),
    goal=text(1, 2048),
    reason=text(0, 65536, nul=True),
    model_output=anything("What the model said, kept for replays."),
    attempt=ATTEMPT.field(),
    lease_seconds=lease_seconds,
    fenced=boolean(),
    send_token=send_token,
    executor=text(1, 255),
    compensates=text(),
    idem_key=idem_key,
)

_ERROR = Shape(
    type=text(0, 255),
    message=text(0, 65536, nul=True),
    http_status=integer(0, 999),
    replayed=boolean(),
)
OUTCOME = Shape(
    attempt_number=required(attempt_number),
    attempt_id=text(),
    send_token=send_token,
    outcome=required(one_of("committed", "failed", "unknown")),
    effect=text(1, 64, says='"none" where it is certain that nothing happened'),
    permanent=boolean(),
    error=_ERROR.field(),
    result=anything("Any JSON value: what the provider answered."),
    provider_ref=text(1, 512),
    effect_status=text(),
)
SENDING = Shape(attempt_number=required(attempt_number), send_token=required(send_token))
HEARTBEAT = Shape(attempt_number=required(attempt_number), lease_seconds=lease_seconds)
NOTHING = Shape()

GRANT = Shape(claim_id=required(text()))
CONSUME = Shape(claim_id=required(text()), args_fingerprint=required(text(1, 128)))
STATEMENT = Shape(verdict=required(one_of("approve", "deny")), reason=text(0, 4096))
DECISION = Shape(statement_id=required(text()), sshsig=required(text(1, 65536)))


def is_idem_key(key: str) -> bool:
    """Whether an operation can have this key; the derived ones and those of runtimes."""
    return _is_idem_key(key) is not None


def members_of(body: bytes) -> dict[str, Member]:
    """The members of a body that is one JSON object.

    What makes only the args ambiguous is INVALID_ARGS; a text that is no JSON, or is ambiguous
    elsewhere, is MALFORMED_JSON.
    """
    try:
        return canonical.parse_members(body)
    except InvalidJson as fault:
        raise refusal_of(fault) from None


def refusal_of(fault: InvalidJson) -> problems.Problem:
    """The problem that a fault in a body's JSON becomes."""
    detail = f"{fault.reason[:1].upper()}{fault.reason[1:]}."
    if fault.kind == "type":
        return problems.invalid(f"The body {fault.reason}.", fault.pointer)
    pointer = "/args" if fault.pointer == "/args_raw" else fault.pointer
    inside_args = pointer == "/args" or pointer.startswith("/args/")
    if inside_args and fault.kind not in ("syntax", "encoding"):
        return problems.invalid_args(detail, pointer)
    return problems.malformed(detail, fault.pointer)


def read(shape: Shape, body: bytes) -> tuple[dict[str, Any], dict[str, Member]]:
    """A body's checked values, and its members with their exact text. No body is `{}`."""
    members = members_of(body or b"{}")
    return shape.read({name: member.value for name, member in members.items()}), members


def args_of(
    values: Mapping[str, Any], members: Mapping[str, Member], *, needed: bool = True
) -> tuple[Any, bytes]:
    """The parsed args and their exact text, from `args` or from `args_raw`."""
    if "args_raw" in values:
        if "args" in values:
            raise problems.invalid("Send `args` or `args_raw`, not both.", "/args_raw")
        text_of_args: str = values["args_raw"]
        try:
            return canonical.parse_strict(text_of_args, "/args"), text_of_args.encode()
        except InvalidJson as fault:
            raise problems.invalid_args(f"{fault.reason}.", fault.pointer) from None
    # Elsewhere null means left out; arguments that are null are arguments, and have a fingerprint.
    if "args" not in members and needed:
        raise problems.invalid("'args' (or 'args_raw') is required.", "/args")
    member = members["args"]
    return member.value, member.raw
