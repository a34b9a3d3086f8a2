"""Provider accounts on their pages: made, changed, and their look-ups tried by hand."""

import html
import logging
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from django.core.cache import cache
from django.db import connection
from django.db.models.functions import Now
from django.test import Client
from django.test.utils import CaptureQueriesContext

from operations.ids import handle
from operations.models import Event
from reconcilers import accounts, keyring
from reconcilers.models import DueLook, Finding, ProviderAccount
from tests.support import approving
from tests.support.orders_server import OrdersServer

pytestmark = pytest.mark.django_db


@pytest.fixture
def orders() -> Iterator[OrdersServer]:
    server = OrdersServer()
    server.start()
    yield server
    server.stop()


@pytest.fixture
def admin() -> Iterator[Client]:
    cache.clear()
    yield signed_in("admin")
    cache.clear()


def signed_in(role: str) -> Client:
    client = Client()
    client.force_login(approving.user(role=role))
    return client


def typed(orders: OrdersServer, **changes: str) -> dict[str, str]:
    """The form as an admin fills it."""
    known = {
        "environment": "test",
        "namespace": "default",
        "name": "orders",
        "field-url": f"{orders.url}/orders?reference={{key}}",
        "field-bearer": orders.token,
        "field-items": "/data",
        "field-id": "/id",
        "field-marker": "/reference",
        "field-status": "/state",
        "field-statuses": "done: [paid]",
        "field-amount": "/total",
        "field-amount_exponent": "2",
        "field-currency": "/currency",
        "field-created_at": "/created",
        "field-empty": "[empty_list]",
        "field-class": "B",
        "field-strongly_consistent": "yes",
        "field-complete": "yes",
        "field-account_url": f"{orders.url}/me",
        "field-account_pointer": "/id",
        "field-allow_http": "yes",
        "field-allow_private": "yes",
        "field-timeout_seconds": "2",
    }
    return known | changes


@pytest.fixture
def page(admin: Client, orders: OrdersServer) -> str:
    """The address of an account that was made by the form."""
    answer = admin.post("/reconcilers/accounts/new/http/", typed(orders))
    assert answer.status_code == 302, text_of(answer)
    return str(answer.headers["Location"])


def text_of(answer: Any) -> str:
    return html.unescape(answer.content.decode())


def events() -> list[tuple[str, dict[str, Any]]]:
    found = Event.objects.filter(type__startswith="account.").order_by("id")
    return [(event.type.partition(".")[2], event.data) for event in found]


