"""A provider is a folder: adding one changes no other file, and each passes the shared suite."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.core.management import call_command

import reconcilers.providers
from operations.ids import handle
from reconcilers import accounts, registry
from reconcilers.models import ProviderAccount
from reconcilers.providers.base import Gate, Provider, Session
from tests.support import approving

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


_CONFIG = "token: tok_0123456789abcdef\n"


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


@pytest.fixture
def dummy(another_folder: Path) -> Path:
    (another_folder / "dummy").mkdir()
    (another_folder / "dummy" / "__init__.py").write_text(_DUMMY)
    return another_folder


def test_a_new_folder_is_a_new_provider(dummy):
    assert "dummy" in registry.providers()
    assert registry.provider_of("dummy").title == "Dummy"
    assert "stripe" in registry.providers()


@pytest.mark.django_db
def test_a_new_folder_is_a_choice_of_the_command(dummy, tmp_path):
    (tmp_path / "config.yaml").write_text(_CONFIG)
    options = {"environment": "test", "name": "mine", "config": str(tmp_path / "config.yaml")}
    call_command("create_provider_account", "dummy", **options)
    account = ProviderAccount.objects.get(name="mine")
    assert (account.kind, account.config) == ("dummy", {})
    assert accounts.access_to(account).secrets == {"token": "tok_0123456789abcdef"}


@pytest.mark.django_db
def test_a_new_folder_is_a_choice_of_the_pages(dummy, client):
    client.force_login(approving.user(role="admin"))
    for address in ("/reconcilers/", "/reconcilers/accounts/new/"):
        assert "Dummy" in client.get(address).content.decode()
    form = client.get("/reconcilers/accounts/new/dummy/").content.decode()
    assert 'name="field-token" type="password"' in form
    answer = client.post(
        "/reconcilers/accounts/new/dummy/",
        {
            "environment": "test",
            "namespace": "default",
            "name": "mine",
            "field-token": "tok_0123456789abcdef",
        },
    )
    account = ProviderAccount.objects.get(name="mine")
    assert answer.headers["Location"] == f"/reconcilers/accounts/{handle('acc', account.pk)}/"
    assert accounts.access_to(account).secrets == {"token": "tok_0123456789abcdef"}
    assert "Dummy" in client.get(answer.headers["Location"]).content.decode()


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
