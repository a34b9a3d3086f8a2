"""What a newcomer has done, read from what is there: nothing is ticked by hand."""

from dataclasses import dataclass

from django.http import HttpRequest
from django.urls import reverse

from approvals import permissions
from approvals.models import Decision, Resolution, ReviewerKey, User
from console.queries import queues
from operations import states
from operations.models import Operation, Standing


@dataclass(frozen=True)
class Step:
    """One thing to do. `blocked` says what it still needs."""

    title: str
    tells: str
    done: bool
    href: str
    action: str
    blocked: str = ""


def steps(request: HttpRequest, user: User) -> list[Step]:
    """In their order; the first that is not done is the one to take."""
    return [_agents(), _unknown(), _key(user), _decision(request, user), _settlement(user)]


def _agents() -> Step:
    return Step(
        title="See agents act",
        tells="Each tool call that an agent makes is one operation with one key. Some are done, "
        "some wait, some nobody knows about.",
        done=Operation.objects.exists(),
        href=reverse("operations"),
        action="Open operations",
    )


def _unknown() -> Step:
    waiting = Standing.objects.filter(state=states.UNKNOWN).exists()
    seen = waiting or Operation.objects.filter(state=states.COMMITTED, attempts__gt=1).exists()
    return Step(
        title="Meet the unknown",
        tells="An agent died between acting and writing it down. Nothing is retried blindly: the "
        "provider is asked, and what its answers prove is settled.",
        done=seen,
        href=reverse("unknown"),
        action="Open the queue",
    )


def _key(user: User) -> Step:
    enrolled = ReviewerKey.objects.filter(user=user, revoked_at=None).exists()
    return Step(
        title="Enrol a signing key",
        tells="Decisions are signed with a key that only you hold: a passkey, or a key in this "
        "browser where a rule allows it.",
        done=enrolled,
        href=reverse("keys" if enrolled else "keys-enrol"),
        action="Enrol a key",
        blocked="" if permissions.may(user, "enrol") else f"As {user.role} you sign nothing.",
    )


def _decision(request: HttpRequest, user: User) -> Step:
    first = queues.approvals(queues.operations(request, "")).first()
    has_key = ReviewerKey.objects.filter(user=user, revoked_at=None).exists()
    blocked = ""
    if not permissions.may(user, "decide"):
        blocked = f"Only a reviewer decides; you are {user.role}."
    elif not has_key:
        blocked = "Enrol a key first."
    elif first is None:
        blocked = "Nothing waits for approval at the moment."
    return Step(
        title="Sign your first decision",
        tells="Read exactly what would run, then approve or deny it. The agent gets your answer, "
        "and anybody can check your signature later.",
        done=Decision.objects.filter(user=user).exists(),
        href=reverse("approval", args=[first.handle]) if first else reverse("approvals"),
        action="Open the request",
        blocked=blocked,
    )


def _settlement(user: User) -> Step:
    return Step(
        title="Settle an unknown",
        tells="Where no look-up can prove anything, a person who has found out says what "
        "happened, and signs for it.",
        done=Resolution.objects.filter(user=user).exists(),
        href=reverse("unknown") + "?q=is:ready",
        action="Open what is ready",
        blocked=""
        if permissions.may(user, "settle")
        else f"Needs operator or reviewer; you are {user.role}.",
    )


def is_new(user: User) -> bool:
    """May this person sign, and has never had a key to do it with?"""
    return permissions.may(user, "enrol") and not ReviewerKey.objects.filter(user=user).exists()
