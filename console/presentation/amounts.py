"""Money in major units, exact: integers and ISO 4217 codes in, text out; no float on the way.

The exponent is the tool's own where its catalogue entry names one: providers differ from ISO
(Stripe takes ISK and UGX with two decimals). An unknown currency is shown in minor units alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from operations import catalogue, money
from operations.models import Operation


@dataclass(frozen=True)
class Amount:
    """`major` is None where the exponent is not known; `minor` is always exact."""

    minor: int
    currency: str
    major: str | None

    def __str__(self) -> str:
        if self.major is None:
            return f"{self.minor} minor units {self.currency}".strip()
        return f"{self.currency} {self.major}"


def exponent_of(currency: str, own: Mapping[str, int] | None = None) -> int | None:
    """How many decimals the minor unit has, by the tool's own table, then by ISO 4217."""
    return money.minor_digits(currency.upper(), own or {})


def amount(minor: int, currency: str | None, own: Mapping[str, int] | None = None) -> Amount:
    """An amount ready to print: `EUR 1,250.00` beside `125000`."""
    code = (currency or "").upper()
    exponent = exponent_of(code, own)
    if exponent is None:
        return Amount(minor, code, None)
    sign = "-" if minor < 0 else ""
    digits = str(abs(minor)).rjust(exponent + 1, "0")
    whole = digits[: len(digits) - exponent] if exponent else digits
    fraction = digits[len(digits) - exponent :] if exponent else ""
    grouped = f"{int(whole):,}"
    return Amount(minor, code, f"{sign}{grouped}{'.' + fraction if fraction else ''}")


def of_operation(operation: Operation) -> Amount | None:
    """What a call moves, by the exponents of the catalogue's present entry for its tool."""
    if operation.amount_minor is None:
        return None
    own = catalogue.known().facts(operation.tool).exponents
    return amount(operation.amount_minor, operation.currency, own)


def minor_of(text: str, currency: str) -> int | None:
    """`1,250.00` in minor units; None where it is no number or has decimals the currency lacks."""
    exponent = exponent_of(currency)
    if exponent is None:
        return None
    try:
        value = Decimal(text.replace(",", ""))
    except InvalidOperation:
        return None
    scaled = value.scaleb(exponent)
    return int(scaled) if value.is_finite() and scaled == scaled.to_integral_value() else None
