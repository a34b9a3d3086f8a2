"""Amounts out of args: minor units, exact, or none at all."""

from dataclasses import dataclass, field

import pytest

from operations.canonical import parse_strict
from operations.money import amount_of


@dataclass
class Priced:
    amount_pointer: str = "/amount"
    currency_pointer: str = "/currency"
    currency: str = ""
    amount_unit: str = "minor"
    exponents: dict[str, int] = field(default_factory=dict)


MINOR = Priced()
MAJOR = Priced(amount_unit="major")


@pytest.mark.parametrize(
    ("tool", "args", "expected"),
    [
        (MINOR, '{"amount":25000,"currency":"usd"}', (25000, "USD")),
        (MINOR, '{"amount":25000.0,"currency":"usd"}', (25000, "USD")),
        (MINOR, '{"amount":"25000","currency":"USD"}', (25000, "USD")),
        (MINOR, '{"amount":12.5,"currency":"usd"}', (None, "USD")),
        (MINOR, '{"amount":true,"currency":"usd"}', (None, "USD")),
        (MINOR, '{"amount":9223372036854775808,"currency":"usd"}', (None, "USD")),
        (MINOR, '{"amount":25000}', (25000, None)),
        (MINOR, '{"amount":25000,"currency":"dollars"}', (25000, None)),
        (MINOR, '{"amount":null,"currency":7}', (None, None)),
        (MINOR, "[1]", (None, None)),
        (MAJOR, '{"amount":250.10,"currency":"usd"}', (25010, "USD")),
        (MAJOR, '{"amount":0.1,"currency":"usd"}', (10, "USD")),
        (MAJOR, '{"amount":"1250.00","currency":"EUR"}', (125000, "EUR")),
        (MAJOR, '{"amount":1.005,"currency":"usd"}', (None, "USD")),
        (MAJOR, '{"amount":1250,"currency":"jpy"}', (1250, "JPY")),
        (MAJOR, '{"amount":1.234,"currency":"kwd"}', (1234, "KWD")),
        (MAJOR, '{"amount":5,"currency":"btc"}', (None, "BTC")),
        (MAJOR, '{"amount":5}', (None, None)),
        (
            Priced(amount_unit="major", exponents={"ugx": 2}),
            '{"amount":5,"currency":"UGX"}',
            (500, "UGX"),
        ),
        (Priced(currency_pointer="", currency="eur"), '{"amount":7}', (7, "EUR")),
        (Priced(amount_pointer=""), '{"amount":7,"currency":"usd"}', (None, "USD")),
        (Priced(amount_pointer="/lines/1/minor"), '{"lines":[{},{"minor":3}]}', (3, None)),
    ],
)
def test_the_amount_is_exact_or_none(tool: Priced, args: str, expected: tuple) -> None:
    assert amount_of(tool, parse_strict(args)) == expected
