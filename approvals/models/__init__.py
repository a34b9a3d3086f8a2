"""Who may decide, what was asked, what was signed."""

from approvals.models.decisions import Decision, PendingStatement, Resolution
from approvals.models.grants import Grant, GrantEpoch
from approvals.models.people import ReviewerKey, ReviewerToken, User
from approvals.models.policies import Policy
from approvals.models.requests import ApprovalRequest

__all__ = [
    "ApprovalRequest",
    "Decision",
    "Grant",
    "GrantEpoch",
    "PendingStatement",
    "Policy",
    "Resolution",
    "ReviewerKey",
    "ReviewerToken",
    "User",
]
