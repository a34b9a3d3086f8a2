"""Every page, light and dark, wide and narrow: axe finds nothing, nothing overflows."""

from pathlib import Path

import axe_playwright_python
import pytest
from playwright.sync_api import Browser, Page

from tests.browser.pages.conftest import sign_in
from tests.support.product import Product

AXE = Path(axe_playwright_python.__file__).parent / "axe.min.js"
_TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
_RUN = "tags => axe.run(document, {runOnly: tags, resultTypes: ['violations']})"
_OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


def addresses(places: dict[str, str]) -> dict[str, str]:
    """Every kind of page by name."""
    return {
        "overview": "/", "unknown": "/unknown/", "unknown filtered": "/unknown/?q=is:ready",
        "approvals": "/approvals/", "approvals decided": "/approvals/?status=approved",
        "approval": f"/approvals/{places['approval']}/", "operations": "/ops/",
        "operations, none": "/ops/?q=tool:nothing", "operations, error": "/ops/?q=stat:unknown",
        "unknown operation": f"/ops/{places['needs_person']}/",
        "conflict": f"/ops/{places['conflict']}/", "committed": f"/ops/{places['committed']}/",
        "failed": f"/ops/{places['failed']}/", "waiting": f"/ops/{places['waiting']}/",
        "evidence pack": f"/ops/{places['conflict']}/evidence/", "runs": "/runs/",
        "run": f"/runs/{places['run']}/", "reconcilers": "/reconcilers/", "tools": "/tools/",
        "tool": "/tools/stripe.charge/", "alerts": "/alerts/",
        "incident": f"/alerts/{places['incident']}/", "audit": "/audit/", "drills": "/drills/",
        "preferences": "/me/", "keys": "/me/keys/", "help": "/me/shortcuts/",
        "first steps": "/welcome/",
        "approve": f"/approvals/{places['approval']}/sign/?verdict=approve",
        "deny": f"/approvals/{places['approval']}/sign/?verdict=deny",
        "settle": f"/ops/{places['needs_person']}/settle/sign/?choice=settle-committed",
        "enrol": "/me/keys/enrol/",
    }  # fmt: skip


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 320])
def test_axe_finds_nothing_and_nothing_overflows(
    chromium: Browser, live_product: Product, places: dict[str, str], width: int, theme: str
) -> None:
    # The policy is set aside here alone, because axe is injected; the other tests keep it.
    context = chromium.new_context(
        base_url=live_product.base_url,
        bypass_csp=True,
        viewport={"width": width, "height": 720},
        color_scheme=theme,  # type: ignore[arg-type]
    )
    page = context.new_page()
    faults: list[str] = []
    _judge(page, "login", "/login/", faults)
    sign_in(page, "reviewer")
    for name, address in addresses(places).items():
        _judge(page, name, address, faults)
    context.close()
    assert faults == []


def _judge(page: Page, name: str, address: str, faults: list[str]) -> None:
    answer = page.goto(address)
    assert answer is not None
    if answer.status >= 400:
        faults.append(f"{name}: {answer.status}")
    page.add_script_tag(path=AXE)
    for violation in page.evaluate(_RUN, _TAGS)["violations"]:
        where = [node["target"] for node in violation["nodes"]][:3]
        faults.append(f"{name}: {violation['id']} at {where}: {violation['help']}")
    beyond = page.evaluate(_OVERFLOW)
    if beyond > 0:
        faults.append(f"{name}: {beyond} px wider than its window")


def test_no_page_breaks_the_policy_or_complains(reviewer: Page, places: dict[str, str]) -> None:
    # The `page` fixture fails the test at its end if there was a violation or an error.
    for name, address in addresses(places).items():
        answer = reviewer.goto(address)
        assert answer is not None, name
        assert answer.status == 200, name
        reviewer.wait_for_load_state("load")
    assert reviewer.locator("h1").count() == 1


def test_pages_work_without_script(
    chromium: Browser, live_product: Product, places: dict[str, str]
) -> None:
    context = chromium.new_context(base_url=live_product.base_url, java_script_enabled=False)
    page = context.new_page()
    sign_in(page, "operator")
    page.get_by_role("link", name="Operations", exact=True).click()
    page.get_by_label("Search", exact=True).fill("tool:lookup")
    page.get_by_role("button", name="Search").click()
    assert page.locator("tbody tr").count() == 1
    page.goto(f"/ops/{places['needs_person']}/")
    page.get_by_role("button", name="Ask provider again").click()
    page.get_by_role("status").filter(has_text="a person must find out").wait_for()
    page.goto("/")
    page.get_by_label("Go to an id, a key or a page").first.fill(places["committed"])
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/ops/{places['committed']}/")
    context.close()
