"""The provider as the registry meets it: its schema, what it offers, and its limits."""

import re
from collections.abc import Mapping
from datetime import timedelta
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
from reconcilers.providers.github.objects import OBJECTS
from reconcilers.providers.github.session import GitHubSession
from reconcilers.providers.rest import check_base_url, check_numbers

#: No bound is documented. Eight minutes were seen, and six hours in an outage of the index.
LIST_LAG = timedelta(hours=1)

_REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,99}/[A-Za-z0-9._-]{1,100}")


class GitHubProvider(Provider):
    """One repository on github.com or a GitHub Enterprise Server."""

    kind = "github"
    title = "GitHub"
    default_object = "deployment"
    # Search takes 30 requests a minute; 5,000 an hour for all is told in the answers' headers.
    limits: ClassVar[Mapping[str, float]] = {"search": 0.5, "*": 5.0}
    concurrency = 4
    fields = (
        ConfigField(
            name="token",
            help="a token that may read the repository's deployments and issues",
            secret=True,
            required=True,
        ),
        ConfigField(name="repository", help="owner/name", required=True),
        ConfigField(name="account", help="the repository's id; asked from GitHub where not given"),
        ConfigField(
            name="base_url", help="https://HOST/api/v3 of an Enterprise Server, or a stand-in"
        ),
        ConfigField(name="timeout_seconds", help="for one request, default 15", type=int),
        ConfigField(name="deadline_hours", help="until a person is asked, default 24", type=int),
        ConfigField(name="limits", help="requests per second: {search: 0.5, '*': 5}", type=dict),
    )

    def ways(self, object_kind: str) -> tuple[Way, ...]:
        """By number or id (exact, but silent about others), by list, and for issues by search."""
        described = OBJECTS.get(object_kind or self.default_object)
        if described is None:
            return ()
        ways = [
            Way(name="get", lookup_class="A", words="GitHub's answer by id"),
            Way(
                name="list",
                lookup_class="C",
                words=f"the repository's list of {described.path}",
                lag=LIST_LAG,
            ),
        ]
        if described.searchable:
            ways.append(
                Way(
                    name="search",
                    lookup_class="C",
                    words=f"GitHub's search over {described.path}",
                    lag=LIST_LAG,
                )
            )
        return tuple(ways)

    def open(self, access: AccountAccess, gate: Gate) -> Session:
        """A session over HTTP."""
        return GitHubSession(access, gate, ways=self.ways, concurrency=self.concurrency)

    def check_account(self, environment: str, values: Mapping[str, Any]) -> None:
        """The repository is named as GitHub names it, and the origin is one."""
        name = str(values["repository"])
        if not _REPOSITORY.fullmatch(name) or name.endswith(("/.", "/..")):
            raise BadConfig("repository: expected owner/name")
        if "base_url" in values:
            check_base_url(values["base_url"])
        numbers = ("limits", "timeout_seconds")
        check_numbers({name: values[name] for name in numbers if name in values})
