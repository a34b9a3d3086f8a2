"""What a restricted key may do. `rk_` keys named in setting `key_permissions` may do that alone."""

import sqlite3
from typing import Any

from crashlab.provider.answers import Refused, error
from crashlab.provider.shelf import setting

#: URL segment -> the name of its permission, without `rak_` before and `_read` behind.
_NAMES = {
    "account": "accounts_kyc_basic",
    "charges": "charge",
    "customers": "customer",
    "events": "event",
    "invoices": "invoice",
    "payment_intents": "payment_intent",
    "payouts": "payout",
    # Refunds are read with the permission of charges.
    "refunds": "charge",
    "subscriptions": "subscription",
    "test_helpers": "billing_clock",
    "transfers": "transfer",
}


def check(connection: sqlite3.Connection, key: str, method: str, path: str) -> None:
    """Raises Refused 403, naming the permission that is missing, as Stripe does."""
    allowed: dict[str, Any] = setting(connection, "key_permissions", {})
    if not key.startswith("rk_") or key not in allowed:
        return
    segment = path.removeprefix("/v1/").partition("/")[0]
    wanted = f"rak_{_NAMES.get(segment, segment)}_{'read' if method == 'GET' else 'write'}"
    if wanted in allowed[key]:
        return
    message = (
        f"The provided key '{key[:8]}****' does not have the required permissions for this endpoint"
        f". Having the '{wanted}' permission would allow this request to continue."
    )
    raise Refused(403, error("invalid_request_error", message))
