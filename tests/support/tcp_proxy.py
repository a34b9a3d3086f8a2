"""A TCP proxy with a temper: it passes, refuses, holds back, or cuts in the middle of an answer.

It speaks Postgres's way into TLS where it has a certificate: the embedded server is built without.
"""

import asyncio
import contextlib
import ssl
import struct
import tempfile
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_SSL_REQUEST = struct.pack("!ii", 8, 80877103)
#: Bytes of the answers that a cut lets through.
_CUT_AFTER = 200


class TcpProxy:
    """`mode`: pass, refuse (the door is shut at once), hold (no byte comes back), cut."""

    def __init__(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> None:
        self._target = (host, port)
        self._tls = tls
        self.mode = "pass"
        self.port = 0
        self._open: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._ready.wait(10)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._ending.set)
        self._thread.join(10)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        self._ending = asyncio.Event()
        server = await asyncio.start_server(self._meet, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._ending.wait()
        server.close()
        for each in list(self._open):
            each.transport.abort()
        await asyncio.sleep(0.05)

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.mode == "refuse":
            writer.transport.abort()
            return
        there, back = await asyncio.open_connection(*self._target)
        self._open |= {writer, back}
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, ssl.SSLError):
            first = await reader.readexactly(8)
            if first == _SSL_REQUEST and self._tls is not None:
                writer.write(b"S")
                await writer.start_tls(self._tls)
            else:
                back.write(first)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pump(reader, back, answers=False))
                group.create_task(self._pump(there, writer, answers=True))
        for each in (writer, back):
            each.transport.abort()
            self._open.discard(each)

    async def _pump(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, *, answers: bool
    ) -> None:
        passed = 0
        with contextlib.suppress(OSError):
            while data := await source.read(65536):
                passed += len(data)
                if answers and self.mode == "hold":
                    continue
                if answers and self.mode == "cut" and passed > _CUT_AFTER:
                    break
                sink.write(data)
                await sink.drain()
        sink.transport.abort()


def localhost_certificate() -> tuple[ssl.SSLContext, str]:
    """A server's context, and the PEM of the authority that vouches for it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.TemporaryDirectory() as folder:
        both = Path(folder) / "both.pem"
        both.write_bytes(private + pem)
        context.load_cert_chain(both)
    return context, pem.decode()
