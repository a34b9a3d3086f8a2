"""The provider as the registry meets it: its schema, what it offers, and its limits."""

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any, ClassVar
from urllib.parse import urlsplit

from reconcilers.evidence import Way
from reconcilers.providers.base import (
    AccountAccess,
    BadConfig,
    ConfigField,
    Gate,
    Provider,
    Session,
)
from reconcilers.providers.hooks import Hook
from reconcilers.providers.stripe import hooks
from reconcilers.providers.stripe.objects import OBJECTS, kind_of
from reconcilers.providers.stripe.reader import mode_of_key
from reconcilers.providers.stripe.session import StripeSession

#: "Up to an hour behind during outages" (docstring of the SDK's search methods).
SEARCH_LAG = timedelta(hours=1)

_MOST_CONNECTIONS = 64

#: Stripe rolls a 500 forward or back later ("treat the result of a 500 as indeterminate").
LIFETIME_AFTER_500 = timedelta(hours=24)


class StripeProvider(Provider):
    """Stripe, v1 API, one account in one mode."""

    kind = "stripe"
    title = "Stripe"
    default_object = "payment_intent"
    limits: ClassVar[Mapping[str, float]] = {"search": 20.0, "*": 25.0}
    concurrency = 8
    fields = (
        ConfigField(
            name="secret_key",
            help="sk_… or rk_… with read permission, in the mode of the environment",
            secret=True,
            required=True,
        ),
        ConfigField(name="webhook_secret", help="whsec_… of this account's endpoint", secret=True),
        ConfigField(
            name="webhook_secret_before",
            help="whsec_… that still signs beside the new one while it is rolled",
            secret=True,
        ),
        ConfigField(name="account", help="acct_…; asked from Stripe where it is not given"),
        ConfigField(name="connected_account", help="acct_… to read on behalf of (Connect)"),
        ConfigField(
            name="transfer_group",
            help="idem_key, where charges and transfers carry our key as their transfer group too",
        ),
        ConfigField(name="base_url", help="origin of a stand-in for api.stripe.com"),
        ConfigField(name="timeout_seconds", help="for one request, default 15", type=int),
        ConfigField(name="deadline_hours", help="until a person is asked, default 24", type=int),
        ConfigField(
            name="signed_release_above",
            help="per currency, minor units above which absence needs a signed release",
            type=dict,
        ),
        ConfigField(
            name="limits",
            help="requests a second: {search: 20, '*': 25}; a month: {month: 10000}",
            type=dict,
        ),
    )

    def limits_in(self, environment: str) -> Mapping[str, float]:
        """A sandbox takes 25 requests a second in all; live takes 100, of which we use most."""
        return {**self.limits, "account": 25.0 if environment == "test" else 80.0}

    def ways(self, object_kind: str) -> tuple[Way, ...]:
        """By id (exact, but silent about other objects), by list, by search, by events."""
        described = OBJECTS.get(object_kind or self.default_object)
        if described is None:
            return ()
        nouns = described.path.replace("_", " ")
        ways = [
            Way(name="get", lookup_class="A", words="Stripe's answer by id"),
            Way(
                name="list",
                lookup_class="B",
                words=f"Stripe's list of {nouns}",
                exhaustive=not described.deletable,
            ),
        ]
        if described.searchable:
            ways.append(
                Way(name="search", lookup_class="C", words=f"Search over {nouns}", lag=SEARCH_LAG)
            )
        ways.append(
            Way(name="events", lookup_class="E", words=f"Stripe's log of events about {nouns}")
        )
        return tuple(ways)

    def open(self, access: AccountAccess, gate: Gate) -> Session:
        """A session of the official SDK."""
        limits = access.config.get("limits") or {}
        rate = float(limits.get("account") or self.limits_in(access.environment)["account"])
        # Enough to reach the limit with answers that take a third of a second.
        concurrency = min(max(int(rate / 3), self.concurrency), _MOST_CONNECTIONS)
        return StripeSession(access, gate, concurrency=concurrency)

    def check_account(self, environment: str, values: Mapping[str, Any]) -> None:
        """The key's mode is the environment's, and nobody meets the other mode by accident."""
        mode = mode_of_key(values["secret_key"])
        if not mode:
            raise BadConfig("secret_key: expected sk_live_…, sk_test_…, rk_live_… or rk_test_…")
        if mode != environment:
            raise BadConfig(f"secret_key: a {mode} key in the {environment} environment")
        base = values.get("base_url")
        if base is not None:
            parts = urlsplit(base)
            if parts.scheme not in {"http", "https"} or not parts.hostname:
                raise BadConfig("base_url: expected an origin, such as http://127.0.0.1:12111")
        if values.get("transfer_group") not in {None, "idem_key"}:
            raise BadConfig("transfer_group: expected idem_key, or nothing")
        for name in ("webhook_secret", "webhook_secret_before"):
            if not str(values.get(name, "whsec_")).startswith("whsec_"):
                raise BadConfig(f"{name}: expected whsec_…")
        for name, type_ in (("limits", int | float), ("signed_release_above", int)):
            members = values.get(name, {})
            if not all(isinstance(value, type_) and value >= 0 for value in members.values()):
                raise BadConfig(f"{name}: expected numbers that are not negative")
        if not all(rate > 0 for rate in values.get("limits", {}).values()):
            raise BadConfig("limits: expected rates above zero")

    def kind_of_id(self, object_id: str) -> str:
        """By its prefix: `pi_…` is a payment intent."""
        return kind_of(object_id) or ""

    def read_hook(self, access: AccountAccess, headers: Mapping[str, str], body: bytes) -> Hook:
        """A signed event of `/hooks/stripe/<account>`."""
        return hooks.read(access, headers, body)

    def request_lifetime(self, configured: timedelta, http_statuses: Iterable[int]) -> timedelta:
        """After a 500, a day: Stripe may still roll the request forward."""
        if any(status >= 500 for status in http_statuses):
            return max(configured, LIFETIME_AFTER_500)
        return configured
