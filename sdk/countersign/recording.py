"""From what an effect returned to what can be recorded of it."""

import logging
from collections.abc import Mapping
from typing import Any

from countersign import canonical
from countersign.calls import Done

_log = logging.getLogger("countersign")
#: Members of provider objects that are secrets and are never recorded.
_SECRET = frozenset({"client_secret"})


def done_of(value: Any) -> Done:
    """The result, reference and status in `value`: a `Done` says them itself, objects of the
    Stripe SDK show them, anything else is the result. What is not JSON is recorded as null."""
    if isinstance(value, Done):
        return Done(_recordable(value.result), value.provider_ref, value.effect_status)
    if _is_stripe_object(value):
        plain = value.to_dict() if hasattr(value, "to_dict") else dict(value)
        kept = {name: item for name, item in plain.items() if name not in _SECRET}
        return Done(_recordable(kept), plain.get("id"), plain.get("status"))
    return Done(_recordable(value))


def _is_stripe_object(value: Any) -> bool:
    return any(
        base.__name__ == "StripeObject" and base.__module__.partition(".")[0] == "stripe"
        for base in type(value).__mro__
    )


def _recordable(value: Any) -> Any:
    if isinstance(value, Mapping) and not isinstance(value, dict):
        value = dict(value)
    try:
        canonical.canonicalize(value)
    except canonical.NotCanonical as problem:
        _log.warning(
            "countersign: the effect's result cannot be recorded (%s); it is recorded as null, and "
            "a replay will return null. Return JSON, or countersign.Done(result=…).",
            problem,
        )
        return None
    return value
