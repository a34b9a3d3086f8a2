"""The half of the contract that is about failure: what could not be seen was not "not there"."""

import asyncio
import logging
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from reconcilers.evidence import PROVES_ABSENCE, Look, Outcome
from reconcilers.providers.base import (
    AccountAccess,
    BadConfig,
    KnownObject,
    Provider,
    ProviderError,
    parse_config,
)
from tests.providers.bench import FAULTS, Bench, access_of, ask, question
from tests.support.gates import OpenGate


def may_count(look: Look) -> bool:
    """Whether this look could take part in a proof of absence, settle point apart."""
    return (
        look.outcome is Outcome.EMPTY
        and look.lookup_class in PROVES_ABSENCE
        and look.exhaustive
        and look.complete
        and look.control_passed
    )


def past() -> datetime:
    """A settle point that is behind us, so that an empty answer could count."""
    return datetime.now(UTC) - timedelta(seconds=30)


class FailureContract:
    """Inherited by ProviderContract."""

    @pytest.mark.parametrize("fault", FAULTS)
    async def test_what_fails_is_never_an_empty_answer(
        self, provider, access, bench, fault, caplog
    ):
        if fault in bench.cannot_happen:
            pytest.skip(bench.cannot_happen[fault])
        marker = uuid4().hex
        bench.make_effect(marker)
        gate = OpenGate()
        asked_about = question(marker, bench.object_kind, settles_at=past())
        bench.bend(fault)
        try:
            with caplog.at_level(logging.DEBUG):
                async with asyncio.timeout(20):
                    asked = await ask(provider, access, asked_about, gate=gate)
        finally:
            bench.mend()
        for look in asked.by_marker[marker]:
            assert look.outcome is Outcome.CANNOT_LOOK
            assert look.reason
            assert not look.complete
            assert not look.control_passed
            if FAULTS[fault] is not None:
                assert look.permanent is FAULTS[fault]
        said = [look.reason for look in asked.by_marker[marker]]
        said += [str(error) + repr(error) for error in gate.failures] + [caplog.text]
        for secret in access.secrets.values():
            assert all(secret not in text for text in said)
        if fault in {"throttled", "outage", "hang", "cut"}:
            assert gate.failures, "the engine's breaker was told nothing"

    async def test_after_a_fault_the_same_question_is_answered_again(self, provider, access, bench):
        marker = uuid4().hex
        object_id = bench.make_effect(marker)
        bench.bend("outage")
        await ask(provider, access, question(marker, bench.object_kind))
        bench.mend()
        look = (await ask(provider, access, question(marker, bench.object_kind))).look(marker)
        assert [seen.id for seen in look.sightings] == [object_id]

    async def test_refused_credentials_are_permanent_and_name_no_secret(self, provider, bench):
        marker = uuid4().hex
        access = access_of(provider, bench.environment, bench.wrong_config())
        look = (await ask(provider, access, question(marker, bench.object_kind))).look(marker)
        assert look.outcome is Outcome.CANNOT_LOOK
        assert look.permanent
        for secret in access.secrets.values():
            assert secret not in look.reason

    async def test_who_the_credentials_belong_to_is_an_error_where_it_cannot_be_asked(
        self, provider, access, bench
    ):
        bench.bend("outage")
        session = provider.open(access, OpenGate())
        try:
            with pytest.raises(ProviderError) as raised:
                await session.identify()
        finally:
            await session.close()
            bench.mend()
        assert not raised.value.permanent

    async def test_another_account_or_mode_is_not_looked_at(self, provider, bench):
        others = bench.other_accounts()
        if not others:
            assert bench.names_no_account
            pytest.skip(bench.names_no_account)
        marker = uuid4().hex
        bench.make_effect(marker)
        for document in others:
            access = access_of(provider, bench.environment, document)
            asked_about = question(marker, bench.object_kind, settles_at=past())
            for look in (await ask(provider, access, asked_about)).by_marker[marker]:
                assert look.outcome is Outcome.CANNOT_LOOK
                assert look.permanent

    async def test_an_empty_answer_counts_only_where_a_known_object_is_visible(
        self, provider, access, bench
    ):
        there, here = uuid4().hex, uuid4().hex
        visible = bench.make_effect(there)
        ways = provider.ways_of(bench.object_kind, access.config)
        proving = any(way.may_prove_absence for way in ways)
        cases = ((visible, there, True), (bench.absent_id, uuid4().hex, False))
        for object_id, marker, counts in cases:
            known = KnownObject(
                kind=bench.object_kind, id=object_id, created_at=datetime.now(UTC), marker=marker
            )
            asked = await ask(
                provider,
                access,
                question(here, bench.object_kind, settles_at=past()),
                known={bench.object_kind: known},
            )
            seen = [look for look in asked.by_marker[here] if may_count(look)]
            assert bool(seen) is (proving and counts)

    async def test_it_can_be_cancelled_while_it_waits(self, provider, access, bench):
        if "hang" in bench.cannot_happen:
            pytest.skip(bench.cannot_happen["hang"])
        others = asyncio.all_tasks()
        bench.bend("hang")
        session = provider.open(access, OpenGate())
        delivered = []

        async def deliver(answer):
            delivered.append(answer)

        asking = asyncio.create_task(
            session.ask([question(uuid4().hex, bench.object_kind)], {}, deliver)
        )
        await asyncio.sleep(0.2)
        asking.cancel()
        try:
            async with asyncio.timeout(2):
                with pytest.raises(asyncio.CancelledError):
                    await asking
                await session.close()
            await asyncio.sleep(0)
        finally:
            bench.mend()
        assert not delivered
        assert asyncio.all_tasks() <= others | {asking}

    def test_a_wrong_value_is_refused_without_being_repeated(
        self, provider: Provider, access: AccountAccess, bench: Bench
    ):
        for field in provider.fields:
            if not field.secret:
                continue
            told = f"told-{uuid4().hex}"
            with pytest.raises(BadConfig) as raised:
                parse_config(provider, bench.environment, bench.config() | {field.name: [told]})
            assert str(raised.value).startswith(f"{field.name}: ")
            assert told not in str(raised.value)
