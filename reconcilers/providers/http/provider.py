"""The provider as the registry meets it: its schema, and the look-up that an account declares."""

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from reconcilers.evidence import Way
from reconcilers.providers.base import AccountAccess, ConfigField, Gate, Provider, Session
from reconcilers.providers.http import declaration
from reconcilers.providers.http.declaration import CLASSES, EMPTY, Declaration
from reconcilers.providers.http.items import KIND
from reconcilers.providers.http.session import HttpSession

_POINTERS: Final = {
    "items": "the list of objects; without it the answer is one object",
    "id": "in each object: its id",
    "marker": "in each object: our key, exactly",
    "status": "in each object: the word that `statuses` explains",
    "amount": "in each object: the amount",
    "currency": "in each object: its currency",
    "created_at": "in each object: when it came to be",
    "mode": "in each object: live or test, or whether it is live",
    "next": "the next page's address, empty on the last",
}


class HttpProvider(Provider):
    """Any JSON interface, as far as one GET by the key tells."""

    kind = "http"
    title = "HTTP"
    default_object = KIND
    limits: ClassVar[Mapping[str, float]] = {"*": 10.0}
    concurrency = 8
    fields = (
        ConfigField(name="url", help="https://…/{key}, also {since}, {since_unix}", required=True),
        ConfigField(name="bearer", help="a token", secret=True),
        ConfigField(name="basic_user", help="a name, for basic sign-in"),
        ConfigField(name="basic_password", help="its password", secret=True),
        ConfigField(name="header_name", help="a header that holds a key, such as X-Api-Key"),
        ConfigField(name="header_value", help="that key", secret=True),
        *(
            ConfigField(name=name, help=f"JSON pointer: {text}", required=name in {"id", "marker"})
            for name, text in _POINTERS.items()
        ),
        ConfigField(name="amount_exponent", help="2 where amounts are in whole euros", type=int),
        ConfigField(name="statuses", help="done, in_flight, not_reached: lists", type=dict),
        ConfigField(
            name="empty",
            help=f"what means nothing there, of [{', '.join(EMPTY)}]",
            type=list,
            required=True,
        ),
        ConfigField(name="class", help="what it can prove", choices=CLASSES, default="C"),
        ConfigField(name="strongly_consistent", help="a read sees every write", type=bool),
        ConfigField(name="complete", help="the answer holds every object", type=bool),
        ConfigField(name="lag_seconds", help="how far it may be behind", type=int),
        ConfigField(name="horizon_days", help="how long it remembers", type=int),
        ConfigField(name="item_url", help="https://…/{id}: one object, for classes C and E"),
        ConfigField(name="account_url", help="who the credentials belong to"),
        ConfigField(name="account_pointer", help="JSON pointer: the account's id in that"),
        ConfigField(name="account", help="that id; learnt where it is not given"),
        ConfigField(name="allow_http", help="unencrypted, for addresses inside", type=bool),
        ConfigField(name="allow_private", help="addresses inside your network", type=bool),
        ConfigField(name="timeout_seconds", help="for one request, default 10", type=int),
        ConfigField(name="deadline_hours", help="until a person is asked, default 24", type=int),
        ConfigField(
            name="signed_release_above",
            help="per currency, minor units above which absence needs a signed release",
            type=dict,
        ),
        ConfigField(name="limits", help="requests per second: {lookup: 10}", type=dict),
    )

    def ways(self, object_kind: str) -> tuple[Way, ...]:
        """What is sure of every account: a look-up that proves nothing yet."""
        if (object_kind or KIND) != KIND:
            return ()
        return (Way(name="lookup", lookup_class="C", words="the interface's answer"),)

    def ways_of(self, object_kind: str, config: Mapping[str, Any]) -> tuple[Way, ...]:
        """The look-up in the class that the account declares."""
        return (Declaration(config).way,) if (object_kind or KIND) == KIND else ()

    def open(self, access: AccountAccess, gate: Gate) -> Session:
        """A session; it connects when it is asked."""
        return HttpSession(access, gate, concurrency=self.concurrency)

    def check_account(self, environment: str, values: Mapping[str, Any]) -> None:
        """Raise BadConfig where the declaration cannot be right."""
        declaration.check(values)
