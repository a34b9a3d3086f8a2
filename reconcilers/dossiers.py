"""Everything known about some operations, read set by set: facts, looks, and whom to ask."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from operations import catalogue
from operations.catalogue import ToolFacts
from operations.ids import handle
from reconcilers import accounts, cadence, findings, queue, registry, replays, tries
from reconcilers.evidence import Facts, Look, Way
from reconcilers.models import ProviderAccount
from reconcilers.providers.base import Provider, Question
from reconcilers.tries import Tries

_OPERATIONS: Final = """
SELECT o.id, o.environment, o.namespace, o.idem_key, o.tool, o.tool_version, o.tool_class, o.state,
       o.amount_minor, o.currency, o.args_fingerprint, o.closed, o.first_sent_at, o.key_expires_at,
       o.provider_ref, o.failure, o.created_at, o.updated_at, d.since, d.failures, d.purpose,
       EXISTS (SELECT FROM operations_operation c WHERE c.compensation_slot = o.id) AS compensated,
       o.verdict ->> 'kind' AS verdict_kind
  FROM operations_operation o LEFT JOIN reconcilers_duelook d ON d.operation_id = o.id
 WHERE o.id = ANY(%s)
"""


@dataclass(frozen=True, kw_only=True)
class Dossier:
    """One operation as the reconciler knows it. `question` is None where nobody can be asked.

    `looks` are ours, `replays` the runtime's own sends under the same key, read as evidence.
    """

    operation_id: UUID
    tool: str
    failure: str | None
    verdict_kind: str | None
    facts: Facts
    looks: tuple[Look, ...]
    replays: tuple[Look, ...]
    account: ProviderAccount | None
    lane: str
    question: Question | None

    @property
    def handle(self) -> str:
        """The operation's id as people see it."""
        return handle("op", self.operation_id)


def load(cur: Any, operation_ids: Sequence[UUID]) -> dict[UUID, Dossier]:
    """The dossiers of these operations; those that do not exist are left out."""
    ids = list(operation_ids)
    cur.execute(_OPERATIONS, (ids,))
    names = [column[0] for column in cur.description]
    rows = cur.fetchall()
    attempts = tries.load(cur, ids)
    looks = findings.load(cur, ids)
    newest = catalogue.current(cur)
    scopes: dict[tuple[str, str], list[ProviderAccount]] = {}
    for account in ProviderAccount.objects.all():
        scopes.setdefault((account.environment, account.namespace), []).append(account)
    dossiers = {}
    for row in rows:
        known = dict(zip(names, row, strict=True))
        then = catalogue.facts_of(cur, known["tool"], known["tool_version"])
        dossiers[row[0]] = _dossier(
            known,
            then=then,
            now=newest.facts(known["tool"]),
            accounts_here=scopes.get((known["environment"], known["namespace"]), []),
            attempts=attempts.get(row[0], tries.NONE),
            looks=tuple(looks.get(row[0], ())),
        )
    return dossiers


