"""Provider accounts in a browser: by an admin, without script, narrow and wide, light and dark."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from tests.browser.pages.conftest import sign_in
from tests.browser.pages.test_every_page import _OVERFLOW, _RUN, _TAGS, AXE
from tests.support.orders_server import OrdersServer
from tests.support.product import Product


@pytest.fixture(scope="module")
def orders() -> Iterator[OrdersServer]:
    server = OrdersServer()
    server.start()
    yield server
    server.stop()


def fill(page: Page, orders: OrdersServer, name: str) -> None:
    """Everything that the http provider needs, by label, as a person does."""
    page.get_by_label("test", exact=True).check()
    page.locator("#name").fill(name)
    texts = {
        "url": f"{orders.url}/orders?reference={{key}}",
        "bearer": orders.token,
        "items": "/data",
        "id": "/id",
        "marker": "/reference",
        "empty": "[empty_list]",
        "amount": "/total",
        "amount_exponent": "2",
        "currency": "/currency",
        "created_at": "/created",
        "account_url": f"{orders.url}/me",
        "account_pointer": "/id",
    }
    for field, text in texts.items():
        page.locator(f"#field-{field}").fill(text)
    page.locator("#field-class").select_option("B")
    for field in ("strongly_consistent", "complete", "allow_http", "allow_private"):
        page.locator(f"#field-{field}").select_option("yes")


def test_an_account_is_made_tested_and_changed_without_script(
    chromium: Browser, live_product: Product, places: dict[str, str], orders: OrdersServer
) -> None:
    del places
    orders.order("key-of-a-call")
    context = chromium.new_context(base_url=live_product.base_url, java_script_enabled=False)
    page = context.new_page()
    sign_in(page, "admin")
    page.goto("/reconcilers/")
    page.get_by_role("link", name="Add an account").click()
    page.get_by_role("link", name="HTTP").click()
    fill(page, orders, "orders-by-hand")
    page.locator("#field-marker").fill("no pointer")
    page.get_by_role("button", name="Keep the account").click()
    assert page.get_by_role("alert").filter(has_text="marker: expected a JSON pointer").is_visible()
    page.locator("#field-marker").fill("/reference")
    page.get_by_role("button", name="Keep the account").click()
    assert page.url.endswith("/new/http/")  # the secret is gone, and has to be typed again
    page.locator("#field-bearer").fill(orders.token)
    page.get_by_role("button", name="Keep the account").click()
    page.wait_for_url("**/reconcilers/accounts/acc_*/")
    page.get_by_label("Idempotency key").fill("key-of-a-call")
    page.get_by_role("button", name="Test this look-up").click()
    answer = page.get_by_role("region", name="What lookup answered")
    assert "Settles the call as happened" in answer.inner_text()
    page.get_by_role("link", name="Change").click()
    page.locator("#field-timeout_seconds").fill("3")
    page.get_by_role("button", name="Change the account").click()
    page.wait_for_url("**/reconcilers/accounts/acc_*/")
    assert page.get_by_text("orders-by-hand is changed").is_visible()
    context.close()


@pytest.mark.parametrize(("width", "theme"), [(1280, "light"), (390, "dark"), (320, "light")])
def test_axe_finds_nothing_and_nothing_overflows(
    chromium: Browser,
    live_product: Product,
    places: dict[str, str],
    orders: OrdersServer,
    width: int,
    theme: str,
) -> None:
    del places
    context = chromium.new_context(
        base_url=live_product.base_url,
        bypass_csp=True,  # for axe alone
        viewport={"width": width, "height": 720},
        color_scheme=theme,  # type: ignore[arg-type]
    )
    page, faults = context.new_page(), list[str]()
    sign_in(page, "admin")
    for name in ("", "accounts/new/", "accounts/new/sql/"):
        page.goto(f"/reconcilers/{name}")
        judge(page, f"{name.replace('/', '-')}{width}-{theme}", faults)
    page.goto("/reconcilers/accounts/new/http/")
    fill(page, orders, f"orders-{width}-{theme}")
    page.locator("#field-id").fill("no pointer")
    page.get_by_role("button", name="Keep the account").click()
    judge(page, f"refused-{width}-{theme}", faults)
    page.locator("#field-id").fill("/id")
    page.locator("#field-bearer").fill(orders.token)
    page.get_by_role("button", name="Keep the account").click()
    page.wait_for_url("**/reconcilers/accounts/acc_*/")
    judge(page, f"account-{width}-{theme}", faults)
    page.get_by_label("Idempotency key").fill("never")
    page.get_by_role("button", name="Test this look-up").click()
    page.wait_for_url("**/test/")
    judge(page, f"tested-{width}-{theme}", faults)
    context.close()
    assert faults == []


def judge(page: Page, name: str, faults: list[str]) -> None:
    folder = os.environ.get("SCREENSHOTS")
    if folder:
        page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)
    page.add_script_tag(path=AXE)
    for violation in page.evaluate(_RUN, _TAGS)["violations"]:
        where = [node["target"] for node in violation["nodes"]][:3]
        faults.append(f"{name}: {violation['id']} at {where}: {violation['help']}")
    beyond = page.evaluate(_OVERFLOW)
    if beyond > 0:
        faults.append(f"{name}: {beyond} px wider than its window")
