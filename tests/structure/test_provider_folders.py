"""A provider is a folder: adding one changes no other file, and each passes the shared suite."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import reconcilers.providers
from reconcilers import registry
from reconcilers.providers.base import Gate, Provider, Session

ROOT = Path(__file__).resolve().parents[2]

_DUMMY = '''
"""A provider that somebody else wrote."""

from reconcilers.evidence import Way
from reconcilers.providers.base import ConfigField, Provider


class Dummy(Provider):
    kind = "dummy"
    title = "Dummy"
    fields = (ConfigField(name="token", help="a token", secret=True, required=True),)

    def ways(self, object_kind):
        return (Way(name="get", lookup_class="A", words="Dummy's answer", exhaustive=True),)

    def open(self, access, gate):
        raise NotImplementedError


provider = Dummy()
'''


@pytest.fixture
def another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(
        reconcilers.providers, "__path__", [*reconcilers.providers.__path__, str(tmp_path)]
    )
    registry.providers.cache_clear()
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith("reconcilers.providers.dummy")]:
        del sys.modules[name]
    registry.providers.cache_clear()


def test_a_new_folder_is_a_new_provider(another_folder):
    (another_folder / "dummy").mkdir()
    (another_folder / "dummy" / "__init__.py").write_text(_DUMMY)
    assert "dummy" in registry.providers()
    assert registry.provider_of("dummy").title == "Dummy"
    assert "stripe" in registry.providers()


def test_a_folder_without_a_provider_stops_the_start(another_folder):
    (another_folder / "dummy").mkdir()
    (another_folder / "dummy" / "__init__.py").write_text("provider = None\n")
    with pytest.raises(TypeError, match="has no `provider` of kind 'dummy'"):
        registry.providers()


def test_an_unknown_kind_names_those_there_are():
    with pytest.raises(registry.UnknownProvider, match="stripe"):
        registry.provider_of("nowhere")


@pytest.mark.parametrize("kind", registry.providers())
def test_each_provider_runs_the_contract_suite_and_brings_readme_and_fixtures(kind):
    folder = ROOT / "reconcilers" / "providers" / kind
    assert (folder / "README.md").is_file()
    assert any((folder / "fixtures").iterdir())
    tests = (ROOT / "tests" / "providers" / f"test_{kind}.py").read_text()
    assert "(ProviderContract)" in tests


@pytest.mark.parametrize("kind", registry.providers())
def test_nothing_outside_its_folder_and_its_tests_imports_a_provider(kind):
    imports = f"reconcilers.providers.{kind}"
    for path in ROOT.rglob("*.py"):
        parts = path.relative_to(ROOT).parts
        inside = parts[:3] == ("reconcilers", "providers", kind)
        if inside or parts[0] in {"tests", ".venv"}:
            continue
        assert imports not in path.read_text(), path


def test_the_contract_is_what_a_provider_has_to_write():
    assert Provider.__abstractmethods__ == {"ways", "open"}
    assert Session.__abstractmethods__ == {"ask", "identify", "close"}
    assert {name for name in vars(Gate) if not name.startswith("_")} == {
        "now",
        "turn",
        "answered",
        "failed",
    }
