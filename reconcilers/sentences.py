"""Verdicts in words a person can act on: what was asked, what it proves, and what comes next.

Times are UTC. Pure.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final

from reconcilers.evidence import Facts, Look, Outcome, Sighting
from reconcilers.exits import Exit
from reconcilers.verdicts import Verdict

#: How many times of empty looks are spelled out before "and n more".
_TIMES_SHOWN: Final = 3

HOLDS: Final = {
    "look_kills_worker": (
        "The process that looked for this call died three times in a row, so it is looked for no"
        " more than once an hour: see the worker's log, and find out by hand."
    ),
    "being_compensated": (
        "It is proved that it did not happen, and somebody chose to undo it: close the intent, and"
        " the compensation is cancelled with it."
    ),
    "unfenced": (
        "Every read agrees that it did not happen, but an attempt was not fenced and could still "
        "send: a person must sign the release."
    ),
    "signed_release_needed": (
        "It is proved that it did not happen; the amount is above this account's limit for a "
        "release without a signature, so a person must sign it."
    ),
}

ESCALATIONS: Final = {
    "cannot_look_repeatedly": "A person should look at the account; the looks go on meanwhile.",
    "deadline": "The time allowed for settling it by itself has passed: a person must decide.",
    "key_expires_soon": (
        "The provider forgets the key within two hours; after that the same call would be a new "
        "one, so a person should look now."
    ),
}


def say(
    facts: Facts,
    verdict: Verdict,
    looks: Sequence[Look],
    *,
    exit_: Exit | None = None,
    next_check_at: datetime | None = None,
) -> str:
    """One to four sentences about where the operation stands."""
    if exit_ is not None and exit_.detail:
        return f"{exit_.detail} A person must decide."
    if exit_ is not None and exit_.reason in HOLDS:
        return HOLDS[exit_.reason]
    parts = [_SAYINGS[verdict.kind](facts, verdict, looks)]
    if verdict.escalate:
        parts.append(ESCALATIONS[verdict.escalate])
    if next_check_at is not None and verdict.kind in {"waiting", "in_flight", "cannot_look"}:
        parts.append(f"Next look at {clock(next_check_at)}.")
    return " ".join(part for part in parts if part)


def clock(moment: datetime) -> str:
    """`20:24:10 UTC`, which is what the findings' own times read like."""
    return moment.strftime("%H:%M:%S UTC")


def money(amount_minor: int | None, currency: str | None) -> str:
    """`25000 USD (minor units)`; exponents are the pages' business."""
    return "" if amount_minor is None else f"{amount_minor} {(currency or '').upper()}".strip()


# One saying per kind -----------------------------------------------------------------------------


def _committed(facts: Facts, verdict: Verdict, looks: Sequence[Look]) -> str:
    if not verdict.sightings:
        return "The runtime reported that it happened, and nothing at the provider contradicts it."
    seen = verdict.sightings[0]
    where = _where(facts, looks, seen)
    return f"It happened: {where} {_object(seen)}, {_standing(seen)}."


def _committed_late(facts: Facts, verdict: Verdict, looks: Sequence[Look]) -> str:
    return (
        _committed(facts, verdict, looks)
        + " It arrived after it had been taken for absent or refused: see the incident."
    )


def _in_flight(facts: Facts, verdict: Verdict, looks: Sequence[Look]) -> str:
    seen = verdict.sightings[0]
    detail = f" ({seen.detail})" if seen.detail else ""
    return (
        f"{_title(facts)} has {_object(seen)} with status {seen.status}{detail}: the call arrived "
        "and its effect is still open. It is never sent again, however long this takes."
    )


def _absent(facts: Facts, verdict: Verdict, looks: Sequence[Look]) -> str:
    proof = verdict.proof
    if proof is None:
        return "It did not happen."
    if proof.lookup_class == "T":
        return "It did not happen, and it never can: its unique key has been taken by a tombstone."
    if proof.lookup_class == "R":
        return (
            f"It did not happen: at {clock(proof.reads[0].started_at)} the same call was sent again"
            " under its key, and the provider gave back the refusal that it had kept for it."
        )
    times = " and ".join(clock(look.started_at) for look in proof.reads)
    settled = f" after {clock(proof.settles_at)}" if proof.settles_at else ""
    return (
        f"It did not happen: {_words(facts, proof.reads[-1])} found nothing at {times}. Both reads "
        f"began{settled}, when nothing of it could still arrive, and covered the whole time since "
        "it was sent."
    )


def _waiting(facts: Facts, verdict: Verdict, looks: Sequence[Look]) -> str:
    found_nothing = _found_nothing(facts, looks)
    if verdict.code == "not_looked_yet":
        return f"{_title(facts)} has not been asked yet."
    if verdict.code == "cannot_prove_absence":
        return (
            f"{found_nothing} This kind of look-up can be behind and cannot prove absence; only a "
            "hit settles it."
        ).strip()
    if verdict.code == "sender_unknown":
        return (
            f"{found_nothing} Nobody knows until when the sender could still send, so an empty "
            "answer proves nothing yet."
        ).strip()
    if verdict.code == "one_more_read":
        return f"{found_nothing} Two reads that agree are needed after the settle point.".strip()
    if verdict.code == "empty_not_counted":
        return (
            f"{found_nothing} That does not count: it is not sure that the account that was asked "
            "is the one that the call went to, or that the answer covers all of it."
        ).strip()
    return f"{found_nothing} {_trusted_from(facts, verdict)}".strip()


