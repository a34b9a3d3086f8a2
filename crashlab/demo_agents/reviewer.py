"""A robot among the reviewers, so that denials and approvals are seen in a demo nobody attends.

It decides only what the demo's own agents ask for it (by their goal), from the command line's side
of the API: it fetches the statement, signs exactly those bytes with its SSH key, hands them in.
"""

import argparse
import base64
import hashlib
import os
import struct
import time
from pathlib import Path

import httpx
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from crashlab.demo_agents.parents import end_with_parent

#: Environment variable: the reviewer's token.
TOKEN = "COUNTERSIGN_DEMO_REVIEWER_TOKEN"  # noqa: S105 -- a name, not a token
_NAMESPACE = b"decision.v1@countersign"
_EVERY_SECONDS = 10.0
#: Beginning of a goal -> verdict and reason.
VERDICTS = {
    "pay to a blocked account": ("deny", "This account is on the block list."),
    "renew a known customer": ("approve", "Known customer, amount as in the contract."),
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--console", required=True)
    parser.add_argument("--ssh-key", type=Path, required=True)
    given = parser.parse_args()
    end_with_parent()
    key = serialization.load_ssh_private_key(given.ssh_key.read_bytes(), None)
    assert isinstance(key, Ed25519PrivateKey)
    headers = {"Authorization": f"Bearer {os.environ[TOKEN]}"}
    with httpx.Client(base_url=given.console, headers=headers, timeout=15) as http:
        while True:
            try:
                _look_through(http, key)
            except httpx.HTTPError as problem:
                print(f"robot: {problem}", flush=True)
            time.sleep(_EVERY_SECONDS)


def _look_through(http: httpx.Client, key: Ed25519PrivateKey) -> None:
    query = {"status": "pending", "limit": "200"}
    pending = http.get("/api/v1/approvals", params=query).raise_for_status().json()["items"]
    for approval in pending:
        goal = approval["operation"].get("goal") or ""
        found = next((VERDICTS[start] for start in VERDICTS if goal.startswith(start)), None)
        if found is not None:
            _decide(http, key, approval["id"], *found)


def _decide(
    http: httpx.Client, key: Ed25519PrivateKey, approval_id: str, verdict: str, reason: str
) -> None:
    path = f"/api/v1/approvals/{approval_id}"
    asked = http.post(f"{path}/statement", json={"verdict": verdict, "reason": reason})
    if asked.is_success:
        told = asked.json()
        signature = sshsig(key, base64.b64decode(told["message_b64"]))
        body = {"statement_id": told["statement_id"], "sshsig": signature}
        asked = http.post(f"{path}/decisions", json=body)
    print(f"robot: {verdict} {approval_id}: {asked.status_code} {asked.text[:200]}", flush=True)


def sshsig(key: Ed25519PrivateKey, message: bytes) -> str:
    """What `ssh-keygen -Y sign -n decision.v1@countersign` makes (PROTOCOL.sshsig)."""
    public = key.public_key().public_bytes(
        serialization.Encoding.Raw, serialization.PublicFormat.Raw
    )
    about = [_NAMESPACE, b"", b"sha512"]
    signed = b"SSHSIG" + b"".join(map(_string, [*about, hashlib.sha512(message).digest()]))
    blob = b"SSHSIG" + struct.pack(">I", 1)
    blob += _string(_string(b"ssh-ed25519") + _string(public))
    blob += b"".join(map(_string, about))
    blob += _string(_string(b"ssh-ed25519") + _string(key.sign(signed)))
    text = base64.b64encode(blob).decode()
    lines = [text[start : start + 70] for start in range(0, len(text), 70)]
    framed = ["-----BEGIN SSH SIGNATURE-----", *lines, "-----END SSH SIGNATURE-----"]
    return "\n".join(framed) + "\n"


def _string(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data


if __name__ == "__main__":
    main()