class TestMaking:
    def test_the_form_is_the_providers_schema(self, admin):
        form = text_of(admin.get("/reconcilers/accounts/new/stripe/"))
        assert 'name="field-secret_key" type="password"' in form
        assert 'autocomplete="new-password"' in form
        assert "sk_… or rk_…" in form

    def test_what_was_typed_is_kept_with_its_secrets_encrypted(self, admin, orders, page):
        account = ProviderAccount.objects.get()
        assert page == f"/reconcilers/accounts/{handle('acc', account.pk)}/"
        assert account.config["empty"] == ["empty_list"]
        assert account.config["statuses"] == {"done": ["paid"]}
        assert account.config["amount_exponent"] == 2
        assert account.config["complete"] is True
        assert keyring.open_sealed(bytes(account.secrets)) == {"bearer": orders.token}
        assert orders.token not in str(account.config)
        assert orders.token.encode() not in bytes(account.secrets)

    def test_no_page_and_no_record_ever_shows_the_secret(self, admin, orders, page, caplog):
        with caplog.at_level(logging.DEBUG):
            pages = [admin.get(page), admin.get(f"{page}edit/"), admin.get("/reconcilers/")]
            bad = typed(orders) | {"field-class": "D"}
            pages.append(admin.post("/reconcilers/accounts/new/http/", bad))
            pages.append(admin.post(f"{page}test/", {"lookup": "lookup", "key": "k"}))
        for answer in pages:
            assert orders.token not in text_of(answer)
        assert orders.token not in caplog.text
        assert orders.token not in str(events())
        assert keyring.masked(orders.token) in text_of(pages[0])

    @pytest.mark.parametrize(
        ("changes", "says"),
        [
            ({"field-id": ""}, "id: missing"),
            ({"field-url": "ftp://x/{key}"}, "url: expected an address"),
            ({"field-empty": "[: nonsense"}, "empty: expected YAML"),
            ({"field-empty": "[&a x, *a]"}, "empty: expected no aliases"),
            ({"field-empty": "404"}, "empty: expected a list"),
            ({"field-empty": "[500]"}, "empty: expected some of 404, empty_list"),
            ({"field-timeout_seconds": "soon"}, "timeout_seconds: expected a whole number"),
            ({"field-complete": "maybe"}, "complete: expected yes or no"),
            ({"environment": "moon"}, "environment: expected one of"),
            ({"name": " "}, "name: expected a name"),
            ({"field-allow_private": ""}, "url: a private address"),
        ],
    )
    def test_what_cannot_be_is_said_at_its_field_and_nothing_is_kept(
        self, admin, orders, changes, says
    ):
        answer = admin.post("/reconcilers/accounts/new/http/", typed(orders) | changes)
        assert answer.status_code == 422
        shown = text_of(answer)
        assert says in shown
        assert f'value="{orders.url}/me"' in shown
        assert "Type it again" in shown
        assert not ProviderAccount.objects.exists()
        assert not events()

    def test_a_name_that_is_taken_is_refused(self, admin, orders, page):
        answer = admin.post("/reconcilers/accounts/new/http/", typed(orders))
        assert answer.status_code == 422
        assert "an account called 'orders' exists" in text_of(answer)

    def test_an_unknown_provider_has_no_form(self, admin):
        assert admin.get("/reconcilers/accounts/new/nowhere/").status_code == 404

    @pytest.mark.parametrize("role", ["viewer", "operator", "reviewer", "auditor"])
    def test_only_an_admin_makes_changes_and_pauses(self, orders, page, role):
        client = signed_in(role)
        before = ProviderAccount.objects.get()
        assert "needs admin" in text_of(client.get("/reconcilers/accounts/new/http/"))
        again = typed(orders, name="again")
        assert client.post("/reconcilers/accounts/new/http/", again).status_code == 403
        assert client.post(f"{page}edit/", typed(orders)).status_code == 403
        after = ProviderAccount.objects.get()
        assert (after.secrets, after.paused_at) == (before.secrets, None)
        assert [what for what, _ in events()] == ["created"]


class TestChanging:
    def test_a_secret_that_is_left_empty_stays(self, admin, orders, page):
        form = typed(orders) | {"field-bearer": "", "field-timeout_seconds": "9"}
        assert admin.post(f"{page}edit/", form).status_code == 302
        account = ProviderAccount.objects.get()
        assert account.config["timeout_seconds"] == 9
        assert accounts.access_to(account).secrets == {"bearer": orders.token}
        assert events()[-1][1]["fields"] == ["timeout_seconds"]

    def test_a_new_one_replaces_it_and_one_can_be_forgotten(self, admin, orders, page):
        admin.post(f"{page}edit/", typed(orders) | {"field-bearer": "another-token-123456"})
        account = ProviderAccount.objects.get()
        assert accounts.access_to(account).secrets == {"bearer": "another-token-123456"}
        assert events()[-1][1]["fields"] == ["bearer"]
        form = typed(orders) | {
            "field-bearer": "",
            "forget-bearer": "on",
            "field-header_name": "X-Api-Key",
            "field-header_value": "key-1234567890",
        }
        admin.post(f"{page}edit/", form)
        account.refresh_from_db()
        assert accounts.access_to(account).secrets == {"header_value": "key-1234567890"}

    def test_what_cannot_be_changes_nothing(self, admin, orders, page):
        before = ProviderAccount.objects.get()
        answer = admin.post(f"{page}edit/", typed(orders) | {"field-id": "no pointer"})
        assert answer.status_code == 422
        assert "id: expected a JSON pointer" in text_of(answer)
        after = ProviderAccount.objects.get()
        assert (after.config, bytes(after.secrets)) == (before.config, bytes(before.secrets))

    def test_a_paused_account_says_so(self, admin, page):
        ProviderAccount.objects.update(paused_at=Now())
        assert "Paused since" in text_of(admin.get(page))


