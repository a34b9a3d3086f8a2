"""Facts about the person: what a role may do, and that the maker is not the checker.

Each rule speaks twice: `check_x` raises the sentence, `x` answers yes or no. The table of roles
stands here and nowhere else (design: the console, "Roles"). Admin cannot approve by being admin.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from approvals.errors import Refused
from approvals.models import ReviewerKey, User

ABILITIES: Final[Mapping[str, frozenset[str]]] = {
    "read": frozenset({"viewer", "operator", "reviewer", "admin", "auditor"}),
    "reveal": frozenset({"operator", "reviewer", "auditor"}),
    "handle": frozenset({"operator", "reviewer", "admin"}),
    "settle": frozenset({"operator", "reviewer"}),
    "decide": frozenset({"reviewer"}),
    "publish": frozenset({"admin"}),
    "manage_people": frozenset({"admin"}),
    "manage_accounts": frozenset({"admin"}),
    "read_audit": frozenset({"admin", "auditor"}),
    "export_audit": frozenset({"auditor"}),
    "start_drill": frozenset({"operator", "admin"}),
    "enrol": frozenset({"operator", "reviewer", "admin"}),
    "countersign": frozenset({"reviewer", "admin"}),
}
WORDS: Final = {
    "read": "read this",
    "reveal": "reveal masked values",
    "handle": "take work from the queue",
    "settle": "settle an UNKNOWN operation",
    "decide": "approve or deny",
    "publish": "publish policy",
    "manage_people": "manage people",
    "manage_accounts": "manage provider accounts",
    "read_audit": "read the audit",
    "export_audit": "export the audit",
    "start_drill": "start a drill",
    "enrol": "enrol a signing key",
    "countersign": "countersign a key",
}
#: The highest tier that an operator settles alone; above it the work is a reviewer's.
OPERATOR_TIERS: Final = ("T0", "T1", "T2")
CUSTODY_ORDER: Final = ("A0", "A1", "A2")


def may(user: User, ability: str) -> bool:
    return bool(user.is_active) and user.role in ABILITIES[ability]


def check_may(user: User, ability: str) -> None:
    """Raise FORBIDDEN with who can instead."""
    if not user.is_active:
        raise Refused("FORBIDDEN", "This account is not active.")
    if may(user, ability):
        return
    roles = sorted(ABILITIES[ability])
    people = User.objects.filter(role__in=roles, is_active=True).order_by("email")
    names = [str(person) for person in people[:4]]
    who = ", ".join(names[:3]) + (" and others" if len(names) > 3 else "")
    can = f" {who} can." if names else " Nobody here has that role yet."
    raise Refused(
        "FORBIDDEN",
        f"To {WORDS[ability]} needs {' or '.join(roles)}; you are {user.role}.{can}",
    )


def names_person(text: str, user: User) -> bool:
    """Whether `user:<id>`, an id or an e-mail address in a record means this person."""
    word = text.removeprefix("user:").strip().lower()
    return word != "" and word in (str(user.id), user.email.lower())


def check_is_not_maker(
    user: User,
    *,
    requester: str,
    launched_by: str,
    published_by: str,
    never: Sequence[str],
) -> None:
    """Raise SEPARATION_OF_DUTIES where this person asked, launched, wrote the rule or is barred."""
    reasons = {
        "You requested this call; somebody else decides about it.": requester,
        "You launched the agent that asks; somebody else decides about it.": launched_by,
        "You published the rule that asks; somebody else decides under it.": published_by,
    }
    for sentence, person in reasons.items():
        if person and names_person(person, user):
            raise Refused("SEPARATION_OF_DUTIES", sentence)
    if any(names_person(person, user) for person in never):
        raise Refused("SEPARATION_OF_DUTIES", "The rule says that you never approve this.")


def check_is_in_groups(user: User, groups: Sequence[Mapping[str, Any]], quorum: int) -> None:
    """Raise FORBIDDEN where only members of named groups can fill the quorum."""
    if not groups or quorum > sum(group["quorum"] for group in groups):
        return
    if not any(user.email.lower() in group["members"] for group in groups):
        names = ", ".join(group["name"] for group in groups)
        raise Refused("FORBIDDEN", f"The rule asks members of {names}; you are in none of them.")


def check_key(user: User, key: ReviewerKey, min_custody: str) -> None:
    """Raise where this key cannot sign for this person under this custody."""
    if key.user_id != user.id:
        raise Refused("FORBIDDEN", "The key belongs to another person.", check="credential")
    if key.revoked_at is not None:
        raise Refused("FORBIDDEN", f"The key {key.name} was revoked.", check="credential")
    if key.purpose != "approve":
        raise Refused("FORBIDDEN", "The key is not for approvals.", check="credential")
    if not key.bootstrap and key.countersigned_by_id is None:
        raise Refused(
            "FORBIDDEN",
            f"The key {key.name} waits for the countersignature of a reviewer or an admin.",
            check="credential",
        )
    if CUSTODY_ORDER.index(key.custody) < CUSTODY_ORDER.index(min_custody):
        raise Refused(
            "CUSTODY_TOO_LOW",
            f"The rule asks for {min_custody} and {key.name} is {key.custody}: "
            "use a passkey or a hardware key.",
            check="assurance",
        )


def usable_keys(user: User, min_custody: str) -> list[ReviewerKey]:
    """This person's keys that may sign under this custody, the last used first."""
    usable = []
    for key in ReviewerKey.objects.filter(user=user, revoked_at=None).order_by("-last_used_at"):
        try:
            check_key(user, key, min_custody)
        except Refused:
            continue
        usable.append(key)
    return usable


def check_may_settle(user: User, tier: str) -> None:
    """Operators settle up to their tier; reviewers any."""
    check_may(user, "settle")
    if user.role == "operator" and tier not in OPERATOR_TIERS:
        raise Refused(
            "FORBIDDEN", f"This call is {tier}; operators settle up to {OPERATOR_TIERS[-1]}."
        )


def may_settle(user: User, tier: str) -> bool:
    try:
        check_may_settle(user, tier)
    except Refused:
        return False
    return True
