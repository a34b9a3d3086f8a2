"""Evidence bundles: one operation, its approval, and the proof that the log holds both.

A bundle is a zip of plain files, written in one way only, so the same evidence is the same bytes.
What it says is checked by `countersign-verify` (sdk/countersign_verify.py), offline, against keys
that its reader brings; `VERIFY.md` does a good part of it with stock tools.
"""

import io
import json
import zipfile
from hashlib import sha256
from typing import Any, Final

from django.db import connection, transaction

from approvals import arguments, audit, keys, showing
from approvals.encodings import b64
from approvals.errors import Refused, not_found
from approvals.models import ApprovalRequest, Decision, Grant, ReviewerKey, User
from approvals.verify_md import VERIFY_MD
from operations import canonical, rows
from operations.ids import handle, parse_handle
from operations.ledger import checkpoints, entries, merkle, tree
from operations.rows import LockedOperation

BUNDLE_TYPE: Final = "urn:countersign:evidence-bundle:v1"
TRUST_TYPE: Final = "urn:countersign:trust:v1"
_PLACES: Final = """
SELECT s.seq FROM operations_event e JOIN operations_sealedevent s ON s.event_id = e.id
 WHERE e.operation_id = %s AND s.seq <= %s ORDER BY e.version
"""

Files = dict[str, bytes]


def of_operation(user: User, op_id: str, approval_id: str | None = None) -> tuple[str, bytes]:
    """`(file name, zip)` for a person who may see arguments; taking it is logged.

    Holds the approval that is named, else the operation's newest. Raises Refused where the log
    has not published the operation yet.
    """
    wanted = parse_handle("op", op_id)
    with transaction.atomic(), connection.cursor() as cur:
        op = rows.read(cur, op_id=wanted) if wanted else None
        if op is None:
            raise not_found()
        request = _request(op, approval_id)
        if request is not None and request.status == "pending":
            # Whoever has yet to decide must not read here what others said.
            raise Refused("NOT_READY", "Its approval still waits for decisions.")
        files = _files(cur, op, request)
        name = request.handle if request else op.handle
        data = {"operation": op.handle, "approval": request.handle if request else None}
        audit.note(cur, "evidence.exported", actor=f"user:{user.id}", scope=op.scope, data=data)
    return f"countersign-{name}.zip", pack(files)


def of_approval(user: User, approval_id: str) -> tuple[str, bytes]:
    """The same for one approval."""
    wanted = parse_handle("apr", approval_id)
    request = ApprovalRequest.objects.filter(id=wanted).first() if wanted else None
    if request is None:
        raise not_found()
    return of_operation(user, handle("op", request.operation_id), approval_id)


