"""A reviewer at a command line: an enrolled SSH key that signs statements, without ssh-keygen."""

import base64
import json
import secrets
from hashlib import sha512
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from bench.wire import Connection, post
from tests.support.product import Product

_NAMESPACE = b"decision.v1@countersign"
_ANY_APPROVAL = """
tools: []
policies:
  - id: bench
    match: {environment: live}
    tier: T2
    quorum: 1
    min_custody: A1
    expires_minutes: 60
"""


class Reviewer:
    """One person with a key and a token."""

    def __init__(self, product: Product, folder: Path, email: str = "bench@example.com") -> None:
        self._key = Ed25519PrivateKey.generate()
        self._public = self._key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
        key_file = folder / "bench-key.pub"
        key_file.write_bytes(self._public + b" bench\n")
        policy_file = folder / "bench-policy.yaml"
        policy_file.write_text(_ANY_APPROVAL)
        product.manage("catalogue", "apply", str(policy_file))
        product.create_user(email, "reviewer", secrets.token_urlsafe(18))
        product.manage("enrol_key", email, "--ssh-key", str(key_file))
        self.token = product.manage("create_reviewer_token", email).strip().encode()

    async def statement(self, connection: Connection, approval: str) -> dict[str, Any]:
        """The bytes to sign for an approval."""
        path = f"/api/v1/approvals/{approval}/statement".encode()
        body = b'{"verdict":"approve","reason":"benchmark"}'
        status, answer = await connection.ask(post(path, self.token, body))
        if status != 200:
            raise RuntimeError(f"no statement: {status} {answer[:300]!r}")
        found: dict[str, Any] = json.loads(answer)
        return found

    def decision(self, approval: str, statement: dict[str, Any]) -> bytes:
        """The request that hands in the signature."""
        signed = self._sign(base64.b64decode(statement["message_b64"]))
        body = json.dumps({"statement_id": statement["statement_id"], "sshsig": signed}).encode()
        return post(f"/api/v1/approvals/{approval}/decisions".encode(), self.token, body)

    def _sign(self, message: bytes) -> str:
        digest = sha512(message).digest()
        shared = _string(_NAMESPACE) + _string(b"") + _string(b"sha512")
        signature = self._key.sign(b"SSHSIG" + shared + _string(digest))
        public = base64.b64decode(self._public.split()[1])
        blob = b"SSHSIG" + (1).to_bytes(4, "big") + _string(public) + shared
        blob += _string(_string(b"ssh-ed25519") + _string(signature))
        text = base64.b64encode(blob).decode()
        lines = "\n".join(text[at : at + 70] for at in range(0, len(text), 70))
        return f"-----BEGIN SSH SIGNATURE-----\n{lines}\n-----END SSH SIGNATURE-----\n"


def _string(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data
