"""Working with the console: keys, palette, copying, live changes, and what injected markup gets."""

import re

from playwright.sync_api import Page, expect

from tests.support.runtime import Runtime


def test_keys_move_between_pages_and_rows(reviewer: Page, places: dict[str, str]) -> None:
    reviewer.keyboard.press("g")
    reviewer.keyboard.press("p")
    reviewer.wait_for_url("**/ops/")
    reviewer.keyboard.press("j")
    reviewer.keyboard.press("j")
    second = reviewer.locator("tr[data-row]").nth(1)
    expect(second).to_have_class(re.compile("is-cursor"))
    reviewer.keyboard.press("Enter")
    reviewer.wait_for_url("**/ops/op_*/")
    reviewer.keyboard.press("?")
    reviewer.wait_for_url("**/me/shortcuts/")
    reviewer.goto("/ops/")
    reviewer.keyboard.press("/")
    expect(reviewer.get_by_label("Search", exact=True)).to_be_focused()
    reviewer.keyboard.type("g")  # typing is not a shortcut
    reviewer.keyboard.type("u")
    assert reviewer.url.endswith("/ops/")


def test_the_palette_leads_from_a_pasted_id_to_its_page(
    reviewer: Page, places: dict[str, str]
) -> None:
    reviewer.keyboard.press("Control+k")
    field = reviewer.locator("#palette-input")
    expect(field).to_be_focused()
    field.fill(places["approval"])
    reviewer.keyboard.press("Enter")
    reviewer.wait_for_url(f"**/approvals/{places['approval']}/")
    reviewer.keyboard.press("Control+k")
    field.fill("recon")
    expect(reviewer.get_by_role("option", name="Reconcilers")).to_be_visible()
    reviewer.keyboard.press("Enter")
    reviewer.wait_for_url("**/reconcilers/")


def test_shortcuts_can_be_switched_off(reviewer: Page) -> None:
    reviewer.goto("/me/")
    reviewer.get_by_label("Keyboard shortcuts").uncheck()
    reviewer.get_by_role("button", name="Save").click()
    expect(reviewer.get_by_text("Preferences saved.")).to_be_visible()
    expect(reviewer.locator("h1")).to_be_focused()
    reviewer.keyboard.press("g")
    reviewer.keyboard.press("o")
    reviewer.keyboard.press("Control+k")
    assert reviewer.url.endswith("/me/")
    expect(reviewer.locator("#palette")).to_be_hidden()
    reviewer.get_by_label("Keyboard shortcuts").check()
    reviewer.get_by_role("button", name="Save").click()


def test_times_turn_to_utc_with_one_key(reviewer: Page, places: dict[str, str]) -> None:
    reviewer.goto(f"/ops/{places['committed']}/")
    time = reviewer.locator(".moment time").first
    expect(time).to_contain_text("CE")
    reviewer.keyboard.press("z")
    expect(time).to_contain_text("UTC")
    reviewer.keyboard.press("z")
    expect(time).to_contain_text("CE")


def test_copying_gives_the_exact_bytes_and_the_visible_form(
    reviewer: Page, places: dict[str, str]
) -> None:
    reviewer.context.grant_permissions(["clipboard-read", "clipboard-write"])
    reviewer.goto(f"/approvals/{places['approval']}/")
    reviewer.locator(".args-raw summary").click()
    reviewer.get_by_role("button", name="Copy exact text").click()
    expect(reviewer.locator("#toast")).to_have_text("Copied")
    copied = reviewer.evaluate("navigator.clipboard.readText()")
    assert "Invoice 8841\u202efdp.exe" in copied
    reviewer.get_by_role("button", name="Copy with escapes").click()
    reviewer.wait_for_timeout(200)
    escaped = reviewer.evaluate("navigator.clipboard.readText()")
    assert "Invoice 8841\\u{202E}fdp.exe" in escaped


