"""A new signing key is announced to the person whose it is said to be, until they answer.

Whoever borrows a session can enrol a key in it; a notice that waits for an answer outlasts them.
"""

from django.db import connection, transaction

from approvals import audit
from approvals.errors import not_found
from approvals.models import ReviewerKey, User
from operations import rows


def unanswered(user: User) -> list[ReviewerKey]:
    """Keys in this person's name that they have not recognised, the oldest first."""
    found = ReviewerKey.objects.filter(user=user, acknowledged_at=None, revoked_at=None)
    return list(found.order_by("created_at"))


def recognise(user: User, key_id: str) -> ReviewerKey:
    """The person says that the key is theirs; again changes nothing. NOT_FOUND for another's."""
    with transaction.atomic(), connection.cursor() as cur:
        mine = ReviewerKey.objects.select_for_update(of=("self",)).filter(user=user, key_id=key_id)
        key = mine.first()
        if key is None:
            raise not_found()
        if key.acknowledged_at is None:
            key.acknowledged_at = rows.clock(cur)
            key.save(update_fields=["acknowledged_at"])
            audit.note(cur, "key.recognised", actor=f"user:{user.id}", data={"key_id": key.key_id})
    return key
