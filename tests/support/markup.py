"""Reads a page as a browser does, and says what of it would break the page's own rules."""

import re
from html.parser import HTMLParser

#: The only htmx that pages use; the rest is where injected markup would get its power.
ALLOWED = frozenset({
    "hx-get", "hx-post", "hx-target", "hx-swap", "hx-trigger", "hx-nonce", "hx-ignore",
    "hx-sse:connect",
})  # fmt: skip
_ACTIVE = frozenset({"hx-get", "hx-post", "hx-sse:connect"})
_CONTROLS = frozenset({"a", "button", "input", "form"})


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.ids: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        has = {name: value or "" for name, value in attrs}
        where = f"<{tag} {' '.join(has)[:80]}>"
        if "id" in has:
            self.ids.append(has["id"])
        if "style" in has or tag == "style":
            self.found.append(f"inline style: {where}")
        if any(re.fullmatch(r"on[a-z]+", name) for name in has):
            self.found.append(f"inline handler: {where}")
        if tag == "script" and "src" not in has:
            self.found.append(f"inline script: {where}")
        if any(value.strip().lower().startswith("javascript:") for value in has.values()):
            self.found.append(f"a script as address: {where}")
        self._htmx(tag, has, where)

    def _htmx(self, tag: str, has: dict[str, str], where: str) -> None:
        used = {name for name in has if name.startswith(("hx-", "data-hx-"))}
        if used - ALLOWED:
            self.found.append(f"htmx beyond the list: {sorted(used - ALLOWED)} {where}")
        if used & _ACTIVE and "hx-nonce" not in has:
            self.found.append(f"htmx without a nonce: {where}")
        if any("[" in has.get(name, "") for name in ("hx-trigger",)):
            self.found.append(f"a filter, which is script: {where}")
        if any("js:" in has[name] for name in used):
            self.found.append(f"a script value: {where}")
        if "hx-get" in has and tag in _CONTROLS and "href" not in has and "action" not in has:
            self.found.append(f"works only with script: {where}")
        if "hx-post" in has and not (tag == "form" and "action" in has):
            self.found.append(f"works only with script: {where}")


def faults(html: str) -> list[str]:
    """Empty for a page that keeps the rules."""
    reader = _Reader()
    reader.feed(html)
    doubled = sorted({name for name in reader.ids if reader.ids.count(name) > 1})
    return reader.found + [f"id {name!r} stands twice" for name in doubled]
