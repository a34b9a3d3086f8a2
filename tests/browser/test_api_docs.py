"""The API reference in a browser: it fetches nothing from outside and is accessible."""

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 360])
def test_the_reference_is_accessible_and_self_contained(page: Page, scheme, width):
    hosts = set()
    page.on("request", lambda request: hosts.add(request.url.split("/")[2]))
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 800})
    page.goto("/api/v1/docs")
    assert hosts == {page.url.split("/")[2]}
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_axe_finds_nothing(context):
    """In a copy: axe brings a script of its own, which the page's policy rightly refuses."""
    page = context.new_page()
    page.goto("/api/v1/docs")
    html = page.content()
    css = page.request.get(page.get_attribute("link[rel=stylesheet]", "href")).text()
    plain = context.new_page()
    plain.set_content(html.replace("</head>", f"<style>{css}</style></head>"))
    found = Axe().run(plain)
    assert found.violations_count == 0, found.generate_report()
