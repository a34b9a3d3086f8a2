"""Which rule applies to a call, and how rules are published. The first matching rule wins.

Without a matching rule the default policy speaks: in `live` an `unsafe` tool needs one reviewer
with a passkey; everything else, and everything in `test`, needs nobody.
"""

import json
from collections.abc import Iterable
from typing import Any, Final, Protocol

from django.db import connection

from approvals import rules
from approvals.rules import Call, Rule
from operations import catalogue

DEFAULT_ID: Final = "default"
_DEFAULT_DOCUMENT: Final[dict[str, Any]] = {
    "id": DEFAULT_ID,
    "description": "Unsafe tools in live need one reviewer with a passkey; nothing else does.",
    "match": {"environment": "live", "class": "unsafe"},
    "tier": "T2",
    "quorum": 1,
    "groups": [],
    "min_custody": "A2",
    "expires_minutes": 60,
    "never": [],
    "coverage": "any",
}
_OPEN_DOCUMENT: Final[dict[str, Any]] = {
    **_DEFAULT_DOCUMENT,
    "match": {},
    "tier": "T0",
    "quorum": 0,
}


class CallFacts(Protocol):
    """What a rule looks at, named as on a locked operation."""

    @property
    def environment(self) -> str: ...
    @property
    def namespace(self) -> str: ...
    @property
    def tool(self) -> str: ...
    @property
    def tool_class(self) -> str: ...
    @property
    def agent(self) -> str: ...
    @property
    def amount_minor(self) -> int | None: ...
    @property
    def currency(self) -> str | None: ...


def _rule(document: dict[str, Any], version: int, published_by: str = "") -> Rule:
    return Rule(
        policy_id=document["id"],
        version=version,
        sha256=rules.digest_of(document),
        rule=document["id"],
        tier=document["tier"],
        quorum=document["quorum"],
        groups=tuple(document["groups"]),
        min_custody=document["min_custody"],
        expires_minutes=document["expires_minutes"],
        never=tuple(document["never"]),
        coverage=document["coverage"],
        match=document["match"],
        published_by=published_by,
    )


DEFAULT_RULE: Final = _rule(_DEFAULT_DOCUMENT, 0)
OPEN_RULE: Final = _rule(_OPEN_DOCUMENT, 0)

_published: tuple[str | None, tuple[Rule, ...]] = (None, ())


def rule_for(op: CallFacts, args: Any) -> Rule:
    """The rule that applies to a call now; `quorum == 0` means that nobody need be asked."""
    call = Call(
        environment=op.environment,
        namespace=op.namespace,
        tool=op.tool,
        tool_class=op.tool_class,
        agent=op.agent,
        amount_minor=op.amount_minor,
        currency=op.currency,
    )
    for rule in (*current(), DEFAULT_RULE):
        if rules.matches(rule, call, args):
            return rule
    return OPEN_RULE


def current() -> tuple[Rule, ...]:
    """Published rules in their order, cached for as long as the catalogue bears the same stamp."""
    global _published
    stamp = catalogue.known().stamp
    if _published[0] != stamp:
        _published = (stamp, tuple(_load()))
    return _published[1]


def _load() -> Iterable[Rule]:
    with connection.cursor() as cur:
        cur.execute(
            "SELECT document::text, version, published_by FROM approvals_policy"
            " WHERE superseded_in IS NULL ORDER BY rank"
        )
        for document, version, published_by in cur.fetchall():
            yield _rule(json.loads(document), version, published_by)


def is_stricter(new: Rule, old_sha256: str) -> bool:
    """Whether a call that was asked about under the old rule must be asked about again.

    Another text that still asks is taken as stricter: nobody can be held to have agreed to it.
    A rule that asks nobody leaves what was asked before as it is.
    """
    return new.quorum > 0 and new.sha256 != old_sha256


def diff(policies: Any) -> list[str]:
    """What `apply` would change, one line a rule; raises INVALID_POLICY where it is not valid."""
    wanted = {rule["id"]: rule for rule in rules.read_all(policies)}
    existing = {row["id"]: row for row in export()}
    lines = [f"- policy {name}" for name in existing if name not in wanted]
    for name, document in wanted.items():
        if name not in existing:
            lines.append(f"+ policy {name}")
            continue
        for member in sorted(document):
            before, after = existing[name][member], document[member]
            if before != after:
                lines.append(f"~ policy {name} {member}: {_brief(before)} -> {_brief(after)}")
    if [name for name in existing if name in wanted] != [n for n in wanted if n in existing]:
        lines.append("~ policies are in another order")
    return lines


def _brief(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def export() -> list[dict[str, Any]]:
    """The published rules, in their order, every member written out."""
    with connection.cursor() as cur:
        cur.execute(
            "SELECT document::text FROM approvals_policy WHERE superseded_in IS NULL ORDER BY rank"
        )
        return [json.loads(document) for (document,) in cur.fetchall()]


def apply(policies: Any, version: int, actor: str) -> list[str]:
    """Publish a policy file as catalogue version `version`, in the caller's transaction.

    Rules that did not change keep their row and with it their version. Returns the diff. The
    approvals that are open are then looked at again: see `requests.reconsider_open`.
    """
    lines = diff(policies)
    documents = rules.read_all(policies)
    with connection.cursor() as cur:
        cur.execute(
            "SELECT policy_id, rank, sha256 FROM approvals_policy WHERE superseded_in IS NULL"
            " FOR UPDATE"
        )
        rows = {policy_id: (rank, digest) for policy_id, rank, digest in cur.fetchall()}
        wanted = {doc["id"]: (at, rules.digest_of(doc)) for at, doc in enumerate(documents)}
        gone = [name for name, row in rows.items() if wanted.get(name) != row]
        cur.execute(
            "UPDATE approvals_policy SET superseded_in = %s"
            " WHERE superseded_in IS NULL AND policy_id = ANY(%s)",
            (version, gone),
        )
        for rank, document in enumerate(documents):
            if rows.get(document["id"]) == wanted[document["id"]]:
                continue
            cur.execute(
                """
                INSERT INTO approvals_policy (policy_id, version, rank, match, tier, quorum, groups,
                    min_custody, expires_minutes, document, sha256, published_by)
                VALUES (%s, %s, %s, %s::jsonb, %s, %s, %s::jsonb, %s, %s, %s::jsonb, %s, %s)
                """,
                (
                    document["id"], version, rank, json.dumps(document["match"]), document["tier"],
                    document["quorum"], json.dumps(document["groups"]), document["min_custody"],
                    document["expires_minutes"], json.dumps(document),
                    rules.digest_of(document), actor,
                ),
            )  # fmt: skip
    return lines
