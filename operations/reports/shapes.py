"""Reading one record: known fields, right types, strict args, and which call it is about. Pure."""

import json
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import lru_cache
from hashlib import sha256
from typing import Any, Final

from operations import canonical
from operations.canonical import InvalidJson
from operations.models.reports import RECORD_TYPES
from operations.reports.reported import Malformed, Reported, RunSaid
from operations.reports.splitting import Parsed, as_received

_TOOL = re.compile(r"[A-Za-z0-9_.:/-]{1,200}").fullmatch
_IDEM_KEY = re.compile(r"(?!\.{1,2}\Z)[A-Za-z0-9_.:-]{1,255}").fullmatch
_CURRENCY = re.compile(r"[A-Za-z]{3}").fullmatch
_INTEGER_MAX: Final = 2**31 - 1
_BIGINT_MAX: Final = 2**63 - 1
_TYPES: Final = frozenset(RECORD_TYPES)
_RUN_TYPES: Final = frozenset({"RUN_STARTED", "RUN_FINISHED"})
_STEP_TYPES: Final = frozenset({"LLM_RESPONDED", "STEP_COMPLETED"})
_RUN_TEXTS: Final = ("agent", "agent_version", "prompt_version", "code_version", "trigger")
_RUN_FIELDS: Final = frozenset({"id", "budget", *_RUN_TEXTS})
_ATTEMPT_FIELDS: Final = frozenset({"id", "layer", "worker"})
_BUDGET_FIELDS: Final = frozenset({"max_steps", "max_spend_minor", "currency"})


def read_record(found: str | Parsed) -> Reported:
    """One record of a batch; what is wrong in itself comes back as malformed, with a pointer.

    A record without a usable id is given one made from its content, so that it is kept once.
    """
    if isinstance(found, Parsed):
        text, values = found
    else:
        text = found
        try:
            values = canonical.parse_object(text)
        except InvalidJson as fault:
            said = Reported(as_received(text), _readable_id(text))
            said.spoil(_code_of(fault), fault.pointer)
            return _with_id(said)
    said = Reported(text.encode(), _usable_id(values.get("record_id")), text=text)
    try:
        _read(said, values)
    except Malformed as problem:
        said.spoil(problem.code, problem.pointer)
    if not said.record_id:
        said.spoil("VALIDATION_ERROR", "/record_id")
    return _with_id(said)


def _with_id(said: Reported) -> Reported:
    said.record_id = said.record_id or f"sha256:{said.sha256.hex()}"
    said.kept_as = said.record_id
    return said


def _read(said: Reported, values: Mapping[str, Any]) -> None:
    are_known = False
    for name, value in values.items():
        check = _CHECKS.get(name)
        if check is None:
            if not are_known:
                _known(values, _FIELDS, "")
                are_known = True
        elif value is not None:
            setattr(said, name, check(value, f"/{name}"))
    if said.type is None or said.run is None:
        raise Malformed("VALIDATION_ERROR", "/type" if said.type is None else "/run")
    said.error = values.get("error")
    said.has_model_output = values.get("model_output") is not None
    if values.get("attempt") is not None:
        _read_attempt(said, values["attempt"])
    _read_args(said, values)
    if values.get("result") is not None:
        said.result_sha256 = sha256(canonical.canonicalize(values["result"])).digest()
    if said.type in _RUN_TYPES:
        return
    if said.step is None:
        raise Malformed("VALIDATION_ERROR", "/step")
    if said.type not in _STEP_TYPES:
        _read_call(said, said.run.id, said.step)


def _read_call(said: Reported, run_id: str, step: int) -> None:
    """Which operation the record is about. An id that is missing is stood in for, never guessed."""
    if said.tool is None:
        raise Malformed("VALIDATION_ERROR", "/tool")
    if not said.tool_call_id:
        said.id_missing = said.position is None
        if said.position is not None:
            said.tool_call_id = f"#{said.position}"
        elif said.args_fingerprint is not None:
            said.tool_call_id = f"#fp:{said.args_fingerprint}"
        else:
            raise Malformed("TOOL_CALL_ID_MISSING", "/tool_call_id")
    said.derived_key = canonical.derive_key(run_id, step, said.tool_call_id, said.position)
    said.idem_key = said.idem_key or said.derived_key


def _read_args(said: Reported, values: Mapping[str, Any]) -> None:
    if values.get("args_raw") is not None:
        if "args" in values:
            raise Malformed("VALIDATION_ERROR", "/args_raw")
        if not isinstance(values["args_raw"], str):
            raise Malformed("VALIDATION_ERROR", "/args_raw")
        try:
            said.args = canonical.parse_strict(values["args_raw"], "/args")
        except InvalidJson as fault:
            raise Malformed("INVALID_ARGS", fault.pointer) from None
        said.args_raw = values["args_raw"].encode()
    elif "args" in values:
        said.args = values["args"]
        said.args_raw = b""  # cut out of the body where it is needed: most records need it not
    else:
        return
    said.args_fingerprint = canonical.fingerprint(said.args)


def _read_attempt(said: Reported, value: Any) -> None:
    if not isinstance(value, dict):
        raise Malformed("VALIDATION_ERROR", "/attempt")
    _known(value, _ATTEMPT_FIELDS, "/attempt")
    said.attempt_id = _optional(_text, value, "id", "/attempt") or ""
    said.layer = _optional(_text, value, "layer", "/attempt") or ""
    said.worker = _optional(_text, value, "worker", "/attempt") or ""


