"""Finds a Chromium for the browser tests, and installs one where there is none.

A missing browser fails the tests with the sentence that says what to install; it never skips.
`python -m tests.support.chromium` prints the one that would be used.
"""

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_INSTALL_SECONDS = 600

# Without the last three it asks for hosts of its vendor's at every start.
ARGUMENTS = [
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    *(["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []),
]


class NoChromium(Exception):
    """There is no browser, and none could be installed; the message says what to do."""


@cache
def find_chromium() -> str:
    """Path of a Chromium that starts; installs one when needed."""
    # Two workers must not install at once; the second finds what the first installed.
    lock = Path(tempfile.gettempdir()) / f"countersign-chromium-{os.geteuid()}.lock"
    with lock.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        tried = []
        for name, look in _WAYS:
            path = look()
            if path and _starts(path):
                return path
            tried.append(f"{name}{f' ({path} does not start)' if path else ''}")
    raise NoChromium(
        "The browser tests need Chromium. Install it (Debian, Ubuntu: apt-get install chromium) "
        "or set CHROMIUM=/path/to/chromium. Tried: " + ", ".join(tried) + "."
    )


# Playwright runs in processes of its own here: its event loop would stay in this thread.
_STARTS = """
import sys
from playwright.sync_api import sync_playwright
with sync_playwright() as playwright:
    path, *arguments = sys.argv[1:]
    browser = playwright.chromium.launch(executable_path=path, args=arguments, timeout=30_000)
    page = browser.new_page()
    page.set_content("<p>starts</p>")
    print(page.inner_text("p"))
"""
_PLAYWRIGHTS_OWN = """
from playwright.sync_api import sync_playwright
with sync_playwright() as playwright:
    print(playwright.chromium.executable_path)
"""


def _starts(path: str) -> bool:
    return "starts" in _run([sys.executable, "-c", _STARTS, path, *ARGUMENTS], seconds=60)


def _run(
    command: list[str], seconds: int = _INSTALL_SECONDS, cwd: Path | None = None, **env: str
) -> str:
    try:
        done = subprocess.run(
            command,
            cwd=cwd,
            env=os.environ | env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""


def _named() -> str | None:
    return os.environ.get("CHROMIUM")


def _on_path() -> str | None:
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    return next(filter(None, map(shutil.which, names)), None)


def _playwright_path() -> str | None:
    path = _run([sys.executable, "-c", _PLAYWRIGHTS_OWN], seconds=60).strip()
    return path if path and Path(path).exists() else None


def _playwright_install() -> str | None:
    if path := _playwright_path():
        return path
    _run([sys.executable, "-m", "playwright", "install", "chromium"], seconds=300)
    return _playwright_path()


def _apt() -> str | None:
    if os.geteuid() == 0 and shutil.which("apt-get"):
        install = ["install", "-y", "-q", "--no-install-recommends", "chromium"]
        for words in (["update", "-q"], install):
            _run(["apt-get", *words], DEBIAN_FRONTEND="noninteractive")
    return _on_path()


def _npm() -> str | None:
    npm, node = shutil.which("npm"), shutil.which("node")
    if not npm or not node:
        return None
    folder = ROOT / ".browser"
    if not (folder / "node_modules" / "@sparticuz").exists():
        folder.mkdir(exist_ok=True)
        _run([npm, "install", "--no-audit", "--no-fund", "--prefix", str(folder), _NPM_PACKAGE])
    code = f"import('{_NPM_PACKAGE}').then(m => m.default.executablePath()).then(console.log)"
    # It unpacks into the temporary folder, where another account's copy may already lie.
    return _run([node, "-e", code], seconds=120, cwd=folder, TMPDIR=str(folder)).strip() or None


_NPM_PACKAGE = "@sparticuz/chromium"
_WAYS: tuple[tuple[str, Callable[[], str | None]], ...] = (
    ("$CHROMIUM", _named),
    ("chromium on the PATH", _on_path),
    ("playwright install chromium", _playwright_install),
    ("apt-get install chromium (as root)", _apt),
    (f"npm install {_NPM_PACKAGE}", _npm),
)

if __name__ == "__main__":
    try:
        print(find_chromium())
    except NoChromium as missing:
        sys.exit(str(missing))
