"""Encrypted connections to Temporal: a private authority, client certificates, and neither."""

import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from reconcilers.evidence import Look, Outcome
from tests.providers.bench_temporal import TemporalBench
from tests.support.temporal_server import TemporalServer


@dataclass(frozen=True)
class Pair:
    """A certificate and its private key, as PEM."""

    cert: str
    key: str
    private: ec.EllipticCurvePrivateKey
    name: x509.Name


def certificate(name: str, issuer: Pair | None = None) -> Pair:
    private = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    alternatives: list[x509.GeneralName] = [x509.DNSName(name)]
    if issuer is not None:
        alternatives.append(x509.IPAddress(ipaddress.ip_address("127.0.0.1")))
    built = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.name if issuer else subject)
        .public_key(private.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .sign(issuer.private if issuer else private, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    key = private.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return Pair(built.public_bytes(pem).decode(), key.decode(), private, subject)


@pytest.fixture(scope="module")
def authority() -> Pair:
    return certificate("authority.example")


@pytest.fixture
def bench(authority: Pair) -> Iterator[TemporalBench]:
    frontend = certificate("frontend.example", authority)
    credentials = grpc.ssl_server_credentials(
        [(frontend.key.encode(), frontend.cert.encode())],
        root_certificates=authority.cert.encode(),
        require_client_auth=True,
    )
    server = TemporalServer(credentials=credentials, api_key="").start_serving()
    yield TemporalBench(server)
    server.stop()


async def look(bench: TemporalBench, **config: Any) -> Look:
    marker = uuid4().hex
    bench.make_effect(marker)
    (seen,) = await bench.ask(marker, config={"api_key": "", "tls": "on"} | config)
    return seen


async def test_a_client_certificate_of_the_authority_opens_the_namespace(bench, authority):
    ours = certificate("reconciler.example", authority)
    seen = await look(
        bench,
        server_ca=authority.cert,
        server_name="frontend.example",
        client_cert=ours.cert,
        client_key=ours.key,
    )
    assert seen.outcome is Outcome.HIT


@pytest.mark.parametrize("lacks", ["authority", "certificate", "name"])
async def test_whoever_cannot_be_checked_is_not_spoken_to(bench, authority, lacks):
    stranger = certificate("stranger.example")
    ours = certificate("reconciler.example", authority)
    config = {
        "server_ca": stranger.cert if lacks == "authority" else authority.cert,
        "server_name": "another.example" if lacks == "name" else "frontend.example",
    }
    if lacks != "certificate":
        config |= {"client_cert": ours.cert, "client_key": ours.key}
    seen = await look(bench, **config)
    assert seen.outcome is Outcome.CANNOT_LOOK
    # How a frontend hangs up on a stranger is a matter of timing.
    assert "the frontend" in seen.reason
    assert not seen.permanent
    assert not bench.server.calls


async def test_a_frontend_that_encrypts_is_not_read_in_the_clear(bench):
    seen = await look(bench, tls="off")
    assert seen.outcome is Outcome.CANNOT_LOOK
    assert not bench.server.calls
