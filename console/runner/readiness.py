"""Is the console up? Asked over HTTP, as a load balancer would."""

import asyncio
from typing import NamedTuple


class Answer(NamedTuple):
    """Status and body; status 0 when nobody answered."""

    status: int
    body: str


async def ask(host: str, port: int, path: str, wait_seconds: float = 5.0) -> Answer:
    """GET a small page. No HTTP library: the supervisor stays small and free of threads."""
    try:
        async with asyncio.timeout(wait_seconds):
            reader, writer = await asyncio.open_connection(host, port)
            try:
                # Probes name the host that the settings allow in any mode.
                writer.write(
                    f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
                )
                await writer.drain()
                raw = await reader.read(65536)
                while more := await reader.read(65536):
                    raw += more
            finally:
                writer.close()
    except (OSError, TimeoutError) as error:
        return Answer(0, str(error) or "no answer in time")
    head, _, body = raw.decode(errors="replace").partition("\r\n\r\n")
    words = head.split(" ", 2)
    return Answer(int(words[1]) if len(words) > 1 and words[1].isdigit() else 0, body)
