"""The provider as the registry meets it: its schema, what it offers, and its limits."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, ClassVar

from reconcilers.evidence import Way
from reconcilers.providers.base import AccountAccess, ConfigField, Gate, Provider, Session
from reconcilers.providers.postmark.session import PostmarkSession
from reconcilers.providers.rest import check_base_url, check_numbers

#: How far the log is behind is not documented; this is a choice, and an empty search proves
#: nothing whatever its value.
LOG_LAG = timedelta(hours=1)

WAYS = (
    Way(name="get", lookup_class="A", words="Postmark's answer by message id"),
    Way(name="search", lookup_class="C", words="a search of Postmark's log", lag=LOG_LAG),
)


class PostmarkProvider(Provider):
    """The outbound mail of one Postmark server."""

    kind = "postmark"
    title = "Postmark"
    default_object = "email"
    limits: ClassVar[Mapping[str, float]] = {"*": 10.0}
    concurrency = 6
    fields = (
        ConfigField(
            name="server_token",
            help="a server API token, of a server whose type is the environment's",
            secret=True,
            required=True,
        ),
        ConfigField(
            name="marker_in",
            help="where the call carries the key: metadata (idem_key) or tag",
            choices=("metadata", "tag"),
            default="metadata",
        ),
        ConfigField(name="message_stream", help="the stream to search, where it is not outbound"),
        ConfigField(
            name="retention_days",
            help="how long this server keeps messages, default 45",
            type=int,
            default=45,
        ),
        ConfigField(name="account", help="the server's id; asked from Postmark where not given"),
        ConfigField(name="base_url", help="origin of a stand-in for api.postmarkapp.com"),
        ConfigField(name="timeout_seconds", help="for one request, default 15", type=int),
        ConfigField(name="deadline_hours", help="until a person is asked, default 24", type=int),
        ConfigField(name="limits", help="requests per second: {'*': 10}", type=dict),
    )

    def ways(self, object_kind: str) -> tuple[Way, ...]:
        """By message id (exact, but silent about other messages), and by search."""
        return WAYS if (object_kind or self.default_object) == "email" else ()

    def open(self, access: AccountAccess, gate: Gate) -> Session:
        """A session over HTTP."""
        return PostmarkSession(access, gate, ways=self.ways, concurrency=self.concurrency)

    def check_account(self, environment: str, values: Mapping[str, Any]) -> None:
        """The origin is one, and numbers are above zero."""
        if "base_url" in values:
            check_base_url(values["base_url"])
        numbers = ("limits", "retention_days", "timeout_seconds")
        check_numbers({name: values[name] for name in numbers if name in values})
