"""Tokens of reviewers at a command line: minted once, kept only as a digest.

A token reads requests and hands in signatures; by itself it decides nothing.
"""

import secrets
from dataclasses import dataclass
from datetime import datetime

from django.db import connection, transaction
from django.utils import timezone

from approvals import audit, permissions
from approvals.models import ReviewerToken, User
from operations.api_keys import digest_of


@dataclass(frozen=True)
class Found:
    """Who holds the token, and for how many seconds it stays good (None: no end is set)."""

    user: User
    seconds_left: float | None


def create(user: User, *, actor: str, expires_at: datetime | None = None) -> str:
    """A new token, which nobody can read again; raises FORBIDDEN for roles that never decide."""
    permissions.check_may(user, "decide")
    token = f"cs_reviewer_{secrets.token_urlsafe(32)}"
    with transaction.atomic(), connection.cursor() as cur:
        row = ReviewerToken.objects.create(
            user=user, digest=digest_of(token), expires_at=expires_at
        )
        audit.note(
            cur, "reviewer_token.created", actor=actor,
            data={"user": str(user.id), "token": str(row.id)},
        )  # fmt: skip
    return token


def find(digest: bytes) -> Found | None:
    """The reviewer behind a token's digest; None where it is unknown, over, revoked or idle."""
    now = timezone.now()
    token = ReviewerToken.objects.select_related("user").filter(digest=digest).first()
    if token is None or token.revoked_at is not None or not token.user.is_active:
        return None
    if token.expires_at is None:
        return Found(token.user, None)
    left = (token.expires_at - now).total_seconds()
    return Found(token.user, left) if left > 0 else None
