"""Parameters of the endpoints: names, amounts, currencies, metadata. What is wrong is a 400 that no
key keeps."""

import re
from typing import Any

from crashlab.provider.answers import invalid


def names(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: Smallest amount that Stripe takes, in minor units; other currencies here start at 1.
SMALLEST = {"usd": 50, "eur": 50, "gbp": 30, "chf": 50, "jpy": 50}
LARGEST = 99_999_999
CURRENCIES = names(
    "usd eur gbp chf jpy cad aud nzd sek nok dkk pln czk huf bhd kwd jod omr tnd sgd hkd inr brl"
    " mxn krw vnd clp"
)


def only(params: dict[str, Any], known: frozenset[str]) -> None:
    for name in params:
        if name not in known:
            raise invalid(
                f"Received unknown parameter: {name}", code="parameter_unknown", param=name
            )


def required(params: dict[str, Any], name: str) -> Any:
    value = params.get(name)
    if value in (None, ""):
        raise invalid(f"Missing required param: {name}.", code="parameter_missing", param=name)
    return value


def currency(params: dict[str, Any]) -> str:
    value = str(required(params, "currency"))
    if value.lower() not in CURRENCIES:
        raise invalid(f"Invalid currency: {value}.", param="currency")
    return value.lower()


def amount(params: dict[str, Any], unit: str) -> int:
    """A whole number of minor units, as text: `2500`, never `25.00`."""
    value = str(required(params, "amount"))
    if not re.fullmatch(r"-?[0-9]{1,18}", value):
        raise invalid(f"Invalid integer: {value}", code="parameter_invalid_integer", param="amount")
    number = int(value)
    if number < SMALLEST.get(unit, 1):
        raise invalid(
            "Amount must be at least the smallest charge in this currency.",
            code="amount_too_small",
            param="amount",
        )
    if number > LARGEST:
        raise invalid(
            f"Amount must be no more than {LARGEST}.", code="amount_too_large", param="amount"
        )
    return number


def metadata(params: dict[str, Any]) -> dict[str, str]:
    values = params.get("metadata") or {}
    if not isinstance(values, dict):
        raise invalid("Invalid hash", param="metadata")
    if len(values) > 50:
        raise invalid("Metadata takes up to 50 keys.", param="metadata")
    for name, value in values.items():
        if len(name) > 40:
            raise invalid("Metadata keys take up to 40 characters.", param=f"metadata[{name}]")
        if not isinstance(value, str) or len(value) > 500:
            raise invalid("Metadata values take up to 500 characters.", param=f"metadata[{name}]")
    return dict(values)


def flag(params: dict[str, Any], name: str) -> bool:
    value = str(params.get(name, "false")).lower()
    if value not in ("true", "false"):
        raise invalid(f"Invalid boolean: {value}", param=name)
    return value == "true"
