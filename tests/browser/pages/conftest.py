"""A furnished console for the tests of pages: its own product, so that others find theirs empty."""

import json
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page

from tests.support import seed
from tests.support.product import Product
from tests.support.runtime import Runtime

_FURNISH = """
import json
from tests.support import furnished
seeded = furnished.everything()
places = {name: row.handle for name, row in seeded.operations.items()}
places["approval"] = seeded.approval.handle
places["run"] = seeded.operations["committed"].run.handle
places["incident"] = seeded.operations["failed"].incidents.get().handle
print(json.dumps(places))
"""


@pytest.fixture(scope="package")
def live_product(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """The whole product with one of each kind in it. What is unknown changes as it is looked at."""
    product = Product(tmp_path_factory.mktemp("furnished") / "data")
    product.start()
    try:
        yield product
    finally:
        product.stop()


@pytest.fixture(scope="package")
def places(live_product: Product) -> dict[str, str]:
    """Handles of what stands in it, by name."""
    printed = live_product.manage("shell", "--no-imports", "-c", _FURNISH)
    found: dict[str, str] = json.loads(printed.strip().splitlines()[-1])
    return found


@pytest.fixture
def reviewer(page: Page, places: dict[str, str]) -> Page:
    """A page on which the reviewer has signed in."""
    del places
    sign_in(page, "reviewer")
    return page


@pytest.fixture
def agent(live_product: Product) -> Iterator[Runtime]:
    """An agent's runtime in `test`."""
    runtime = Runtime(live_product.base_url, live_product.create_api_key())
    yield runtime
    runtime.http.close()


def sign_in(page: Page, role: str) -> None:
    """Through the form, as people do."""
    page.goto("/login/")
    page.get_by_label("E-mail address").fill(f"{role}@example.com")
    page.get_by_label("Password").fill(seed.PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/")