def _run(value: Any, pointer: str) -> RunSaid:
    """Records of one run say the same about it, again and again: what was read once is reused."""
    if not isinstance(value, dict):
        raise Malformed("VALIDATION_ERROR", pointer)
    if "budget" in value:
        return _run_from(value)
    try:
        return _run_seen(tuple(value.items()))
    except TypeError:  # a member that cannot be hashed cannot be right either
        return _run_from(value)


@lru_cache(maxsize=4096)
def _run_seen(items: tuple[tuple[str, Any], ...]) -> RunSaid:
    return _run_from(dict(items))


def _run_from(value: dict[str, Any]) -> RunSaid:
    _known(value, _RUN_FIELDS, "/run")
    run_id = _indexed_text(value.get("id"), "/run/id")
    texts: dict[str, Any] = {name: _optional(_text, value, name, "/run") for name in _RUN_TEXTS}
    return RunSaid(run_id, **texts, **_budget(value.get("budget")))


def _budget(value: Any) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise Malformed("VALIDATION_ERROR", "/run/budget")
    _known(value, _BUDGET_FIELDS, "/run/budget")
    at = "/run/budget"
    spend = value.get("max_spend_minor")
    currency = value.get("currency")
    return {
        "budget_max_steps": _optional(_integer, value, "max_steps", at),
        "budget_max_spend_minor": None
        if spend is None
        else _integer(spend, f"{at}/max_spend_minor", _BIGINT_MAX),
        "budget_currency": None
        if currency is None
        else _matching(currency, _CURRENCY, f"{at}/currency").upper(),
    }


def _call_id(value: Any, pointer: str) -> str:
    if value == "":
        return ""
    call_id = _text(value, pointer, 1024)
    # Stand-ins are ours; an edited call's id is ours too, but its runtime may well report on it.
    if call_id.startswith("#"):
        raise Malformed("VALIDATION_ERROR", pointer)
    return call_id


def _optional[T](
    check: Callable[[Any, str], T], values: Mapping[str, Any], name: str, at: str = ""
) -> T | None:
    value = values.get(name)
    return None if value is None else check(value, f"{at}/{name}")


def _known(values: Mapping[str, Any], names: frozenset[str], at: str) -> None:
    if not names >= values.keys():
        unknown = next(name for name in values if name not in names)
        raise Malformed("UNKNOWN_FIELD", f"{at}/{unknown.replace('~', '~0').replace('/', '~1')}")


def _text(value: Any, pointer: str, most: int = 255) -> str:
    """No NUL: a text column cannot hold one. (Args may: they are kept as bytes.)"""
    if not isinstance(value, str) or not 1 <= len(value) <= most or "\0" in value:
        raise Malformed("VALIDATION_ERROR", pointer)
    return value


def _indexed_text(value: Any, pointer: str) -> str:
    """As long as a claim's: four bytes a character still fit into an index entry."""
    return _text(value, pointer, 512)


def _longer_text(value: Any, pointer: str) -> str:
    return _text(value, pointer, 2048)


def _matching(value: Any, pattern: Callable[[str], Any], pointer: str) -> str:
    if not isinstance(value, str) or not pattern(value):
        raise Malformed("VALIDATION_ERROR", pointer)
    return value


def _tool(value: Any, pointer: str) -> str:
    return _matching(value, _TOOL, pointer)


def _idem_key(value: Any, pointer: str) -> str:
    return _matching(value, _IDEM_KEY, pointer)


def _type(value: Any, pointer: str) -> str:
    if not isinstance(value, str) or value not in _TYPES:
        raise Malformed("VALIDATION_ERROR", pointer)
    return value


def _integer(value: Any, pointer: str, most: int = _INTEGER_MAX) -> int:
    if type(value) is not int or not 0 <= value <= most:
        raise Malformed("VALIDATION_ERROR", pointer)
    return value


def _flag(value: Any, pointer: str) -> bool:
    if type(value) is not bool:
        raise Malformed("VALIDATION_ERROR", pointer)
    return value


def _moment(value: Any, pointer: str) -> datetime:
    try:
        moment = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        raise Malformed("VALIDATION_ERROR", pointer) from None
    if moment.tzinfo is None:
        raise Malformed("VALIDATION_ERROR", pointer)
    return moment


def _usable_id(value: Any) -> str:
    usable = isinstance(value, str) and 1 <= len(value) <= 128 and "\0" not in value
    return value if usable else ""


def _readable_id(text: str) -> str:
    """The id of a record that strict reading refused, where lax reading still finds one."""
    try:
        value = json.loads(text)
        found = _usable_id(value.get("record_id")) if isinstance(value, dict) else ""
        found.encode()
    except (ValueError, RecursionError):
        return ""
    return found


def _code_of(fault: InvalidJson) -> str:
    if fault.kind == "type":
        return "VALIDATION_ERROR"
    inside_args = fault.pointer == "/args" or fault.pointer.startswith("/args/")
    return "INVALID_ARGS" if inside_args and fault.kind != "encoding" else "MALFORMED_JSON"


#: Members that are read by themselves, into attributes of the same name.
_CHECKS: Final[dict[str, Callable[[Any, str], Any]]] = {
    "type": _type,
    "run": _run,
    "step": _integer,
    "tool_call_id": _call_id,
    "position": _integer,
    "tool": _tool,
    "idem_key": _idem_key,
    "occurred_at": _moment,
    "replayed": _flag,
    "permanent": _flag,
    "effect": _text,
    "provider_ref": _indexed_text,
    "effect_status": _text,
    "goal": _longer_text,
}
_FIELDS: Final = frozenset(
    {"record_id", "args", "args_raw", "attempt", "result", "error", "model_output", *_CHECKS}
)
