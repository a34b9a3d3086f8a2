"""Everything the page of one approval request shows."""

import json
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import Any

from django.db import connection

from approvals import decisions, permissions
from approvals.display import Leaf
from approvals.errors import Refused
from approvals.models import ApprovalRequest, Decision, ReviewerKey, User
from console.presentation import words
from console.presentation.words import Headline
from console.queries import actors
from console.queries.operation import OperationPage
from operations import ids
from operations.models import Operation

#: Approved calls of the same tool that the amounts are compared with.
_USUAL = 50

STATUSES: dict[str, Headline] = {
    "pending": words.HEADLINES["waiting"],
    "approved": Headline("approved", "Approved", "stamp"),
    "denied": words.HEADLINES["denied"],
    "expired": words.HEADLINES["expired"],
    "withdrawn": words.HEADLINES["withdrawn"],
    "superseded": words.HEADLINES["superseded"],
}


def find(handle: str) -> ApprovalRequest | None:
    """The request behind `apr_…`."""
    key = ids.parse_handle("apr", handle)
    if key is None:
        return None
    rows = ApprovalRequest.objects.select_related("operation", "operation__run")
    return rows.filter(pk=key).first()


@dataclass
class ApprovalPage:
    """Read lazily."""

    request: ApprovalRequest
    user: User

    @cached_property
    def view(self) -> OperationPage:
        """The call that is asked about."""
        return OperationPage(self.request.operation)

    @cached_property
    def headline(self) -> Headline:
        """The request's own status; past its deadline it reads expired at once."""
        if self.request.status == "pending" and self.is_over:
            return STATUSES["expired"]
        return STATUSES[self.request.status]

    @cached_property
    def is_over(self) -> bool:
        """Has its time run out?"""
        return self.request.expires_at <= self.view.now

    @cached_property
    def is_running_out(self) -> bool:
        """Is a fifth of its time left, or less than two minutes?"""
        if self.request.status != "pending" or self.is_over:
            return False
        whole = self.request.expires_at - self.request.created_at
        left = self.request.expires_at - self.view.now
        return left < max(whole / 5, timedelta(minutes=2))

    @cached_property
    def document(self) -> dict[str, Any]:
        """The immutable document that every signature binds."""
        document: dict[str, Any] = json.loads(bytes(self.request.document))
        return document

    @cached_property
    def requester(self) -> str:
        """Who asks, by name."""
        return actors.names([self.request.requester])[self.request.requester]

    @cached_property
    def decisions(self) -> list[Decision]:
        """Signatures so far. Others' stay hidden from a reviewer who has yet to decide."""
        signed = list(self.request.decisions.select_related("user", "key").order_by("decided_at"))
        if self.is_blind(signed):
            return []
        return signed

    def is_blind(self, signed: list[Decision]) -> bool:
        """A second reviewer sees nothing of the first until both are in."""
        open_still = self.request.status == "pending" and self.request.quorum > 1
        return open_still and all(decision.user_id != self.user.pk for decision in signed)

    @cached_property
    def hidden(self) -> int:
        """How many signatures are kept from this person."""
        return self.request.decisions.count() - len(self.decisions)

    @cached_property
    def cannot_approve(self) -> str:
        """Why this person may not approve it; empty where they may."""
        return decisions.why_not(self.user, self.request.handle, "approve") or ""

    @cached_property
    def cannot_deny(self) -> str:
        """The same for a denial."""
        return decisions.why_not(self.user, self.request.handle, "deny") or ""

    @cached_property
    def keys(self) -> list[ReviewerKey]:
        """Keys of this person that the rule lets sign, the last used first."""
        return permissions.usable_keys(self.user, self.request.min_custody)

    @cached_property
    def must_open(self) -> list[Leaf]:
        """Values that the page folds: whoever approves says that they were read."""
        try:
            with connection.cursor() as cur:
                shown = decisions.show(cur, self.request)
        except Refused:
            # Erased arguments cannot be approved; `cannot_approve` says so.
            return []
        return [leaf for leaf in shown.leaves if leaf.folded]

    @cached_property
    def warnings(self) -> list[tuple[str, str]]:
        """Each kind of warning among the arguments once, with what it means."""
        args = self.view.args
        found = {told for leaf in args.leaves for told in leaf.told} if args else set()
        return sorted(found)

    @cached_property
    def unusual(self) -> list[str]:
        """How the call differs from the last ones of its tool that took place."""
        operation = self.request.operation
        past = list(
            Operation.objects.filter(
                environment=operation.environment,
                namespace=operation.namespace,
                tool=operation.tool,
                state="COMMITTED",
            )
            .exclude(pk=operation.pk)
            .order_by("-id")
            .values_list("amount_minor", "currency")[:_USUAL]
        )
        if not past:
            return [f"The first {operation.tool} call here that would take place."]
        return _compared(operation, [a for a, cur in past if a and cur == operation.currency])

    @cached_property
    def asked_before(self) -> int:
        """How often exactly these arguments were asked about, this request included."""
        return ApprovalRequest.objects.filter(
            args_fingerprint=self.request.args_fingerprint,
            environment=self.request.environment,
            namespace=self.request.namespace,
        ).count()


def _compared(operation: Operation, amounts: list[int]) -> list[str]:
    if operation.amount_minor is None or len(amounts) < 5:
        return []
    amounts.sort()
    median = amounts[len(amounts) // 2]
    if operation.amount_minor > amounts[-1]:
        return [f"The amount is larger than all of the last {len(amounts)} calls of this tool."]
    if median and operation.amount_minor > 3 * median:
        times = operation.amount_minor / median
        return [f"The amount is {times:.1f} times the usual of the last {len(amounts)} calls."]
    return []
