"""What a published rule looks like, and the strict reader of policy files. Pure.

A typo must never switch an approval off: unknown members, unknown words, rules that can never be
reached and ids used twice are refused, with the place of the fault.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from hashlib import sha256
from typing import Any, Final

from approvals import conditions
from approvals.errors import Refused
from operations.canonical import canonicalize

TIERS: Final = ("T0", "T1", "T2", "T3", "T4")
CUSTODIES: Final = ("A1", "A2")
COVERAGES: Final = ("any", "full")
CLASSES: Final = ("safe", "idempotent", "unsafe")
ENVIRONMENTS: Final = ("live", "test")
MAX_RULES: Final = 1000
MAX_QUORUM: Final = 20
MAX_MINUTES: Final = 60 * 24 * 30

_MATCH_MEMBERS: Final = ("environment", "namespace", "tool", "class", "agent", "when")


@dataclass(frozen=True)
class Rule:
    """One rule as it applies. `quorum == 0`: no approval is needed."""

    policy_id: str
    version: int
    sha256: str
    rule: str
    tier: str = "T2"
    quorum: int = 1
    groups: tuple[Mapping[str, Any], ...] = ()
    min_custody: str = "A2"
    expires_minutes: int = 60
    never: tuple[str, ...] = ()
    coverage: str = "any"
    match: Mapping[str, Any] = field(default_factory=dict)
    published_by: str = ""


@dataclass(frozen=True)
class Call:
    """The facts of one call that rules look at."""

    environment: str
    namespace: str
    tool: str
    tool_class: str
    agent: str
    amount_minor: int | None
    currency: str | None


def matches(rule: Rule, call: Call, args: Any) -> bool:
    """Whether a rule speaks about this call. An undecided condition matches if the rule asks."""
    match = rule.match
    plain = (
        _is_one_of(match.get("environment"), call.environment)
        and _is_one_of(match.get("namespace"), call.namespace)
        and _is_one_of(match.get("class"), call.tool_class)
        and _fits(match.get("tool"), call.tool)
        and _fits(match.get("agent"), call.agent)
    )
    if not plain or "when" not in match:
        return plain
    decided = conditions.decide(
        str(match["when"]),
        {
            "args": args,
            "amount": call.amount_minor,
            "currency": call.currency,
            "tool": call.tool,
            "agent": call.agent,
            "environment": call.environment,
            "namespace": call.namespace,
        },
    )
    return rule.quorum > 0 if decided is None else decided


def _is_one_of(wanted: Any, value: str) -> bool:
    return wanted is None or value in (wanted if isinstance(wanted, list) else [wanted])


def _fits(wanted: Any, value: str) -> bool:
    patterns = wanted if isinstance(wanted, list) else [wanted]
    return wanted is None or any(fnmatchcase(value, str(pattern)) for pattern in patterns)


def digest_of(document: Mapping[str, Any]) -> str:
    return sha256(canonicalize(dict(document))).hexdigest()


def read_all(policies: Any) -> list[dict[str, Any]]:
    """The rules of a policy file, each complete with its defaults; raises INVALID_POLICY."""
    if not isinstance(policies, list) or len(policies) > MAX_RULES:
        raise _invalid("", "must be a list of rules")
    documents = [_read(rule, f"/{position}") for position, rule in enumerate(policies)]
    seen: dict[str, str] = {}
    for position, document in enumerate(documents):
        here = f"/{position}"
        if document["id"] in seen:
            raise _invalid(f"{here}/id", f"{document['id']!r} is used twice")
        same = f"match {digest_of(document['match'])}"
        if same in seen:
            raise _invalid(f"{here}/match", f"is never reached: {seen[same]!r} matches the same")
        seen[document["id"]] = seen[same] = document["id"]
    return documents


def _read(rule: Any, at: str) -> dict[str, Any]:
    readers = {
        "id": _text,
        "description": _any_text,
        "match": _match,
        "tier": _word(TIERS),
        "quorum": _number(0, MAX_QUORUM),
        "groups": _groups,
        "min_custody": _word(CUSTODIES),
        "expires_minutes": _number(1, MAX_MINUTES),
        "never": _texts,
        "coverage": _word(COVERAGES),
    }
    given = _members(rule, at, tuple(readers))
    if "id" not in given:
        raise _invalid(f"{at}/id", "is missing")
    document: dict[str, Any] = {
        "description": "",
        "match": {},
        "tier": "T2",
        "quorum": 1,
        "groups": [],
        "min_custody": "A2",
        "expires_minutes": 60,
        "never": [],
        "coverage": "any",
    }
    for name, value in given.items():
        document[name] = readers[name](value, f"{at}/{name}")
    needed = sum(group["quorum"] for group in document["groups"])
    if document["groups"] and document["quorum"] == 0:
        raise _invalid(f"{at}/groups", "has no meaning where quorum is 0")
    document["quorum"] = max(document["quorum"], needed)
    return document


def _match(value: Any, at: str) -> dict[str, Any]:
    given = _members(value, at, _MATCH_MEMBERS)
    match: dict[str, Any] = {}
    for name, wanted in given.items():
        here = f"{at}/{name}"
        if name == "when":
            match[name] = _text(wanted, here)
            try:
                conditions.check_condition(wanted)
            except conditions.InvalidCondition as error:
                raise _invalid(here, str(error)) from None
            continue
        words = wanted if isinstance(wanted, list) else [wanted]
        choices = {"environment": ENVIRONMENTS, "class": CLASSES}.get(name)
        for word in words:
            _text(word, here) if choices is None else _word(choices)(word, here)
        match[name] = wanted
    return match


def _groups(value: Any, at: str) -> list[dict[str, Any]]:
    if not isinstance(value, list):
        raise _invalid(at, "must be a list")
    groups = []
    for position, group in enumerate(value):
        here = f"{at}/{position}"
        given = _members(group, here, ("name", "members", "quorum"))
        groups.append(
            {
                "name": _text(given.get("name"), f"{here}/name"),
                "members": [one.lower() for one in _texts(given.get("members"), f"{here}/members")],
                "quorum": _number(1, MAX_QUORUM)(given.get("quorum", 1), f"{here}/quorum"),
            }
        )
        if groups[-1]["quorum"] > len(set(groups[-1]["members"])):
            raise _invalid(here, "asks for more people than it has")
    return groups


def _members(value: Any, at: str, known: Sequence[str]) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _invalid(at, "must be a mapping")
    for name in value:
        if name not in known:
            raise _invalid(f"{at}/{name}", f"is unknown; known are {', '.join(known)}")
    return value


def _text(value: Any, at: str) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= 2000:
        raise _invalid(at, "must be a text")
    return value


def _any_text(value: Any, at: str) -> str:
    return "" if value == "" else _text(value, at)


def _texts(value: Any, at: str) -> list[str]:
    if not isinstance(value, list):
        raise _invalid(at, "must be a list of texts")
    return [_text(item, at) for item in value]


def _word(choices: Sequence[str]) -> Any:
    def read(value: Any, at: str) -> str:
        if value not in choices:
            raise _invalid(at, f"is {value!r}; choose one of {', '.join(choices)}")
        return str(value)

    return read


def _number(lowest: int, highest: int) -> Any:
    def read(value: Any, at: str) -> int:
        whole = isinstance(value, int) and not isinstance(value, bool)
        if not whole or not lowest <= value <= highest:
            raise _invalid(at, f"must be a whole number from {lowest} to {highest}")
        return int(value)

    return read


def _invalid(at: str, what: str) -> Refused:
    pointer = f"/policies{at}"
    return Refused("INVALID_POLICY", f"{pointer} {what}.", pointer=pointer)