class TestTrying:
    def test_a_hit_shows_the_object_and_what_it_would_prove(self, admin, orders, page):
        key = uuid4().hex
        order = orders.order(key)
        answer = admin.post(f"{page}test/", {"lookup": "lookup", "key": key})
        shown = text_of(answer)
        assert answer.status_code == 200
        assert "Found" in shown
        assert order["id"] in shown
        assert "EUR" in shown
        assert "25.00" in shown
        assert "Settles the call as happened" in shown
        assert "class B" in shown
        assert "merchant-7" in shown

    def test_a_miss_says_what_absence_would_need(self, admin, page):
        shown = text_of(admin.post(f"{page}test/", {"lookup": "lookup", "key": "never"}))
        assert "Nothing found" in shown
        assert "two such answers prove absence" in shown

    @pytest.mark.parametrize(
        ("fault", "says"),
        [("refused", "401, the credentials are not accepted"), ("outage", "503"), ("hang", "2 s")],
    )
    def test_a_failure_is_no_answer(self, admin, orders, page, fault, says):
        orders.fault = fault
        answer = admin.post(f"{page}test/", {"lookup": "lookup", "key": "k"})
        shown = text_of(answer)
        assert answer.status_code == 200
        assert "Could not look" in shown
        assert says in shown
        assert "Says nothing about the call" in shown

    def test_nothing_is_stored_but_a_line_of_the_audit(self, admin, orders, page):
        key = uuid4().hex
        orders.order(key)
        with CaptureQueriesContext(
            connection,
        ) as queries:
            admin.post(f"{page}test/", {"lookup": "lookup", "key": key})
        assert not Finding.objects.exists()
        assert not DueLook.objects.exists()
        writes = [q["sql"] for q in queries if q["sql"].lstrip().startswith(("INSERT", "UPDATE"))]
        assert len([sql for sql in writes if "django_session" not in sql]) == 1
        what, data = events()[-1]
        assert what == "tested"
        assert data["outcomes"] == ["hit"]
        assert key not in str(data)

    def test_a_get_asks_nobody(self, admin, orders, page):
        before = len(orders.asked)
        assert admin.get(f"{page}test/").status_code == 405
        admin.get(page)
        assert len(orders.asked) == before

    @pytest.mark.parametrize(("role", "status"), [("viewer", 403), ("auditor", 403)])
    def test_those_who_may_not_ask_a_provider_may_not_test(self, orders, page, role, status):
        answer = signed_in(role).post(f"{page}test/", {"lookup": "lookup", "key": "k"})
        assert answer.status_code == status
        assert not orders.asked

    def test_an_operator_may(self, page):
        answer = signed_in("operator").post(f"{page}test/", {"lookup": "lookup", "key": "k"})
        assert answer.status_code == 200

    def test_after_thirty_it_waits(self, admin, orders, page):
        form = {"lookup": "lookup", "key": ""}
        for _ in range(30):
            assert admin.post(f"{page}test/", form).status_code == 422
        answer = admin.post(f"{page}test/", form | {"key": "k"})
        assert answer.status_code == 429
        assert "Try again in" in text_of(answer)
        assert not orders.asked

    def test_a_lookup_that_writes_is_never_made_as_a_test(self, admin):
        account = accounts.create_account(
            "sql",
            environment="test",
            namespace="default",
            name="shop",
            document={
                "host": "127.0.0.1",
                "port": 9,
                "dbname": "shop",
                "user": "reads",
                "password": "password-of-reads",
                "query": "SELECT * FROM p WHERE idem_key = %(key)s",
                "tombstone": "INSERT INTO p (idem_key, status) VALUES (%(key)s, 'x')"
                " ON CONFLICT (idem_key) DO NOTHING",
                "tombstone_status": "x",
                "tombstone_user": "buries",
                "tombstone_password": "password-of-buries",
            },
        )
        page = f"/reconcilers/accounts/{handle('acc', account.pk)}/"
        shown = text_of(admin.get(page))
        assert "only for tools that name it" in shown
        assert '<option value="tombstone"' not in shown
        answer = admin.post(f"{page}test/", {"lookup": "tombstone", "key": "k"})
        assert answer.status_code == 422
        assert "never made as a test" in text_of(answer)

    def test_secrets_that_cannot_be_opened_are_said_so(self, admin, page):
        ProviderAccount.objects.update(secrets=b"not sealed by us")
        shown = text_of(admin.post(f"{page}test/", {"lookup": "lookup", "key": "k"}))
        assert "sealed with a key that is not in COUNTERSIGN_KEYRING" in shown