def _dossier(
    known: Mapping[str, Any],
    *,
    then: ToolFacts,
    now: ToolFacts,
    accounts_here: list[ProviderAccount],
    attempts: Tries,
    looks: tuple[Look, ...],
) -> Dossier:
    # Whom to ask is today's catalogue's business (it may have been mended since); how the call
    # behaved is that of the version it ran under.
    account, blind = accounts.resolve(
        accounts_here, reconciler=now.reconciler, provider=now.provider
    )
    provider = registry.providers().get(account.kind) if account else None
    if account is not None and provider is None:
        blind = f"This installation has no provider of kind {account.kind}."
    object_kind = now.provider_object or (provider.default_object if provider else "")
    refs = attempts.refs | ({known["provider_ref"]} if known["provider_ref"] else set())
    ways = _ways(provider, object_kind, now, then, account.config if account else {})
    if provider is not None and not now.marker:
        ways = tuple(way for way in ways if way.name == "get") if refs else ()
        if not ways:
            blind = (
                "This tool does not put our key into the call, so nothing at the provider can be"
                " told to be this one."
            )
    lifetime = timedelta(seconds=then.provider_max_seconds)
    if provider is not None:
        lifetime = provider.request_lifetime(lifetime, attempts.http_statuses)
    config = account.config if account else {}
    facts = Facts(
        state=known["state"],
        tool_class=known["tool_class"],
        marker=known["idem_key"],
        environment=known["environment"],
        first_send_at=known["first_sent_at"] or known["created_at"],
        # A row that counts effects is older than the doubt that has just come.
        unknown_since=(
            known["since"]
            if known["purpose"] == "settle" and known["since"]
            else known["updated_at"]
        ),
        emits_until=attempts.emits_until,
        lifetime=lifetime,
        deadline_at=known["updated_at"],
        ways=ways if not blind else (),
        blind=blind,
        provider_title=provider.title if provider else "",
        account=str(config.get("connected_account") or account.external_id) if account else "",
        amount_minor=known["amount_minor"],
        currency=known["currency"],
        fingerprint=known["args_fingerprint"],
        provider_ref=known["provider_ref"],
        provider_ref_kind=(
            provider.kind_of_id(known["provider_ref"]) if provider and known["provider_ref"] else ""
        ),
        reported_ids=frozenset(refs),
        closed=known["closed"],
        fenced=attempts.fenced,
        possible_sends=attempts.possible_sends,
        accepts_key=then.accepts_key,
        key_expires_at=known["key_expires_at"],
        key_retention=(
            timedelta(seconds=then.retention_seconds) if then.retention_seconds else None
        ),
        first_send_is_known=known["first_sent_at"] is not None and not attempts.hearsay,
        is_compensated=known["compensated"],
        client_timeout_seconds=then.client_timeout_seconds * then.client_tries,
        signed_release_above=_signature_limit(config, known["currency"]),
        failures=known["failures"] or 0,
    )
    facts = replace(facts, deadline_at=_deadline(facts, config))
    asked = account is not None and provider is not None and not blind
    return Dossier(
        operation_id=known["id"],
        tool=known["tool"],
        failure=known["failure"],
        verdict_kind=known["verdict_kind"],
        facts=facts,
        looks=looks,
        replays=replays.looks_of(
            attempts.each, marker=facts.marker, key_expires_at=facts.key_expires_at
        ),
        account=account if asked else None,
        lane=str(account.id) if account is not None and asked else queue.NO_LANE,
        question=_question(known["id"], facts, object_kind, now, looks) if asked else None,
    )


def _ways(
    provider: Provider | None,
    object_kind: str,
    now: ToolFacts,
    then: ToolFacts,
    config: Mapping[str, Any],
) -> tuple[Way, ...]:
    if provider is None:
        return ()
    ways = provider.ways_of(object_kind, config)
    if now.lookups:
        ways = tuple(way for way in ways if way.name in now.lookups)
    else:
        ways = tuple(way for way in ways if not way.opt_in)
    if not then.is_registered:
        # Nobody had promised then that the marker is set in the call itself: a hit is a hit, and
        # an empty answer says nothing.
        ways = tuple(replace(way, exhaustive=False) for way in ways)
    return ways


def _question(
    operation_id: UUID, facts: Facts, object_kind: str, tool: ToolFacts, looks: Sequence[Look]
) -> Question:
    seen = (
        sighting.id
        for look in looks
        for sighting in look.sightings
        if sighting.marker in {facts.marker, None}
    )
    return Question(
        operation_id=operation_id,
        marker=facts.marker,
        object_kind=object_kind,
        window_from=facts.first_send_at,
        object_ids=tuple(dict.fromkeys([*sorted(facts.reported_ids), *seen])),
        lookups=tool.lookups,
        settles_at=facts.settles_at(),
        # A live attempt of a closed intent may still end well: its key is left alone.
        wanted=not (facts.closed and facts.state == "UNKNOWN"),
        count_effects=facts.possible_sends >= 2 or facts.state == "COMMITTED",
    )


def _deadline(facts: Facts, config: Mapping[str, Any]) -> datetime:
    allowed = cadence.DEADLINE
    if "deadline_hours" in config:
        allowed = timedelta(hours=config["deadline_hours"])
    begins = facts.settles_at()
    return max(begins or facts.unknown_since, facts.unknown_since) + allowed


def _signature_limit(config: Mapping[str, Any], currency: str | None) -> int | None:
    limits = {
        name.upper(): limit for name, limit in (config.get("signed_release_above") or {}).items()
    }
    return limits.get(currency.upper()) if currency else None
