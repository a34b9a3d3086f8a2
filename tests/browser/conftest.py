"""A real browser. Its tests are plain functions: Playwright keeps a loop of its own running."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, sync_playwright

from tests.support.chromium import ARGUMENTS, NoChromium, find_chromium
from tests.support.product import Product


# For the package and not the session: while it is open no asynchronous test can run in this worker.
@pytest.fixture(scope="package")
def chromium() -> Iterator[Browser]:
    """One Chromium for the browser tests; a missing one fails them and says what to install."""
    try:
        path = find_chromium()
    except NoChromium as missing:
        pytest.fail(str(missing), pytrace=False)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def context(chromium: Browser, live_product: Product) -> Iterator[BrowserContext]:
    """A fresh profile, whose relative addresses point at the live product."""
    opened = chromium.new_context(base_url=live_product.base_url, locale="en-GB")
    opened.set_default_timeout(10_000)
    yield opened
    opened.close()


@pytest.fixture
def complaints() -> list[str]:
    """What the page complained of. A test that provokes complaints on purpose clears the list."""
    return []


@pytest.fixture
def page(context: BrowserContext, complaints: list[str]) -> Iterator[Page]:
    """A page. Script errors, console errors and policy violations fail the test at its end."""
    opened = context.new_page()

    def heard(message: ConsoleMessage) -> None:
        if message.type == "error" or "Content Security Policy" in message.text:
            complaints.append(f"{message.text} ({message.location.get('url', '')})")

    opened.on("console", heard)
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    yield opened
    assert complaints == [], "the browser complained"
