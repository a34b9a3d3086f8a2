"""What every provider promises, checked for each one that is registered.

A provider's test module makes a subclass of `ProviderContract` and gives it a `bench`: a running
stand-in with its levers. Everything else is the same for all.
"""

from importlib import import_module
from pathlib import Path
from uuid import uuid4

import pytest

from reconcilers import registry
from reconcilers.evidence import PROVES_ABSENCE, Outcome
from reconcilers.providers.base import AccountAccess, BadConfig, Provider, parse_config
from tests.providers.bench import Bench, access_of, ask, question
from tests.providers.contract_failures import FailureContract
from tests.support.gates import OpenGate

__all__ = ["Bench", "ProviderContract", "access_of", "ask", "question"]


class ProviderContract(FailureContract):
    """Subclass it in `test_<kind>.py`, with a fixture `bench`."""

    kind: str

    @pytest.fixture
    def provider(self) -> Provider:
        return registry.provider_of(self.kind)

    @pytest.fixture
    def access(self, provider: Provider, bench: Bench) -> AccountAccess:
        return access_of(provider, bench.environment, bench.config())

    def test_it_has_a_title_and_documents_every_field(self, provider):
        assert provider.title
        assert provider.limits.get("*", 0) > 0
        for field in provider.fields:
            assert field.help

    def test_its_folder_has_a_readme_that_names_every_field_and_lookup(
        self, provider, access, bench
    ):
        package = import_module(f"reconcilers.providers.{provider.kind}")
        text = (Path(package.__path__[0]) / "README.md").read_text()
        for field in provider.fields:
            assert f"`{field.name}`" in text
        for way in provider.ways_of(bench.object_kind, access.config):
            assert f"`{way.name}`" in text

    def test_its_ways_have_known_classes(self, provider, access, bench):
        ways = provider.ways_of(bench.object_kind, access.config)
        assert len({way.name for way in ways}) == len(ways)
        for way in ways:
            assert way.lookup_class in "ABCERTN"
            assert way.words
            assert way.may_prove_absence <= (way.lookup_class in PROVES_ABSENCE)

    def test_an_unknown_kind_of_object_has_no_way_that_proves_absence(self, provider, access):
        ways = provider.ways_of("no_such_object", access.config)
        assert not any(way.may_prove_absence for way in ways)

    def test_it_refuses_unknown_and_missing_fields_by_name(self, provider, bench):
        with pytest.raises(BadConfig, match=r"^surprise: "):
            parse_config(provider, bench.environment, {**bench.config(), "surprise": 1})
        for field in provider.fields:
            if field.required:
                less = {k: v for k, v in bench.config().items() if k != field.name}
                with pytest.raises(BadConfig, match=f"^{field.name}: missing"):
                    parse_config(provider, bench.environment, less)

    def test_secrets_never_show_in_repr(self, provider, access):
        for secret in access.secrets.values():
            assert secret not in repr(access)
            assert secret not in repr(provider.open(access, OpenGate()).__dict__)

    async def test_an_effect_is_a_verified_hit_with_its_marker(self, provider, access, bench):
        marker = uuid4().hex
        object_id = bench.make_effect(marker)
        look = (await ask(provider, access, question(marker, bench.object_kind))).look(marker)
        assert look.outcome is Outcome.HIT
        (seen,) = look.sightings
        assert (seen.id, seen.marker, seen.verified) == (object_id, marker, True)
        assert seen.mode in {"", bench.environment}
        assert look.started_at <= look.ended_at
        assert look.answer
        assert look.endpoint

    async def test_a_call_that_never_was_is_empty_and_never_a_hit(self, provider, access, bench):
        marker = uuid4().hex
        look = (await ask(provider, access, question(marker, bench.object_kind))).look(marker)
        assert look.outcome is Outcome.EMPTY
        assert not look.sightings

    async def test_a_marker_that_differs_in_case_is_not_a_hit(self, provider, access, bench):
        marker = uuid4().hex + "a"
        bench.make_effect(marker)
        other = marker.upper()
        look = (await ask(provider, access, question(other, bench.object_kind))).look(other)
        assert look.outcome is Outcome.EMPTY

    async def test_many_questions_are_each_answered_once(self, provider, access, bench):
        markers = [uuid4().hex for _ in range(12)]
        ids = {marker: bench.make_effect(marker) for marker in markers[::2]}
        asked = await ask(
            provider, access, *(question(marker, bench.object_kind) for marker in markers)
        )
        for marker in markers:
            seen = asked.look(marker).sightings
            assert [each.id for each in seen] == ([ids[marker]] if marker in ids else [])

    async def test_it_says_who_the_credentials_belong_to(self, provider, access, bench):
        session = provider.open(access, OpenGate())
        try:
            identity = await session.identify()
        finally:
            await session.close()
        assert identity.account_id
        assert identity.mode == bench.environment