def test_a_change_appears_by_itself_and_keeps_what_is_open(
    reviewer: Page, places: dict[str, str], agent: Runtime
) -> None:
    claim = agent.claim(tool="crm.lookup", args={"customer": "cus_live"})
    assert claim.status_code == 201, claim.text
    reviewer.goto(f"/ops/{claim.json()['operation']['id']}/")
    expect(reviewer.locator("#live-dot")).to_have_attribute("data-state", "on")
    expect(reviewer.locator(".state-lg")).to_have_text("Running")
    reviewer.get_by_text("Attempts", exact=True).click()
    agent.outcome(claim, "committed", result={"ok": True})
    expect(reviewer.locator(".state-lg")).to_have_text("Committed")
    expect(reviewer.get_by_text("Result written").first).to_be_visible()
    expect(reviewer.locator("details.fold").first).to_have_attribute("open", "")


def test_a_list_announces_what_is_new_instead_of_growing(
    reviewer: Page, places: dict[str, str], agent: Runtime
) -> None:
    reviewer.goto("/ops/")
    expect(reviewer.locator("#live-dot")).to_have_attribute("data-state", "on")
    first = reviewer.locator("tr[data-row]").first.get_attribute("data-id")
    agent.claim(tool="crm.lookup", args={})
    pill = reviewer.locator("#news")
    expect(pill).to_be_visible()
    assert reviewer.locator("tr[data-row]").first.get_attribute("data-id") == first
    pill.click()
    expect(reviewer.locator("tr[data-row]").first).not_to_have_attribute("data-id", first or "")


def test_pausing_stops_changes_until_it_is_resumed(
    reviewer: Page, places: dict[str, str], agent: Runtime
) -> None:
    claim = agent.claim(tool="crm.lookup", args={})
    reviewer.goto(f"/ops/{claim.json()['operation']['id']}/")
    dot = reviewer.locator("#live-dot")
    expect(dot).to_have_attribute("data-state", "on")
    reviewer.keyboard.press("p")
    expect(dot).to_have_attribute("data-state", "paused")
    agent.outcome(claim, "committed", result={})
    reviewer.wait_for_timeout(1500)
    expect(reviewer.locator(".state-lg")).to_have_text("Running")
    reviewer.keyboard.press("p")
    expect(reviewer.locator(".state-lg")).to_have_text("Committed")


def test_injected_markup_sends_nothing(
    reviewer: Page, places: dict[str, str], complaints: list[str]
) -> None:
    reviewer.goto("/ops/")
    sent: list[str] = []
    reviewer.on("request", lambda request: sent.append(request.url))
    reviewer.evaluate(
        """() => {
            const bait = document.createElement("b");
            bait.setAttribute("hx-post", "/pwn");
            bait.setAttribute("hx-trigger", "load");
            document.querySelector("#rows").append(bait);
            htmx.process(document.body);
        }"""
    )
    reviewer.wait_for_timeout(500)
    assert not any("/pwn" in url for url in sent)
    assert any("hx-csp" in complaint for complaint in complaints)
    complaints.clear()


def test_asking_again_answers_in_its_place(reviewer: Page, places: dict[str, str]) -> None:
    reviewer.goto(f"/ops/{places['needs_person']}/")
    reviewer.get_by_role("button", name="Ask provider again").click()
    expect(reviewer.locator("#ladder")).to_contain_text("a person must find out")
    assert reviewer.url.endswith(f"/ops/{places['needs_person']}/")


def test_no_key_decides_anything(reviewer: Page, places: dict[str, str]) -> None:
    reviewer.goto(f"/approvals/{places['approval']}/")
    posts: list[str] = []
    reviewer.on("request", lambda request: posts.append(request.method))
    for key in "abdefhilmnoqrstuvwxy1234567890":
        reviewer.keyboard.press(key)
    reviewer.keyboard.press("Enter")
    assert "POST" not in posts
    assert (
        reviewer.locator(":focus").count() == 0
        or not reviewer.locator(":focus").get_by_text("Approve").count()
    )
