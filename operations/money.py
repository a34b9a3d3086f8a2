"""The amount of a call, found in its args as the catalogue says. Pure; never a binary float.

Amounts are integers in the currency's minor unit. ISO 4217 gives the digits; a provider that
counts otherwise (Stripe keeps two for UGX) says so in the tool's `exponents`.
"""

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final, Protocol

from operations.canonical import resolve_pointer

_BY_DIGITS: Final = {
    0: "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF",
    2: (
        "AED AFN ALL AMD ANG AOA ARS AUD AWG AZN BAM BBD BDT BGN BMD BND BOB BRL BSD BTN BWP BYN "
        "BZD CAD CDF CHF CNY COP CRC CUP CVE CZK DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS "
        "GIP GMD GTQ GYD HKD HNL HTG HUF IDR ILS INR IRR JMD KES KGS KHR KPW KYD KZT LAK LBP LKR "
        "LRD LSL MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD "
        "PAB PEN PGK PHP PKR PLN QAR RON RSD RUB SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN "
        "SVC SYP SZL THB TJS TMT TOP TRY TTD TWD TZS UAH USD UYU UZS VED VES WST XCD XCG YER ZAR "
        "ZMW ZWG"
    ),
    3: "BHD IQD JOD KWD LYD OMR TND",
    4: "CLF UYW",
}
_DIGITS: Final = {code: digits for digits, codes in _BY_DIGITS.items() for code in codes.split()}
_CURRENCY = re.compile(r"[A-Za-z]{3}").fullmatch
_DECIMAL = re.compile(r"-?[0-9]{1,30}(?:\.[0-9]{1,30})?").fullmatch
_BIGINT: Final = 2**63 - 1


class PricedTool(Protocol):
    """The catalogue's columns about money."""

    @property
    def amount_pointer(self) -> str: ...
    @property
    def currency_pointer(self) -> str: ...
    @property
    def currency(self) -> str: ...
    @property
    def amount_unit(self) -> str: ...
    @property
    def exponents(self) -> Mapping[str, int]: ...


def minor_digits(currency: str, exponents: Mapping[str, int]) -> int | None:
    """How many decimal digits separate major from minor units; None for an unknown currency."""
    for code, digits in exponents.items():
        if code.upper() == currency:
            return digits
    return _DIGITS.get(currency)


def amount_of(tool: PricedTool, args: Any) -> tuple[int | None, str | None]:
    """`(amount_minor, currency)` of a call; None for what the args do not say.

    An amount that is no whole number of minor units, or does not fit in 64 bits, is None: a
    rounded amount would be another amount.
    """
    currency = _currency_of(tool, args)
    if not tool.amount_pointer:
        return None, currency
    amount = _decimal(_at(args, tool.amount_pointer))
    if amount is not None and tool.amount_unit == "major":
        amount = _scaled(amount, currency, tool.exponents)
    if amount is None or amount != amount.to_integral_value() or abs(amount) > _BIGINT:
        return None, currency
    return int(amount), currency


def _scaled(amount: Decimal, currency: str | None, exponents: Mapping[str, int]) -> Decimal | None:
    digits = minor_digits(currency, exponents) if currency else None
    return None if digits is None else amount.scaleb(digits)


def _currency_of(tool: PricedTool, args: Any) -> str | None:
    found = _at(args, tool.currency_pointer) if tool.currency_pointer else tool.currency
    if isinstance(found, str) and _CURRENCY(found):
        return found.upper()
    return None


def _at(args: Any, pointer: str) -> Any:
    try:
        return resolve_pointer(args, pointer)
    except LookupError:
        return None


def _decimal(value: Any) -> Decimal | None:
    """A float by its shortest spelling, which is the decimal that was written."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = repr(value)
    return Decimal(value) if isinstance(value, str) and _DECIMAL(value) else None
