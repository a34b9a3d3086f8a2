"""Which addresses are asked: never one inside our own walls, unless the account allows that.

The check is made on what a name resolves to, at the moment of connecting, and the connection goes
to that very address: a name that answers differently the second time gains nothing.
"""

import ipaddress
import re
import socket
from typing import Final

from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver

_NUMERIC: Final = re.compile(r"[0-9.]+|0[xX][0-9a-fA-F.]+")
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")


class PrivateAddress(Exception):
    """The name resolves to an address that this account must not reach.

    No OSError: the library would take it for a name that cannot be resolved.
    """


def refused_address(host: str) -> bool:
    """Whether `host` is a literal address that is not public. A name is no literal."""
    try:
        address = ipaddress.ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        # 127.1 and 0x7f000001 are spellings of an address, and never needed.
        return _NUMERIC.fullmatch(host) is not None
    return not _is_public(address)


def _is_public(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    """Global unicast, also where an IPv6 address only wraps an IPv4 one."""
    if isinstance(address, ipaddress.IPv6Address):
        wrapped = address.ipv4_mapped or address.sixtofour
        if address.teredo is not None:
            return False
        if address in _NAT64:
            wrapped = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if wrapped is not None:
            return _is_public(wrapped)
    return address.is_global and not address.is_multicast


class GuardedResolver(AbstractResolver):
    """Resolves names, and refuses those that lead to an address which is not public."""

    def __init__(self) -> None:
        self._resolver = ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Every address of the name, all of them public; raises PrivateAddress."""
        found = await self._resolver.resolve(host, port, family)
        if any(refused_address(each["host"]) for each in found):
            raise PrivateAddress(host)
        return found

    async def close(self) -> None:
        """Nothing stays open."""
        await self._resolver.close()
