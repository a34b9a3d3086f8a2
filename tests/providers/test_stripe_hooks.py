"""Stripe's signatures and events as such: what holds, what is read, and what is left unread."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crashlab.provider.webhooks import signature
from reconcilers import registry
from reconcilers.providers.base import Provider
from reconcilers.providers.hooks import CAUSES, HookRefused
from reconcilers.providers.stripe import hooks
from reconcilers.providers.stripe.objects import OBJECTS
from tests.providers.contract import access_of

FIXTURES = Path(registry.__file__).parent / "providers" / "stripe" / "fixtures"
STRIPE: Provider = registry.provider_of("stripe")
SECRET = "whsec_now"
ACCESS = access_of(
    STRIPE,
    "test",
    {"secret_key": "sk_test_1", "webhook_secret": SECRET, "webhook_secret_before": "whsec_before"},
)


def read(body: bytes, header: str) -> Any:
    return STRIPE.read_hook(ACCESS, {"stripe-signature": header}, body)


def signed(body: bytes, *secrets: str, ago: int = 0) -> str:
    return signature(body, int(time.time()) - ago, *(secrets or (SECRET,)))


def refused(body: bytes, header: str) -> str:
    with pytest.raises(HookRefused) as refusal:
        read(body, header)
    assert refusal.value.cause in CAUSES
    return refusal.value.cause


_ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.floats(),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["idem_key", "code", "object"]), inner, max_size=2)
    ),
    max_leaves=4,
)


class TestSignatures:
    @pytest.mark.parametrize(
        "secrets", [(SECRET,), ("whsec_before",), ("whsec_other", SECRET), (SECRET, "whsec_other")]
    )
    def test_any_of_several_signatures_by_any_of_the_secrets_holds(self, secrets):
        assert read(b'{"id": "evt_1"}', signed(b'{"id": "evt_1"}', *secrets)).event_id == "evt_1"

    def test_what_is_signed_in_another_scheme_is_not_signed(self):
        header = signed(b"{}").replace("v1=", "v0=")
        assert refused(b"{}", header) == "no_match"

    @pytest.mark.parametrize("header", ["", "t=1", "v1=abc", "t=x,v1=y", "nonsense", "t=1,v1="])
    def test_what_is_no_signature_is_refused(self, header):
        assert refused(b"{}", header) in {"no_signature", "no_match"}

    @pytest.mark.parametrize(("ago", "cause"), [(299, None), (302, "stale"), (10**6, "stale")])
    def test_it_holds_for_five_minutes(self, ago, cause):
        header = signed(b"{}", ago=ago)
        if cause is None:
            assert read(b"{}", header).unreadable
        else:
            assert refused(b"{}", header) == cause

    def test_bytes_that_are_no_text_are_refused_and_not_read(self):
        assert refused(b"\xff\xfe", signed(b"\xff\xfe")) == "not_text"

    @given(st.binary(max_size=60), st.integers(min_value=0, max_value=59), st.integers(1, 255))
    def test_one_changed_byte_never_holds(self, body, at, by):
        text = body.hex().encode() or b"00"
        at %= len(text)
        other = text[:at] + bytes([(text[at] + by) % 256]) + text[at + 1 :]
        assert refused(other, signed(text)) in {"no_match", "not_text"}

    def test_an_account_that_knows_no_secret_takes_nothing(self):
        with pytest.raises(HookRefused) as refusal:
            hooks.verify({}, {"stripe-signature": signed(b"{}")}, b"{}")
        assert refusal.value.cause == "no_secret"


class TestEvents:
    CASES = json.loads((FIXTURES / "events.json").read_text())

    @pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
    def test_each_shape_of_event_is_read_or_said_to_be_unreadable(self, case):
        """P14: shaped by the version of its endpoint."""
        body = json.dumps(case["event"]).encode()
        hook = read(body, signed(body))
        assert hook.event_id == case["event"]["id"]
        assert hook.unreadable == case.get("unreadable", "")
        if hook.unreadable:
            return
        assert (hook.marker, hook.request_key) == (case["marker"], case["request_key"])
        assert (hook.sighting.id if hook.sighting else None) == case["object"]
        assert hook.account == case["event"].get("account", "")
        assert hook.api_version == case["event"]["api_version"]
        assert hook.sighting is None or not hook.sighting.verified

    @given(
        st.dictionaries(st.sampled_from(["type", "livemode", "created", "account"]), _ANY),
        st.dictionaries(
            st.sampled_from(
                ["id", "object", "metadata", "created", "status", "amount", "currency", "livemode",
                 "last_payment_error", "failure_reason", "reversed", "deleted", "transfer_group"]
            ),
            _ANY,
        ),
        st.sampled_from(list(OBJECTS)),
    )  # fmt: skip
    def test_whatever_is_signed_is_read_or_unreadable_and_never_an_error(self, event, body, kind):
        document = {"id": "evt_1", "type": "t", "livemode": False} | event
        document["data"] = {"object": {"id": "pi_1", "object": kind} | body}
        text = json.dumps(document).encode()
        assert read(text, signed(text)).event_id
