"""A passkey in software: answers WebAuthn options as a browser would, or wrongly on purpose."""

import json
import secrets
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import cbor2
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from approvals.encodings import b64url, unb64url

UP, UV, BE, BS, AT = 0x01, 0x04, 0x08, 0x10, 0x40


@dataclass
class Passkey:
    """One credential. Set `flags`, `counter`, `origin` … to lie."""

    rp_id: str
    origin: str
    flags: int = UP | UV
    counter: int = 0
    counts: bool = True
    client_extra: dict[str, Any] = field(default_factory=dict)
    create_type: str = "webauthn.create"
    get_type: str = "webauthn.get"
    key: ec.EllipticCurvePrivateKey = field(
        default_factory=lambda: ec.generate_private_key(ec.SECP256R1())
    )
    credential_id: bytes = field(default_factory=lambda: secrets.token_bytes(32))
    user_handle: bytes | None = None

    def create(self, options: dict[str, Any], *, alg: int = -7) -> dict[str, Any]:
        """`navigator.credentials.create()`, attestation `none`."""
        point = self.key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
        cose = cbor2.dumps({1: 2, 3: alg, -1: 1, -2: point[1:33], -3: point[33:]})
        attested = (
            bytes(16) + len(self.credential_id).to_bytes(2, "big") + self.credential_id + cose
        )
        self.user_handle = unb64url(options["user"]["id"])
        auth_data = self._authenticator_data(self.flags | AT) + attested
        return self._credential(
            clientDataJSON=self._client_data(self.create_type, options["challenge"]),
            attestationObject=cbor2.dumps({"fmt": "none", "attStmt": {}, "authData": auth_data}),
        )

    def get(self, options: dict[str, Any]) -> dict[str, Any]:
        """`navigator.credentials.get()`."""
        if self.counts:
            self.counter += 1
        client_data = self._client_data(self.get_type, options["challenge"])
        auth_data = self._authenticator_data(self.flags)
        signed = auth_data + sha256(client_data).digest()
        answer = self._credential(
            clientDataJSON=client_data,
            authenticatorData=auth_data,
            signature=self.key.sign(signed, ec.ECDSA(hashes.SHA256())),
        )
        if self.user_handle is not None:
            answer["response"]["userHandle"] = b64url(self.user_handle)
        return answer

    def _authenticator_data(self, flags: int) -> bytes:
        head = sha256(self.rp_id.encode()).digest() + bytes([flags])
        return head + self.counter.to_bytes(4, "big")

    def _client_data(self, kind: str, challenge: str) -> bytes:
        data = {"type": kind, "challenge": challenge, "origin": self.origin, "crossOrigin": False}
        return json.dumps(data | self.client_extra, separators=(",", ":")).encode()

    def _credential(self, **response: bytes) -> dict[str, Any]:
        name = b64url(self.credential_id)
        return {
            "id": name,
            "rawId": name,
            "type": "public-key",
            "clientExtensionResults": {},
            "response": {member: b64url(value) for member, value in response.items()},
        }
