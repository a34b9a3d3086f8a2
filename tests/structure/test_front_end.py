"""The front end's own rules: vendored bytes, weights, no script or style where none may be."""

import gzip
import json
import re
from hashlib import sha256
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
STATIC = ROOT / "console" / "static" / "console"
TEMPLATES = sorted((ROOT / "templates").rglob("*.html"))
_COMMENT = re.compile(r"{% comment %}.*?{% endcomment %}", re.DOTALL)
MANIFEST = json.loads((STATIC / "vendor" / "MANIFEST.json").read_text())


def packed(*files: Path) -> int:
    return sum(len(gzip.compress(file.read_bytes(), mtime=0)) for file in files)


@pytest.mark.parametrize("entry", MANIFEST["files"], ids=lambda entry: entry["file"])
def test_vendored_files_are_what_the_manifest_says(entry: dict[str, str]) -> None:
    assert sha256((STATIC / entry["file"]).read_bytes()).hexdigest() == entry["sha256"]
    assert (STATIC / entry["licence_file"]).stat().st_size > 0
    for name in ("package", "version", "path", "licence"):
        assert entry[name]


def test_every_vendored_file_is_in_the_manifest() -> None:
    told = {entry["file"] for entry in MANIFEST["files"]}
    told |= {entry["licence_file"] for entry in MANIFEST["files"]} | {"vendor/MANIFEST.json"}
    found = {str(file.relative_to(STATIC)) for file in (STATIC / "vendor").iterdir()}
    assert found <= told


def test_icons_that_pages_use_are_in_the_sprite() -> None:
    sprite = set(re.findall(r'<symbol id="([^"]+)"', (STATIC / "icons.svg").read_text()))
    for template in TEMPLATES:
        for name in re.findall(r'{% icon "([^"]+)"', template.read_text()):
            assert name in sprite, (template.name, name)
    for source in (ROOT / "console").rglob("*.py"):
        for name in re.findall(r'Headline\(\s*"[^"]*",\s*"[^"]*",\s*"([^"]+)"', source.read_text()):
            assert name in sprite, (source.name, name)


def test_pages_are_light() -> None:
    styles = [STATIC / f"{name}.css" for name in ("app", "layout", "components", "pages", "print")]
    scripts = [*(STATIC / "js").glob("*.js"), *(STATIC / "vendor").glob("*.js")]
    assert packed(*styles) <= 15 * 1024
    assert packed(*scripts) <= 27 * 1024
    assert sum(file.stat().st_size for file in (STATIC / "vendor").glob("*.woff2")) <= 40 * 1024
    for script in (STATIC / "js").glob("*.js"):
        assert packed(script) <= 2048, script.name


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda template: template.name)
def test_templates_hold_no_style_script_or_forbidden_htmx(template: Path) -> None:
    text = _COMMENT.sub("", template.read_text())
    assert not re.search(r"\sstyle\s*=", text), "inline style"
    assert not re.search(r"<style", text), "style element"
    assert not re.search(r"\son[a-z]+\s*=", text), "inline handler"
    assert not re.search(r"<script(?![^>]*\ssrc=)", text), "inline script"
    assert not re.search(r"hx-(on|live|vals|headers|boost|confirm|ext|history|push-url)", text)
    assert not re.search(r"\bjs:", text)
    assert "|safe" not in text
    assert "autoescape off" not in text
    for trigger in re.findall(r'hx-trigger="([^"]*)"', text):
        assert "[" not in trigger, "a filter is script"


def test_every_module_is_loaded_by_the_base_page_alone() -> None:
    listed = (ROOT / "templates" / "components" / "modules.html").read_text()
    for script in (STATIC / "js").glob("*.js"):
        assert f"console/js/{script.name}" in listed


def test_signing_pages_load_no_htmx() -> None:
    for folder in ("signing", "keys"):
        for template in (ROOT / "templates" / folder).glob("*.html"):
            text = template.read_text()
            if '"signing_base.html"' in text:
                assert "htmx" not in text, template.name
    assert "htmx" not in _COMMENT.sub("", (ROOT / "templates" / "signing_base.html").read_text())


def test_style_and_script_of_our_own_fetch_nothing_from_elsewhere() -> None:
    for file in [*STATIC.glob("*.css"), *(STATIC / "js").glob("*.js"), *TEMPLATES]:
        text = file.read_text()
        assert not re.search(r"https?://(?!www\.w3\.org/)", text), file.name
