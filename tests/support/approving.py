"""People, keys and calls for tests of approvals: everything made by walking the real services."""

import subprocess
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, utils
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from django.conf import settings
from django.db import transaction

from approvals import enrolment, policies, requests
from approvals.encodings import b64, unb64
from approvals.models import ReviewerKey, User
from approvals.requests import Opened
from approvals.rules import Rule
from operations import api_keys, catalogue, intents, naming, rows
from operations.actors import Runtime
from operations.claims import ClaimRequest
from operations.errors import DomainError
from tests.support.passkey import Passkey

SESSION = "a-session"
ARGS_RAW = b'{"amount":25000,"customer":"cus_42","currency":"usd"}'


@dataclass
class Person:
    """A user with one passkey that may sign."""

    user: User
    passkey: Passkey
    key: ReviewerKey
    session: str = SESSION

    def sign(self, ceremony: Any) -> dict[str, Any]:
        return self.passkey.get(ceremony.options)


def user(role: str = "reviewer", email: str | None = None) -> User:
    email = email or f"{role}-{uuid.uuid4().hex[:8]}@example.com"
    return User.objects.create_user(email, None, role=role)


def person(role: str = "reviewer", email: str | None = None, **lies: Any) -> Person:
    """Somebody with an enrolled passkey, countersigned where that is needed."""
    someone = user(role, email)
    passkey = Passkey(settings.BASE_HOST, settings.BASE_URL, **lies)
    key = enrol_passkey(someone, passkey)
    return Person(someone, passkey, key)


def enrol_passkey(someone: User, passkey: Passkey) -> ReviewerKey:
    begun = enrolment.start(someone, SESSION, "webauthn", "laptop")
    key = enrolment.finish(
        someone, SESSION, begun["enrolment_id"], passkey.create(begun["options"])
    )
    return vouched(key)


def vouched(key: ReviewerKey) -> ReviewerKey:
    """Have an admin countersign it, unless it is the installation's first."""
    return key if key.bootstrap else enrolment.countersign(user("admin"), key.key_id)


@dataclass
class BrowserKey:
    """A WebCrypto key: P-256, signs M itself."""

    private: ec.EllipticCurvePrivateKey = field(
        default_factory=lambda: ec.generate_private_key(ec.SECP256R1())
    )

    @property
    def spki(self) -> bytes:
        return self.private.public_key().public_bytes(
            Encoding.DER, PublicFormat.SubjectPublicKeyInfo
        )

    def sign(self, message: bytes) -> bytes:
        r, s = utils.decode_dss_signature(self.private.sign(message, ec.ECDSA(hashes.SHA256())))
        return r.to_bytes(32, "big") + s.to_bytes(32, "big")

    def answer(self, ceremony: Any) -> dict[str, str]:
        return {"signature": b64(self.sign(unb64(ceremony.message_b64)))}

    def enrol(self, someone: User) -> ReviewerKey:
        begun = enrolment.start(someone, SESSION, "webcrypto", "this browser")
        signature = self.sign(unb64(begun["message_b64"]))
        answer = {"spki": b64(self.spki), "signature": b64(signature)}
        return vouched(enrolment.finish(someone, SESSION, begun["enrolment_id"], answer))


class SshKey:
    """A key pair of the real ssh-keygen, in a folder of its own."""

    def __init__(self, folder: Path, kind: str = "ed25519") -> None:
        self.path = folder / f"key-{uuid.uuid4().hex[:8]}"
        keygen("-t", kind, "-N", "", "-C", "test", "-f", str(self.path))
        self.line = self.path.with_suffix(".pub").read_text()

    def sign(self, message: bytes, namespace: str = "decision.v1@countersign") -> str:
        done = subprocess.run(
            ["ssh-keygen", "-Y", "sign", "-n", namespace, "-f", str(self.path)],
            input=message,
            capture_output=True,
            check=True,
        )
        return done.stdout.decode()


def keygen(*arguments: str) -> None:
    subprocess.run(["ssh-keygen", "-q", *arguments], check=True, capture_output=True)


def stock_verify(decision: Any, folder: Path, message: bytes | None = None) -> bool:
    """Whether stock `ssh-keygen -Y verify` takes a decision document, with none of our code."""
    signature, signers = folder / "d.sig", folder / "allowed_signers"
    signature.write_text(decision["sshsig"])
    signers.write_text(decision["allowed_signers"] + "\n")
    done = subprocess.run(
        ["ssh-keygen", "-Y", "verify", "-f", str(signers), "-I", decision["reviewer"],
         "-n", "decision.v1@countersign", "-s", str(signature)],
        input=unb64(decision["message_b64"]) if message is None else message,
        capture_output=True, check=False,
    )  # fmt: skip
    return done.returncode == 0


def runtime(environment: str = "live", namespace: str = "default") -> Runtime:
    key, _ = api_keys.create(
        "agent", environment=environment, namespace=namespace, scopes=["operations:write"]
    )
    found = api_keys.find(bytes(key.digest))
    assert found is not None
    return found.runtime


def claim(**changes: Any) -> ClaimRequest:
    facts: dict[str, Any] = {
        "run_id": f"run_{uuid.uuid4().hex[:10]}",
        "agent": "renewals",
        "agent_version": "2.4.1",
        "step": 3,
        "tool": "stripe.charge",
        "args": {"amount": 25000, "customer": "cus_42", "currency": "usd"},
        "args_raw": ARGS_RAW,
        "tool_call_id": "call_abc",
    }
    return ClaimRequest(**{**facts, **changes})


@dataclass
class Asked:
    """A recorded operation that waits for an approval."""

    op_id: UUID
    opened: Opened
    runtime: Runtime
    request: ClaimRequest

    @property
    def id(self) -> str:
        return self.opened.handle


def ask(rule: Rule | None = None, who: Runtime | None = None, **changes: Any) -> Asked:
    """Record a call and open its approval request, as a gated claim does."""
    who = who or runtime()
    request = claim(**changes)
    with transaction.atomic(), rows.hot_cursor() as cur:
        intent = naming.describe(request, who, catalogue.current(cur))
        recorded = intents.record_intent(cur, intent, who)
        assert not isinstance(recorded, DomainError), recorded
        rule = rule or policies.rule_for(intent, request.args)
        opened = requests.open_request(cur, recorded.op, rule, request, who)
        return Asked(recorded.op.id, opened, who, request)


def operation(op_id: UUID) -> rows.LockedOperation:
    with rows.hot_cursor() as cur:
        found = rows.read(cur, op_id=op_id)
    assert found is not None
    return found


def publish(*rules: Mapping[str, Any], actor: str = "user:nobody") -> None:
    """A policy file, as the catalogue command publishes it."""
    from operations.models import CatalogueVersion

    with transaction.atomic():
        newest = CatalogueVersion.objects.order_by("-version").first()
        version = newest.version + 1 if newest else 1
        CatalogueVersion.objects.create(
            version=version, published_by=actor, document="{}", sha256=uuid.uuid4().hex
        )
        policies.apply([dict(rule) for rule in rules], version, actor)
    with rows.hot_cursor() as cur:
        catalogue.current(cur)
