"""The simulated provider's webhooks, read with the official SDK: late, twice, reversed, elsewhere.

That signatures hold, and that altered, forged and stale ones do not, stands beside its objects.
"""

import time
from collections.abc import Iterator
from typing import Any

import pytest
import stripe

from tests.providers.test_simulated_objects import Listener
from tests.support.charging import charge
from tests.support.simulated_provider import SimulatedProvider

SECRET = "whsec_sim"
#: What one charge tells of, in its order.
TYPES = ["payment_intent.created", "charge.succeeded", "payment_intent.succeeded"]


@pytest.fixture
def listener(provider: SimulatedProvider) -> Iterator[Listener]:
    listener = Listener()
    provider.settings(webhooks=[{"url": listener.url, "secret": SECRET}])
    yield listener
    provider.settings(webhooks=[])
    listener.close()


def read(delivery: tuple[bytes, str]) -> Any:
    """As a receiver does: raises SignatureVerificationError unless the signature holds."""
    body, signature = delivery
    return stripe.Webhook.construct_event(body, signature, SECRET)


def test_a_late_delivery_is_signed_at_its_own_time(
    provider: SimulatedProvider, listener: Listener
) -> None:
    provider.fault({"webhook_delay_seconds": 1.5}, method="POST")
    charge(provider, "late")
    answered = time.time()
    assert listener.kept == []
    events = [read(delivery) for delivery in listener.wait(3)]
    assert [event.type for event in events] == TYPES
    assert time.time() - answered >= 1.0
    signed_at = int(listener.kept[0][1].split(",")[0].removeprefix("t="))
    assert signed_at >= int(answered) + 1


def test_a_change_told_twice_comes_under_the_same_id_and_under_another(
    provider: SimulatedProvider, listener: Listener
) -> None:
    provider.fault({"webhooks": "twice"}, method="POST")
    charge(provider, "twice")
    events = [read(delivery) for delivery in listener.wait(9)]
    once, again, anew = events[:3], events[3:6], events[6:9]
    assert [event.id for event in once] == [event.id for event in again]
    assert not {event.id for event in once} & {event.id for event in anew}
    assert [event.data.object.id for event in once] == [event.data.object.id for event in anew]


def test_out_of_order_the_end_comes_first(provider: SimulatedProvider, listener: Listener) -> None:
    provider.fault({"webhooks": "reversed"}, method="POST")
    charge(provider, "reversed")
    events = [read(delivery) for delivery in listener.wait(3)]
    assert [event.type for event in events] == TYPES[::-1]
    assert [event.created for event in events] == sorted(event.created for event in events)[::-1]


@pytest.mark.parametrize("how", ["wrong_mode", "wrong_account"])
def test_a_signature_says_nothing_about_mode_or_account(
    provider: SimulatedProvider, listener: Listener, how: str
) -> None:
    """It holds: whose and which mode it is, a receiver has to look at itself."""
    provider.fault({"webhooks": how}, method="POST")
    charge(provider, how)
    events = [read(delivery) for delivery in listener.wait(3)]
    if how == "wrong_mode":
        assert {event.livemode for event in events} == {True}
    else:
        assert {event.account for event in events} == {"acct_sim_somebody_else"}


def test_what_is_lost_never_comes(provider: SimulatedProvider, listener: Listener) -> None:
    provider.fault({"webhooks": "lost"}, method="POST", times=1)
    charge(provider, "lost")
    charge(provider, "told")
    keys = {read(delivery).request.idempotency_key for delivery in listener.wait(3)}
    assert keys == {"told"}
