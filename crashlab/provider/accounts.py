"""Which account and mode a secret key opens. The two modes of one account never see each other."""

import base64
import binascii
import re
from dataclasses import dataclass

_KEY = re.compile(r"(?:sk|rk)_(test|live)_sim([A-Za-z0-9_]*)")
_ACCOUNT = re.compile(r"acct_sim[A-Za-z0-9_]*")


@dataclass(frozen=True)
class Account:
    id: str
    livemode: bool


class Unauthenticated(Exception):
    """No key, or none that opens an account here: HTTP 401."""


def authenticate(headers: dict[str, str]) -> Account:
    """`sk_test_sim<name>` opens account `acct_sim<name>` in test mode, `sk_live_…` in live.

    Bearer or Basic (the key as the user name), as Stripe takes them. `Stripe-Account` picks a
    connected account.
    """
    key = key_of(headers)
    match = _KEY.fullmatch(key)
    if match is None:
        raise Unauthenticated(
            f"Invalid API Key provided: {key[:8]}****" if key else "You did not provide an API key."
        )
    account = f"acct_sim{match[2]}"
    connected = headers.get("stripe-account")
    if connected is not None:
        if not _ACCOUNT.fullmatch(connected):
            raise Unauthenticated(f"The provided key does not have access to '{connected}'.")
        account = connected
    return Account(account, match[1] == "live")


def key_of(headers: dict[str, str]) -> str:
    """The key as it was sent; empty where there is none."""
    authorization = headers.get("authorization", "")
    scheme, _, value = authorization.partition(" ")
    if scheme.lower() == "bearer":
        return value.strip()
    if scheme.lower() == "basic":
        try:
            return base64.b64decode(value, validate=True).decode().partition(":")[0]
        except (binascii.Error, UnicodeDecodeError):
            return ""
    return ""
