"""The provider as the registry meets it: its schema, what it offers, and its limits.

`temporalio` is large, so that only a session imports it: a console without Temporal never does.
"""

from collections.abc import Mapping
from datetime import timedelta
from importlib.util import find_spec
from typing import Any, ClassVar

from reconcilers.evidence import Way
from reconcilers.providers.base import (
    AccountAccess,
    BadConfig,
    ConfigField,
    Gate,
    Provider,
    Session,
)
from reconcilers.providers.rest import check_numbers

#: Visibility is "eventually consistent", about a second behind; no bound is documented.
VISIBILITY_LAG = timedelta(minutes=5)

WORKFLOWS = frozenset({"workflow", "workflow_start"})

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})


class TemporalProvider(Provider):
    """One namespace of a Temporal cluster, self-hosted or Cloud."""

    kind = "temporal"
    title = "Temporal"
    default_object = "workflow"
    # Temporal Cloud allows 30 visibility reads a second for a namespace, and far more others.
    limits: ClassVar[Mapping[str, float]] = {"list": 10.0, "*": 50.0}
    concurrency = 8
    fields = (
        ConfigField(name="target", help="host:port of the frontend", required=True),
        ConfigField(name="namespace", help="the namespace's name", required=True),
        ConfigField(name="api_key", help="a key that may read the namespace", secret=True),
        ConfigField(name="client_cert", help="PEM of a client certificate", secret=True, long=True),
        ConfigField(name="client_key", help="PEM of its private key", secret=True, long=True),
        ConfigField(
            name="server_ca", help="PEM of the authority that signed the frontend's", long=True
        ),
        ConfigField(name="server_name", help="the name in the frontend's certificate"),
        ConfigField(
            name="tls",
            help="on or off; on wherever the target is another machine",
            choices=("on", "off"),
        ),
        ConfigField(name="account", help="the namespace's id (a UUID); asked where not given"),
        ConfigField(name="timeout_seconds", help="for one request, default 15", type=int),
        ConfigField(name="deadline_hours", help="until a person is asked, default 24", type=int),
        ConfigField(
            name="signed_release_above",
            help="per currency, minor units above which absence needs a signed release",
            type=dict,
        ),
        ConfigField(name="limits", help="requests per second: {list: 10, '*': 50}", type=dict),
    )

    def ways(self, object_kind: str) -> tuple[Way, ...]:
        """By workflow id (exact), by history (exact), and by visibility (behind)."""
        kind = object_kind or self.default_object
        if kind in WORKFLOWS:
            return (
                Way(
                    name="list",
                    lookup_class="C",
                    words="Temporal's visibility index",
                    lag=VISIBILITY_LAG,
                ),
                Way(
                    name="describe",
                    lookup_class="A",
                    words="Temporal's answer by workflow id",
                    exhaustive=True,
                ),
            )
        if kind == "activity":
            return (
                Way(
                    name="history",
                    lookup_class="A",
                    words="the workflow's history in Temporal",
                    exhaustive=True,
                ),
            )
        return ()

    def open(self, access: AccountAccess, gate: Gate) -> Session:
        """A session of the official client; connects at the first question."""
        from reconcilers.providers.temporal.session import TemporalSession

        return TemporalSession(access, gate, concurrency=self.concurrency)

    def check_account(self, environment: str, values: Mapping[str, Any]) -> None:
        """The client is installed, and no credential travels in the clear."""
        if find_spec("temporalio") is None:
            raise BadConfig(
                "target: the package temporalio is not installed here; install what"
                " requirements.lock names, and make the account again"
            )
        if ("client_cert" in values) != ("client_key" in values):
            raise BadConfig("client_cert: it and client_key come together")
        host, separator, port = str(values["target"]).rpartition(":")
        if not (separator and host and port.isdigit()) or "/" in host:
            raise BadConfig("target: expected host:port, such as 127.0.0.1:7233")
        if not encrypts(values):
            if "client_cert" in values or "server_ca" in values:
                raise BadConfig("tls: certificates are given, and tls is off")
            if host not in _LOOPBACK and "api_key" in values:
                raise BadConfig("tls: the API key would travel in the clear; leave tls on")
        check_numbers({n: values[n] for n in ("limits", "timeout_seconds") if n in values})


def encrypts(values: Mapping[str, Any]) -> bool:
    """Whether connections are encrypted: as configured, else wherever they leave this machine."""
    if values.get("tls"):
        return bool(values["tls"] == "on")
    if "client_cert" in values or "server_ca" in values:
        return True
    return str(values["target"]).rpartition(":")[0] not in _LOOPBACK
