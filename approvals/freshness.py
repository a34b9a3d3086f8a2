"""When this session's holder last proved who they are: enrolling a key asks for it to be recent."""

from collections.abc import Mapping, MutableMapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from approvals.errors import Refused

FRESH_FOR: Final = timedelta(minutes=10)
_KEY: Final = "authenticated_at"


def note(session: MutableMapping[str, Any]) -> None:
    """The password was right just now."""
    session[_KEY] = datetime.now(UTC).isoformat()


def on_login(sender: object, request: Any, user: object, **extra: object) -> None:
    """Receiver of `user_logged_in`."""
    note(request.session)


def is_fresh(session: Mapping[str, Any]) -> bool:
    said = session.get(_KEY)
    return said is not None and datetime.now(UTC) - datetime.fromisoformat(said) <= FRESH_FOR


def check_is_fresh(session: Mapping[str, Any]) -> None:
    """Raise LOGIN_NOT_FRESH where the password was typed more than ten minutes ago."""
    if not is_fresh(session):
        raise Refused(
            "LOGIN_NOT_FRESH",
            "Type your password again: a signing key is only enrolled within ten minutes of it.",
        )
