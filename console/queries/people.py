"""What a person may do, as the pages say it. The table of roles is `approvals.permissions`."""

from approvals import permissions
from approvals.errors import Refused
from approvals.models import User


def why_not(user: User, ability: str) -> str:
    """Empty where the person may; else the sentence that stands in the action's place."""
    try:
        permissions.check_may(user, ability)
    except Refused as refused:
        return refused.detail
    return ""
