"""Pausing and resuming a provider account, with the record of who did it, when and why.

The reconciler carries it out and the ledger keeps it, in one transaction: the two floors below
never meet, so they meet here.
"""

from typing import Final
from uuid import UUID

from django.db import connection, transaction

from approvals import audit, permissions
from approvals.errors import Refused, not_found
from approvals.models import User
from operations.actors import Scope
from reconcilers import services
from reconcilers.models import ProviderAccount

SHORTEST_REASON: Final = 10
LONGEST_REASON: Final = 500


def pause(user: User, account_id: UUID, reason: str) -> ProviderAccount:
    """Ask this account nothing until it is resumed; a reason of ten characters at least."""
    return _change(user, account_id, reason, "account.paused")


def resume(user: User, account_id: UUID, reason: str) -> ProviderAccount:
    """Ask again, beginning with what waited."""
    return _change(user, account_id, reason, "account.resumed")


def _change(user: User, account_id: UUID, reason: str, event_type: str) -> ProviderAccount:
    permissions.check_may(user, "handle")
    reason = reason.strip()
    if not SHORTEST_REASON <= len(reason) <= LONGEST_REASON or "\x00" in reason:
        raise Refused(
            "VALIDATION_ERROR",
            f"Say in {SHORTEST_REASON} to {LONGEST_REASON} characters why.",
            pointer="/reason",
        )
    actor = f"user:{user.id}"
    with transaction.atomic(), connection.cursor() as cur:
        account = ProviderAccount.objects.select_for_update().filter(pk=account_id).first()
        if account is None:
            raise not_found()
        if (account.paused_at is not None) == (event_type == "account.paused"):
            return account
        carry_out = services.pause_account if account.paused_at is None else services.resume_account
        carry_out(account.id, actor=actor)
        data = {
            "account": str(account.id),
            "name": account.name,
            "kind": account.kind,
            "reason": reason,
        }
        scope = Scope(account.environment, account.namespace)
        audit.note(cur, event_type, actor=actor, scope=scope, data=data)
    return account
