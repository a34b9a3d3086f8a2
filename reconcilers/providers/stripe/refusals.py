"""Looks that could not look, and why: never a kind of empty."""

from dataclasses import replace

from reconcilers.evidence import Look, Outcome
from reconcilers.providers.base import ProviderError, Question
from reconcilers.providers.stripe.objects import OBJECTS
from reconcilers.providers.stripe.reader import Reader


def could_not(
    reader: Reader, question: Question, problem: ProviderError, *, lookup: str = ""
) -> Look:
    """A look that could not look, filed under the first look-up that it would have used."""
    if not lookup:
        lookup = next((name for name in ("list", "search", "events") if question.allows(name)), "")
    classes = {"search": "C", "events": "E"}
    now = reader.gate.now()
    return Look(
        lookup=lookup or "get",
        lookup_class=classes.get(lookup, "B" if lookup == "list" else "A"),
        outcome=Outcome.CANNOT_LOOK,
        started_at=now,
        ended_at=now,
        reason=str(problem),
        retry_after_seconds=problem.retry_after_seconds,
        permanent=problem.permanent,
        mode=reader.mode,
    )


def void(look: Look, problem: ProviderError) -> Look:
    """An empty answer that must not count."""
    return replace(
        look,
        outcome=Outcome.CANNOT_LOOK,
        complete=False,
        covers_from=None,
        reason=str(problem),
        permanent=problem.permanent,
        retry_after_seconds=problem.retry_after_seconds,
    )


def why_nothing(question: Question) -> str:
    """Why none of the look-ups that the tool allows could be made."""
    described = OBJECTS.get(question.object_kind)
    if described is None:
        return (
            f"{question.object_kind!r} is no object that can be looked for at Stripe; there are"
            f" {', '.join(OBJECTS)}"
        )
    nouns = described.path.replace("_", " ")
    wanted = ", ".join(question.lookups)
    offered = ", ".join(["get", "list", *(["search"] if described.searchable else []), "events"])
    if question.lookups == ("search",) and not described.searchable:
        return f"Stripe has no search over {nouns}; the catalogue may allow {offered}"
    if question.lookups == ("get",):
        return f"no id of the object is known, and the catalogue allows {nouns} no other look-up"
    return f"the catalogue allows {wanted}, and for {nouns} there are {offered}"