def _conflict(facts: Facts, verdict: Verdict, looks: Sequence[Look]) -> str:
    seen = verdict.sightings[0]
    what = " and ".join(verdict.differences) or "content"
    wanted = money(facts.amount_minor, facts.currency)
    asked = f" (asked for: {wanted})" if wanted and "amount" in verdict.differences else ""
    return (
        f"{_title(facts)} has {_object(seen)}, but its {what} is not what was asked for{asked}. "
        "Nothing is executed or refunded: a person must compare the two."
    )


def _duplicate(facts: Facts, verdict: Verdict, looks: Sequence[Look]) -> str:
    ids = ", ".join(verdict.object_ids)
    return (
        f"{len(verdict.sightings)} objects at {_title(facts)} carry this one key: {ids}. None is "
        "chosen and nothing is refunded: a person must say which one stands and undo the others."
    )


def _cannot_look(facts: Facts, verdict: Verdict, looks: Sequence[Look]) -> str:
    failed = [look for look in looks if not look.finished]
    if not failed:
        return f"{_title(facts)} cannot be asked at present."
    last = max(failed, key=lambda look: look.ended_at)
    return (
        f"{_title(facts)} could not be asked at {clock(last.started_at)}: {last.reason}. That says "
        "nothing about the call."
    )


def _needs_human(facts: Facts, verdict: Verdict, looks: Sequence[Look]) -> str:
    if verdict.code == "nobody_to_ask":
        return f"{facts.blind} A person must find out and decide."
    if verdict.code == "no_lookup":
        return (
            f"{_title(facts)} offers no look-up for this call, so no answer can be had from it. A "
            "person must find out and decide."
        )
    if verdict.code == "effect_not_reached":
        seen = verdict.sightings[0]
        detail = f" ({seen.detail})" if seen.detail else ""
        return (
            f"{_title(facts)} has {_object(seen)} with status {seen.status}{detail}: the call "
            "arrived, and its effect was then refused or undone. A person must say what that means."
        )
    if verdict.code == "first_send_unknown":
        return (
            f"{_found_nothing(facts, looks)} Only records told of this call, so nobody knows when "
            "it was first sent, and no window of time is sure to cover it. A person must find out "
            "and decide."
        ).strip()
    if verdict.code == "cannot_be_proved":
        return (
            f"{_found_nothing(facts, looks)} The look-ups of this tool cannot prove absence, and "
            "money is at stake: a person must decide."
        ).strip()
    return f"{_found_nothing(facts, looks)} {ESCALATIONS['deadline']}".strip()


_Saying = Callable[[Facts, Verdict, Sequence[Look]], str]
_SAYINGS: Final[dict[str, _Saying]] = {
    "committed": _committed,
    "committed_late": _committed_late,
    "in_flight": _in_flight,
    "absent": _absent,
    "waiting": _waiting,
    "conflict": _conflict,
    "duplicate": _duplicate,
    "cannot_look": _cannot_look,
    "needs_human": _needs_human,
}

# Parts -------------------------------------------------------------------------------------------


def _title(facts: Facts) -> str:
    return facts.provider_title or "The provider"


def _object(seen: Sighting) -> str:
    amount = money(seen.amount_minor, seen.currency)
    return f"{seen.id} ({amount})" if amount else seen.id


def _standing(seen: Sighting) -> str:
    return f"status {seen.status}" if seen.status else "which exists"


def _words(facts: Facts, look: Look) -> str:
    for way in facts.ways:
        if way.name == look.lookup:
            return way.words
    return f"{_title(facts)} ({look.lookup})"


def _where(facts: Facts, looks: Sequence[Look], seen: Sighting) -> str:
    for look in sorted(looks, key=lambda look: look.ended_at, reverse=True):
        if any(other.id == seen.id for other in look.sightings):
            return f"{_words(facts, look)} shows"
    return f"{_title(facts)} has"


def _found_nothing(facts: Facts, looks: Sequence[Look]) -> str:
    empty = sorted(
        (look for look in looks if look.outcome is Outcome.EMPTY), key=lambda look: look.started_at
    )
    if not empty:
        return ""
    same = [look for look in empty if look.lookup == empty[-1].lookup]
    times = ", ".join(clock(look.started_at)[:8] for look in same[:_TIMES_SHOWN])
    more = f" and {len(same) - _TIMES_SHOWN} more times" if len(same) > _TIMES_SHOWN else ""
    return f"{_words(facts, same[-1])} found nothing at {times}{more} UTC."


def _trusted_from(facts: Facts, verdict: Verdict) -> str:
    if verdict.settles_at is None:
        return ""
    minutes = round(facts.lifetime.total_seconds() / 60)
    return (
        f"An empty answer can be trusted from {clock(verdict.settles_at)} (client timeout "
        f"{facts.client_timeout_seconds} s + {minutes} min request lifetime at the provider)."
    )