def pack(files: Files) -> bytes:
    """The one way to write a bundle: stored, sorted, without times."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(files):
            info = zipfile.ZipInfo(name)
            info.create_system, info.external_attr = 3, 0o600 << 16
            archive.writestr(info, files[name])
    return out.getvalue()


def _request(op: LockedOperation, approval_id: str | None) -> ApprovalRequest | None:
    asked = ApprovalRequest.objects.filter(operation_id=op.id).order_by("-id")
    wanted = parse_handle("apr", approval_id) if approval_id is not None else None
    return (asked.filter(id=wanted) if wanted else asked).first()


def _files(cur: Any, op: LockedOperation, request: ApprovalRequest | None) -> Files:
    files: Files = {"VERIFY.md": VERIFY_MD.encode()}
    try:
        args = arguments.read(cur, op.id, op.args_fingerprint)
        files["args.json"] = canonical.canonicalize(args)
    except Refused as refused:
        if refused.code != "ARGS_ERASED":
            raise
        args = None
    seen: set[int] = set()
    if request is not None:
        document = json.loads(bytes(request.document))
        files["request.json"] = bytes(request.document)
        seen = _decisions(files, request)
        if "args.json" in files:
            files["display.txt"] = showing.of_request(document, args).text.encode()
        else:
            kept = Decision.objects.filter(request=request).first()
            files["display.txt"] = kept.display.encode() if kept else b""
        grant = Grant.objects.filter(request=request).order_by("-issued_at").first()
        if grant is not None:
            files["grant.jws"] = grant.token.encode()
    _prove(cur, op, files, seen)
    manifest = {
        "type": BUNDLE_TYPE,
        "operation": op.handle,
        "approval": request.handle if request else None,
        "files": {name: sha256(raw).hexdigest() for name, raw in files.items()},
    }
    files["manifest.json"] = canonical.canonicalize(manifest)
    return files


def _decisions(files: Files, request: ApprovalRequest) -> set[int]:
    """Envelopes, messages and armours; the sizes of the checkpoints that their signers saw."""
    seen = set()
    signed = Decision.objects.filter(request=request, counts=True).order_by(
        "decided_at", "decision_id"
    )
    for number, decision in enumerate(signed, start=1):
        files[f"decisions/{number}.envelope.json"] = canonical.canonicalize(decision.envelope)
        files[f"decisions/{number}.message"] = bytes(decision.message)
        if decision.sshsig:
            files[f"decisions/{number}.sshsig"] = decision.sshsig.encode()
        seen.add(json.loads(bytes(decision.statement))["predicate"]["log"]["size"])
    return seen - {0}


def _prove(cur: Any, op: LockedOperation, files: Files, seen: set[int]) -> None:
    """The operation's entries with their proofs, the checkpoint, and what the entries come to."""
    log = tree.current(cur)
    published = checkpoints.newest(cur, log.id) if log else None
    found = []
    if log is not None and published is not None:
        cur.execute(_PLACES, (op.id, published.size))
        found = [row[0] - 1 for row in cur.fetchall()]
    if log is None or published is None or not found:
        raise Refused(
            "NOT_READY", "The operation is not in a published checkpoint yet; try in a minute."
        )
    node = tree.nodes(cur, log.id)
    files["checkpoint.txt"] = published.note.encode()
    for index in found:
        prev = node(0, index - 1) if index else b""
        cur.execute(entries.READ, (index, 1))
        entry = entries.of_row(cur.fetchone(), prev)
        files[f"entries/{index}.json"] = entry.raw
        proof = merkle.inclusion_proof(index, published.size, node)
        files[f"proofs/{index}.json"] = _proof(proof, index=index, size=published.size)
        event = json.loads(entry.raw)["event"]
        if event["to_state"]:
            outcome = {
                "operation": op.handle,
                "state": event["to_state"],
                "at": event["at"],
                "version": event["version"],
            }
            files["outcome.json"] = canonical.canonicalize(outcome)
    for size in sorted(one for one in seen if one <= published.size):
        proof = merkle.consistency_proof(size, published.size, node)
        name = f"proofs/seen-{size}.json"
        files[name] = _proof(proof, **{"from": size, "to": published.size})


def _proof(hashes: list[bytes], **about: int) -> bytes:
    return canonical.canonicalize({**about, "proof": [b64(one) for one in hashes]})


def trust() -> dict[str, Any]:
    """The trust file that a verifier keeps: every reviewer key, grant key and ledger key.

    `bad_from` is the first index of the log at which a compromised key counts for nothing.
    """
    from approvals import jwks

    with connection.cursor() as cur:
        found = checkpoints.vkeys(cur)
    return {
        "type": TRUST_TYPE,
        "vkeys": found[1] if found else [],
        "grant_keys": [{"kid": key["kid"], "x": key["x"]} for key in jwks.jwks()["keys"]],
        "reviewers": [
            _trusted(key) for key in ReviewerKey.objects.select_related("user").order_by("id")
        ],
    }


def _trusted(key: ReviewerKey) -> dict[str, Any]:
    line = key.ssh_public_key
    return {
        "person": f"user:{key.user_id}",
        "name": key.user.email,
        "key_id": key.key_id,
        "method": key.method,
        "spki": b64(bytes(key.spki)),
        "ssh_public_key": line,
        "allowed_signers": keys.allowed_signers(key.user.email, line) if line else "",
        "revoked": _revoked(key),
    }


def _revoked(key: ReviewerKey) -> dict[str, Any] | None:
    if key.revoked_at is None:
        return None
    return {"reason": key.revoked_reason, "bad_from": key.bad_from or 0}
