"""How each account does, as the reconcilers page shows it."""

import time
from datetime import timedelta

import pytest
from django.conf import settings

from reconcilers import services
from reconcilers.breakers import FAILURES_TO_OPEN, Breakers
from reconcilers.models import ProviderAccount
from reconcilers.reading import account_health
from tests.support.committed import _django_db_helper  # noqa: F401
from tests.support.doubtful import a_simulator, a_world  # noqa: F401
from tests.support.reconciling import CHARGE, look_now, publish

pytestmark = pytest.mark.django_db


def test_health_is_told_by_what_was_answered(world):
    look_now(world.doubtful(effect=True))
    (health,) = account_health()
    assert (health.verdict, health.asked_last_hour, health.errors_last_hour) == (
        "healthy",
        1,
        0,
    )
    assert health.last_settled_at
    assert health.reads_last_minute >= 1
    assert health.budget_percent == 0
    services.pause_account(ProviderAccount.objects.get().id, actor="user:ana")
    assert account_health()[0].verdict == "paused"


def test_the_horizon_is_measured_by_what_was_missed_first(world):
    at_once, late = world.doubtful(effect=True), world.doubtful()
    look_now(at_once, late)
    (health,) = account_health()
    assert (health.horizon.found, health.horizon.measured) == (1, None)
    assert health.horizon.configured == timedelta(seconds=900)
    late.send()
    look_now(late)
    horizon = account_health()[0].horizon
    assert horizon.found == 2
    assert horizon.measured is not None
    assert timedelta(0) < horizon.measured < timedelta(seconds=60)
    assert not horizon.is_passed
    hasty = {"provider_max_seconds": 0}
    publish(
        charge=CHARGE | hasty,
        idempotent=CHARGE | hasty,
        searched=CHARGE | hasty,
        unmarked=CHARGE | hasty,
    )
    assert account_health()[0].horizon.is_passed


def test_a_breaker_is_closed_open_or_half_open(world):
    lane = str(ProviderAccount.objects.get().id)
    breakers = Breakers(settings.REDIS_URL)
    try:
        assert breakers.state(lane) == "closed"
        for _ in range(FAILURES_TO_OPEN):
            breakers.failed(lane)
        assert account_health()[0].breaker == "open"
        deadline = time.monotonic() + 10
        while breakers.state(lane) == "open" and time.monotonic() < deadline:
            time.sleep(0.1)
        assert breakers.ask(lane).state == "probe"
        assert account_health()[0].breaker == "half-open"
        breakers.answered(lane)
        assert breakers.state(lane) == "closed"
    finally:
        breakers.close()
