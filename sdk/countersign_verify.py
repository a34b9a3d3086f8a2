"""countersign-verify: checks an evidence bundle offline, in one file; needs only `cryptography`.

    python countersign_verify.py bundle.zip --trust trust.json

Trust comes from `--trust` and never from the bundle. Each check has a number and a name and ends
as pass, fail or not_checked; what could not be checked is never shown as passed. Exit code: 0 all
passed, 1 something failed, 2 nothing failed but not everything was checked, 3 no readable bundle.
What no offline check can show: that a grant was used only once, and what was revoked since.
"""

import argparse
import base64
import binascii
import io
import json
import re
import struct
import sys
import unicodedata
import zipfile
from collections.abc import Callable, Iterator
from hashlib import sha256, sha512
from pathlib import Path
from typing import Any, NamedTuple

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, utils
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_der_public_key,
)

MOST_BYTES = 64 * 1024 * 1024
MOST_FILES = 20_000
BUNDLE = "urn:countersign:evidence-bundle:v1"
TRUST = "urn:countersign:trust:v1"
STATEMENT = "https://in-toto.io/Statement/v1"
DECISION = "urn:countersign:approval-decision:v1"
PAYLOAD_TYPE = "application/vnd.in-toto+json"
NAMESPACE = "decision.v1@countersign"
CUSTODY = {"webauthn": "A2", "ssh-sk": "A2", "ssh": "A1", "webcrypto": "A1"}
NAMES = re.compile(
    r"(manifest|request|args|outcome|trust)\.json|VERIFY\.md|display\.txt|checkpoint\.txt|grant\.jws"
    r"|entries/[0-9]{1,16}\.json|proofs/([0-9]{1,16}|seen-[0-9]{1,16})\.json"
    r"|decisions/[0-9]{1,4}\.(envelope\.json|message|sshsig)"
).fullmatch


class Malformed(Exception):
    """This is no bundle, or no trust file."""


class Failed(Exception):
    """A check does not hold."""


class NotChecked(Exception):
    """A check could not be made."""


class Result(NamedTuple):
    """One check: its number, name, how it ended, and why."""

    number: int
    name: str
    outcome: str
    detail: str


# Bytes and JSON -----------------------------------------------------------------------------------


def unb64(text: Any) -> bytes:
    """Standard base64 in its one spelling."""
    try:
        raw = base64.b64decode(text.encode("ascii"), validate=True)
    except (AttributeError, UnicodeEncodeError, binascii.Error):
        raise Failed("encoding: not base64") from None
    if base64.b64encode(raw).decode() != text:
        raise Failed("encoding: base64 is not in its one spelling")
    return raw


def unb64url(text: str) -> bytes:
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except (ValueError, binascii.Error):
        raise Failed("encoding: not base64url") from None
    if base64.urlsafe_b64encode(raw).rstrip(b"=").decode() != text:
        raise Failed("encoding: base64url is not in its one spelling")
    return raw


def parse(raw: bytes) -> Any:
    """JSON, read strictly."""

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({name for name, _ in pairs}) != len(pairs):
            raise ValueError("a member stands there twice")
        return dict(pairs)

    def constant(name: str) -> Any:
        raise ValueError(f"{name} is not JSON")

    try:
        return json.loads(raw.decode(), object_pairs_hook=members, parse_constant=constant)
    except (ValueError, RecursionError) as error:
        raise Failed(f"json: {error}") from None


def canonical(value: Any) -> bytes:
    """RFC 8785; integers keep all their digits."""
    if isinstance(value, dict):
        names = sorted(value, key=lambda name: name.encode("utf-16-be", "surrogatepass"))
        inner = (canonical(name) + b":" + canonical(value[name]) for name in names)
        return b"{" + b",".join(inner) + b"}"
    if isinstance(value, list):
        return b"[" + b",".join(map(canonical, value)) + b"]"
    if isinstance(value, float):
        return _ecmascript(value).encode()
    return json.dumps(value, ensure_ascii=False).encode()


def _ecmascript(number: float) -> str:
    if number == 0:
        return "0"
    mantissa, _, exponent = repr(number).partition("e")
    mantissa = mantissa.removesuffix(".0")
    if not exponent:
        return mantissa
    power = int(exponent)
    if power >= 21 or power < -6:
        return f"{mantissa}e{power:+d}"
    sign, digits = ("-", mantissa[1:]) if number < 0 else ("", mantissa)
    digits = digits.replace(".", "")
    return f"{sign}0.{'0' * (-power - 1)}{digits}" if power < 0 else f"{sign}{digits:0<{power + 1}}"


def read(raw: bytes) -> Any:
    """Canonical JSON: the bytes are the only ones that say it."""
    value = parse(raw)
    if canonical(value) != raw:
        raise Failed("statement.not_canonical: the bytes are not in canonical form")
    return value


def need(holds: bool, why: str) -> None:
    if not holds:
        raise Failed(why)


def shape(value: Any, wanted: Any, at: str = "") -> None:
    """Closed shapes: exactly these members, of these types."""
    if isinstance(wanted, dict):
        need(isinstance(value, dict) and value.keys() == wanted.keys(), f"schema: {at or '/'}")
        for name, inner in wanted.items():
            shape(value[name], inner, f"{at}/{name}")
    elif isinstance(wanted, list):
        need(isinstance(value, list), f"schema: {at}")
        for item in value:
            shape(item, wanted[0], at)
    else:
        fits = isinstance(value, wanted) and not (isinstance(value, bool) and wanted is int)
        need(fits, f"schema: {at} has the wrong type")


_OPTIONAL = (str, type(None))
STATEMENT_SHAPE = {
    "_type": str, "subject": [{"name": str, "digest": {"sha256": str}}], "predicateType": str,
    "predicate": {
        "decision": str, "request": {"id": str, "nonce": str, "sha256": str},
        "call": {"tool": str, "tool_version": str, "schema_sha256": _OPTIONAL, "idem_key": str,
                 "run_id": str, "step": int, "tool_call_id": str},
        "agent": {"id": str, "version": str, "runtime": str},
        "scope": {"environment": str, "audience": str},
        "policy": {"id": str, "version": int, "sha256": str, "rule": str, "quorum": int,
                   "min_custody": str},
        "reviewer": {"id": str, "key_id": str, "method": str, "custody": str},
        "validity": {"decided_at": str, "expires_at": str}, "reason": {"code": str, "text": str},
        "display": {"renderer": str, "sha256": str, "coverage": str, "warnings": [str]},
        "log": {"origin": str, "size": int, "root": str},
    },
}  # fmt: skip


# Trees and notes ----------------------------------------------------------------------------------


def _node(left: bytes, right: bytes) -> bytes:
    return sha256(b"\x01" + left + right).digest()


def included(leaf: bytes, index: int, size: int, proof: list[bytes], root: bytes) -> None:
    """RFC 6962: the leaf stands at the index of the tree of that size."""
    need(0 <= index < size and all(len(one) == 32 for one in proof), "proof: out of the tree")
    place, last, found = index, size - 1, leaf
    for sibling in proof:
        need(last > 0, "proof: too long")
        if place & 1 or place == last:
            found = _node(sibling, found)
            while place and not place & 1:
                place, last = place >> 1, last >> 1
        else:
            found = _node(found, sibling)
        place, last = place >> 1, last >> 1
    need(last == 0, "proof: too short")
    need(found == root, "root.mismatch: the proof leads to another root")


def consistent(old: int, new: int, before: bytes, after: bytes, proof: list[bytes]) -> None:
    """RFC 6962: the tree of `new` begins with the tree of `old`."""
    need(0 < old <= new and all(len(one) == 32 for one in proof), "proof: impossible sizes")
    if old == new:
        need(not proof and before == after, "root.mismatch: one size has two roots")
        return
    path = list(proof) if old & (old - 1) else [before, *proof]
    need(bool(proof), "proof: empty")
    place, last = old - 1, new - 1
    while place & 1:
        place, last = place >> 1, last >> 1
    first = second = path[0]
    for sibling in path[1:]:
        need(last > 0, "proof: too long")
        if place & 1 or place == last:
            first, second = _node(sibling, first), _node(sibling, second)
            while place and not place & 1:
                place, last = place >> 1, last >> 1
        else:
            second = _node(second, sibling)
        place, last = place >> 1, last >> 1
    need(last == 0, "proof: too short")
    need((first, second) == (before, after), "root.mismatch: the log did not only grow")


class Checkpoint(NamedTuple):
    """origin, number of entries, root."""

    origin: str
    size: int
    root: bytes


def open_checkpoint(note: bytes, vkeys: list[str]) -> Checkpoint:
    """A C2SP signed note whose origin's own trusted key has signed; every line of it is used."""
    try:
        text = note.decode()
    except UnicodeDecodeError:
        raise Failed("note: not UTF-8") from None
    need(all(c == "\n" or ord(c) >= 0x20 for c in text), "note: a control character")
    body, found, block = text.rpartition("\n\n")
    need(bool(found) and text.endswith("\n"), "note: no signature")
    lines = (body + "\n").split("\n")
    need(len(lines) == 4 and not lines[3], "note: a checkpoint has three lines")
    origin, size = lines[0], lines[1]
    need(re.fullmatch(r"0|[1-9][0-9]{0,18}", size) is not None, "note: the size is not plain")
    root = unb64(lines[2])
    need(len(root) == 32, "note: the root is not 32 bytes")
    signatures = block.removesuffix("\n").split("\n")
    need(len(signatures) == 1, "note: not exactly one signature")
    match = re.fullmatch(r"— ([^\s+]+) ([A-Za-z0-9+/=]+)", signatures[0])
    need(match is not None and match[1] == origin, "note: signed under another name")
    blob = unb64(match[2] if match else "")
    for vkey in vkeys:
        name, key_id, key = _vkey(vkey)
        if (name, key_id) == (origin, blob[:4]):
            _ed25519(key, blob[4:], (body + "\n").encode())
            return Checkpoint(origin, int(size), root)
    raise Failed("key.untrusted: no trusted ledger key has signed the checkpoint")


def _vkey(text: str) -> tuple[str, bytes, Ed25519PublicKey]:
    name, digits, encoded = text.split("+", 2)
    raw = unb64(encoded)
    need(len(raw) == 33 and raw[0] == 1, "trust: a verifier key is not Ed25519")
    key_id = sha256(name.encode() + b"\n" + raw).digest()[:4]
    need(key_id.hex() == digits, "trust: a verifier key has another id")
    return name, key_id, Ed25519PublicKey.from_public_bytes(raw[1:])


def _ed25519(key: Any, signature: bytes, data: bytes) -> None:
    try:
        need(isinstance(key, Ed25519PublicKey), "algorithm: not an Ed25519 key")
        key.verify(signature, data)
    except InvalidSignature:
        raise Failed("signature.invalid: the signature does not fit") from None


def _p256(key: Any, r: int, s: int, data: bytes) -> None:
    try:
        need(isinstance(key, ec.EllipticCurvePublicKey), "algorithm: not a P-256 key")
        key.verify(utils.encode_dss_signature(r, s), data, ec.ECDSA(hashes.SHA256()))
    except (InvalidSignature, ValueError):
        raise Failed("signature.invalid: the signature does not fit") from None


# SSH signatures (and passkeys, which sign the same blob) ------------------------------------------


def _string(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


class Reader:
    """Fields of the SSH wire format, from the front."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def take(self, count: int) -> bytes:
        need(len(self.data) >= count, "encoding: cut short")
        piece, self.data = self.data[:count], self.data[count:]
        return piece

    def string(self) -> bytes:
        return self.take(int.from_bytes(self.take(4), "big"))

    def number(self) -> int:
        raw = self.string()
        value = int.from_bytes(raw, "big", signed=True)
        minimal = value > 0 and value.to_bytes(value.bit_length() // 8 + 1, "big") == raw
        need(minimal, "encoding: a number is not positive and minimal")
        return value

    def end(self) -> None:
        need(not self.data, "encoding: bytes are left over")


class SshKey(NamedTuple):
    """kind, blob, public key, and the relying party of an `sk-` key."""

    kind: str
    blob: bytes
    key: Any
    application: bytes


def ssh_key(line: str) -> SshKey:
    """A public key line of the trust file."""
    blob = unb64(line.split()[1])
    reader = Reader(blob)
    kind = reader.string().decode()
    if kind == "ssh-ed25519":
        return SshKey(kind, blob, Ed25519PublicKey.from_public_bytes(reader.string()), b"")
    if kind == "sk-ssh-ed25519@openssh.com":
        key: Any = Ed25519PublicKey.from_public_bytes(reader.string())
    else:
        need(kind == "sk-ecdsa-sha2-nistp256@openssh.com", f"algorithm: {kind}")
        need(reader.string() == b"nistp256", "algorithm: another curve")
        key = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), reader.string())
    return SshKey(kind, blob, key, reader.string())


def verify_sshsig(blob: bytes, message: bytes, trusted: SshKey, *, need_uv: bool) -> None:
    """PROTOCOL.sshsig, version 1 with sha512, by exactly the trusted key."""
    reader = Reader(blob)
    need(reader.take(6) == b"SSHSIG" and reader.take(4) == b"\0\0\0\1", "encoding: no SSHSIG")
    need(reader.string() == trusted.blob, "key.untrusted: another SSH key has signed")
    need(reader.string() == NAMESPACE.encode(), "namespace: signed for something else")
    need(reader.string() == b"" and reader.string() == b"sha512", "algorithm: another hash")
    inner = Reader(reader.string())
    reader.end()
    digest = sha512(message).digest()
    signed = b"SSHSIG" + b"".join(map(_string, (NAMESPACE.encode(), b"", b"sha512", digest)))
    kind = inner.string().decode()
    if kind == trusted.kind == "ssh-ed25519":
        signature = inner.string()
        inner.end()
        _ed25519(trusted.key, signature, signed)
        return
    raw = inner.string()
    flags, counter = inner.take(1)[0], inner.take(4)
    need(bool(flags & 1), "flags: nobody touched the key")
    need(not need_uv or bool(flags & 4), "flags: the key did not verify its holder")
    head = sha256(trusted.application).digest() + bytes([flags]) + counter
    if kind == "webauthn-sk-ecdsa-sha2-nistp256@openssh.com":
        origin, client, extensions = inner.string(), inner.string(), inner.string()
        challenge = base64.urlsafe_b64encode(signed).rstrip(b"=")
        start = b'{"type":"webauthn.get","challenge":"%s","origin":"%s"' % (challenge, origin)
        need(client.startswith(start), "challenge: the passkey signed something else")
        need(b'"crossOrigin":true' not in client and b'"topOrigin"' not in client, "cross_origin")
        signed = head + extensions + sha256(client).digest()
    else:
        need(kind == trusted.kind, f"algorithm: {kind} by a {trusted.kind}")
        signed = head + sha256(signed).digest()
    inner.end()
    if isinstance(trusted.key, Ed25519PublicKey):
        _ed25519(trusted.key, raw, signed)
        return
    pair = Reader(raw)
    r, s = pair.number(), pair.number()
    pair.end()
    _p256(trusted.key, r, s, signed)


# The display, text/v1 -----------------------------------------------------------------------------

_HIDDEN = {"Cc", "Cf", "Co", "Cn", "Cs", "Zl", "Zp"}
_BLANKS = set("\u115f\u1160\u3164\uffa0\u034f\u17b4\u17b5\u2800")


def _hides(char: str) -> bool:
    if " " <= char <= "~":
        return False
    kind = unicodedata.category(char)
    variation = 0xFE00 <= ord(char) <= 0xFE0F or 0xE0100 <= ord(char) <= 0xE01EF
    return kind in _HIDDEN or kind == "Zs" or char in _BLANKS or variation


def _visible(text: str) -> str:
    return "".join(f"\\u{{{ord(c):04X}}}" if _hides(c) else c for c in text)


def _quoted(value: str) -> str:
    text = _visible(json.dumps(value, ensure_ascii=False))
    turns = any(unicodedata.bidirectional(c) in {"R", "AL", "AN"} for c in value)
    return f"\u2068{text}\u2069" if turns else text


def _leaves(value: Any, path: str, redacted: list[str]) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and value and path not in redacted:
        for name in sorted(value):
            step = name.replace("~", "~0").replace("/", "~1")
            yield from _leaves(value[name], f"{path}/{step}", redacted)
    elif isinstance(value, list) and value:
        for place, item in enumerate(value):
            yield from _leaves(item, f"{path}/{place}", redacted)
    else:
        yield path or "(args)", value


def _shown(value: Any) -> str:
    if not isinstance(value, str):
        return _visible(json.dumps(value, ensure_ascii=False, sort_keys=True))
    if len(value) <= 1024:
        return _quoted(value)
    digest = sha256(value.encode()).hexdigest()
    folded = f" … {len(value)} characters, sha256 {digest} … "
    return _quoted(value[:512]) + folded + _quoted(value[-128:])


def _money(minor: int, currency: str, exponent: int | None) -> str:
    if exponent is None:
        return f"{minor} minor {currency} (exponent not known)"
    digits = str(abs(minor)).rjust(exponent + 1, "0")
    whole, fraction = (digits[:-exponent], digits[-exponent:]) if exponent else (digits, "")
    sign = "-" if minor < 0 else ""
    point = f".{fraction}" if fraction else ""
    return f"{minor} minor {currency} = {currency} {sign}{int(whole):,}{point}"


def render(document: dict[str, Any], args: Any) -> str:
    """`text/v1` of a request, computed again from its document and its arguments."""
    policy, amount = document["policy"], document["amount"]
    facts = [
        ("tool", document["call"]["tool"]), ("class", document["tool_class"]),
        ("environment", document["scope"]["environment"]), ("agent", document["agent"]["id"]),
    ]  # fmt: skip
    lines = [f"{name} = {_visible(json.dumps(value, ensure_ascii=False))}" for name, value in facts]
    if amount:
        money = _money(amount["minor"], amount["currency"], amount["exponent"])
        lines.append(f"amount = {_visible(money)}")
    rule = f"{policy['rule']} (policy {policy['id']} v{policy['version']})"
    lines.append(f"rule = {_visible(json.dumps(rule, ensure_ascii=False))}")
    lines += [f"reviewers = {policy['quorum']} with {policy['min_custody']}", ""]
    for path, value in _leaves(args, "", document["redacted"]):
        plain = re.fullmatch(r"[!#-<>-\[\]-~]*", path)
        lines.append(f"{path if plain else _quoted(path)} = {_shown(value)}")
    return "\n".join(lines) + "\n"


# The bundle ---------------------------------------------------------------------------------------


def pack(files: dict[str, bytes]) -> bytes:
    """The one way to write a bundle: stored, sorted, without times."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(files):
            info = zipfile.ZipInfo(name)
            info.create_system, info.external_attr = 3, 0o600 << 16
            archive.writestr(info, files[name])
    return out.getvalue()


def unpack(raw: bytes) -> dict[str, bytes]:
    """The files of a bundle; anything that `pack` would not have written is Malformed."""
    if len(raw) > MOST_BYTES:
        raise Malformed("the bundle is too large")
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            infos = archive.infolist()
            if len(infos) > MOST_FILES or any(not NAMES(info.filename) for info in infos):
                raise Malformed("it holds too many files, or names that no bundle has")
            if any(info.compress_type or info.file_size > len(raw) for info in infos):
                raise Malformed("its files are not simply stored")
            files = {info.filename: archive.read(info) for info in infos}
    except Malformed:
        raise
    except (zipfile.BadZipFile, ValueError, RuntimeError, EOFError, OSError, KeyError,
            NotImplementedError, UnicodeError, struct.error, IndexError) as error:  # fmt: skip
        raise Malformed(f"it cannot be read: {error}") from None
    if pack(files) != raw:
        raise Malformed("it is not packed as bundles are")
    return files


class Verifier:
    """The checks, in their order. `trust` is None where nothing is trusted."""

    def __init__(self, files: dict[str, bytes], trust: dict[str, Any] | None) -> None:
        self.files = files
        self.trust = trust
        self.results: list[Result] = []
        self.request: dict[str, Any] | None = None
        self.args: Any = None
        self.decisions: list[dict[str, Any]] = []
        self.log: Checkpoint | None = None
        self.entries: dict[int, dict[str, Any]] = {}

    def run(self) -> int:
        """Make every check; the exit code."""
        for name, work in (
            ("manifest", self.check_manifest), ("request", self.check_request),
            ("args.fingerprint", self.check_args), ("display.text", self.check_display),
            ("decisions.signed", self.check_decisions), ("decisions.quorum", self.check_quorum),
            ("checkpoint.signed", self.check_checkpoint), ("entries.included", self.check_entries),
            ("entries.whole", self.check_story), ("decisions.logged", self.check_logged),
            ("decisions.witnessed", self.check_witnessed), ("keys.in_force", self.check_keys),
            ("grant", self.check_grant), ("outcome", self.check_outcome),
        ):  # fmt: skip
            self._run(name, work)
        outcomes = {result.outcome for result in self.results}
        return 1 if "fail" in outcomes else 2 if "not_checked" in outcomes else 0

    def _run(self, name: str, work: Callable[[], str]) -> None:
        try:
            outcome, detail = "pass", work()
        except Failed as error:
            outcome, detail = "fail", str(error)
        except NotChecked as error:
            outcome, detail = "not_checked", str(error)
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            outcome, detail = "fail", f"malformed: {type(error).__name__} {error}"
        self.results.append(Result(len(self.results) + 1, name, outcome, detail))

    def _file(self, name: str) -> bytes:
        if name not in self.files:
            raise Failed(f"{name} is missing")
        return self.files[name]

    def _trusted(self, what: str) -> list[Any]:
        if self.trust is None:
            raise NotChecked("no --trust was given")
        found: list[Any] = self.trust[what]
        return found

    def _numbers(self, folder: str, ending: str) -> list[int]:
        pattern = re.compile(rf"{folder}/([0-9]+){re.escape(ending)}")
        return sorted(int(m[1]) for name in self.files if (m := pattern.fullmatch(name)))

    def check_manifest(self) -> str:
        manifest = read(self._file("manifest.json"))
        shape(manifest, {"type": str, "operation": str, "approval": _OPTIONAL, "files": dict})
        need(manifest["type"] == BUNDLE, "it is no bundle of this version")
        made = {
            name: sha256(raw).hexdigest()
            for name, raw in self.files.items()
            if name != "manifest.json"
        }
        need(manifest["files"] == made, "a file is not the one that the manifest lists")
        self.manifest = manifest
        return f"{len(made)} files"

    def check_request(self) -> str:
        if self.manifest["approval"] is None:
            need(not self._numbers("decisions", ".envelope.json"), "decisions about nothing")
            return "no approval was asked for"
        document = read(self._file("request.json"))
        need(document["id"] == self.manifest["approval"], "it is another approval's")
        need(document["operation"] == self.manifest["operation"], "it is another operation's")
        self.request = document
        return f"{document['id']}, {document['call']['tool']}"

    def check_args(self) -> str:
        if "args.json" not in self.files:
            raise NotChecked("the arguments are not in the bundle (erased, or not asked for)")
        raw = self._file("args.json")
        self.args = read(raw)
        wanted = self.request["args_fingerprint"] if self.request else self._recorded()
        digest = "jcs-sha256:" + sha256(raw).hexdigest()
        need(digest == wanted, "fingerprint.mismatch: other arguments")
        return digest

    def _recorded(self) -> str:
        raw = [read(self.files[f"entries/{n}.json"]) for n in self._numbers("entries", ".json")]
        found = [one["event"]["data"]["args_fingerprint"] for one in raw
                 if one["event"] and one["event"]["type"] == "operation.recorded"]  # fmt: skip
        return str(found[0])

    def check_display(self) -> str:
        if self.request is None:
            return "nobody was shown anything"
        shown = self._file("display.txt")
        if "args.json" not in self.files:
            raise NotChecked("without the arguments the display cannot be computed again")
        made = render(self.request, self.args).encode()
        need(made == shown, "display: the text is not that of these arguments")
        return sha256(shown).hexdigest()

    def check_decisions(self) -> str:
        if self.request is None:
            return "no decision was needed"
        keys = {key["key_id"]: key for key in self._trusted("reviewers")}
        for number in self._numbers("decisions", ".envelope.json"):
            self.decisions.append(self._decision(number, keys))
        return f"{len(self.decisions)} signed"

    def _decision(self, number: int, keys: dict[str, Any]) -> dict[str, Any]:
        envelope = read(self._file(f"decisions/{number}.envelope.json"))
        shape(
            envelope,
            {"payload": str, "payloadType": str, "signatures": [{"keyid": str, "sig": str}]},
        )
        need(envelope["payloadType"] == PAYLOAD_TYPE, "envelope.type: another payload type")
        need(len(envelope["signatures"]) == 1, "envelope.schema: not exactly one signature")
        payload = unb64(envelope["payload"])
        head = b"DSSEv1 %d %s %d " % (len(PAYLOAD_TYPE), PAYLOAD_TYPE.encode(), len(payload))
        message = head + payload
        need(self._file(f"decisions/{number}.message") == message, "message: another PAE")
        statement = read(payload)
        need(statement.get("predicateType") == DECISION, "statement.type: no approval decision")
        shape(statement, STATEMENT_SHAPE)
        need(statement["_type"] == STATEMENT, "statement.type: no in-toto statement")
        said = statement["predicate"]
        signature = envelope["signatures"][0]
        key = keys.get(signature["keyid"])
        if key is None:
            raise Failed("key.untrusted: the trust file does not hold this key")
        reviewer = said["reviewer"]
        same = (reviewer["key_id"], reviewer["id"]) == (key["key_id"], key["person"])
        need(same, "reviewer.mismatch: the statement names another reviewer or key")
        need(reviewer["method"] == key["method"], "method: the key signs in another way")
        need(reviewer["custody"] == CUSTODY[key["method"]], "assurance: another custody")
        self._signature(number, key, unb64(signature["sig"]), message)
        self._about(statement)
        return {
            "id": "sha256:" + sha256(message).hexdigest(), "key": key, "said": said,
            "verdict": said["decision"], "person": key["person"], "custody": reviewer["custody"],
        }  # fmt: skip

    def _signature(self, number: int, key: dict[str, Any], raw: bytes, message: bytes) -> None:
        public = load_der_public_key(unb64(key["spki"]))
        spki = public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        need(key["key_id"] == "sha256:" + sha256(spki).hexdigest(), "trust: a key has another id")
        if key["method"] == "webcrypto":
            need(len(raw) == 64, "signature.invalid: not 64 bytes")
            r, s = int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big")
            _p256(public, r, s, message)
            return
        trusted = ssh_key(key["ssh_public_key"])
        same = trusted.key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo) == spki
        need(same, "trust: the SSH form is of another key")
        verify_sshsig(raw, message, trusted, need_uv=key["method"] == "webauthn")
        text = base64.b64encode(raw).decode()
        lines = [text[at : at + 70] for at in range(0, len(text), 70)]
        armor = "\n".join(
            ["-----BEGIN SSH SIGNATURE-----", *lines, "-----END SSH SIGNATURE-----", ""]
        )
        need(self._file(f"decisions/{number}.sshsig") == armor.encode(), "sshsig: another armour")

    def _about(self, statement: dict[str, Any]) -> None:
        request, said = self.request or {}, statement["predicate"]
        digest = sha256(self._file("request.json")).hexdigest()
        need(said["request"]["sha256"] == digest, "request.mismatch: about another request")
        wanted = request["args_fingerprint"].removeprefix("jcs-sha256:")
        name = f"toolcall:{request['call']['idem_key']}"
        subject = [{"name": name, "digest": {"sha256": wanted}}]
        need(statement["subject"] == subject, "fingerprint.mismatch: about another call")
        need(said["call"] == request["call"], "request.mismatch: another call")
        need(said["policy"] == request["policy"], "policy: another policy than was asked under")
        shown = sha256(self._file("display.txt")).hexdigest()
        need(said["display"]["sha256"] == shown, "display: something else was shown")
        need(said["display"]["renderer"] == "text/v1", "display: another renderer")
        need(said["decision"] in ("approve", "deny"), "statement.schema: no such decision")

    def check_quorum(self) -> str:
        if self.request is None:
            return "the rule asked nobody"
        if self.trust is None:
            raise NotChecked("no --trust was given")
        if any(one["verdict"] == "deny" for one in self.decisions):
            need("grant.jws" not in self.files, "a denied call was granted")
            return "denied"
        if "grant.jws" not in self.files:
            return f"{len(self.decisions)} signed, nothing was granted"
        policy = self.request["policy"]
        people: dict[str, str] = {}
        for one in self.decisions:
            need(one["custody"] >= policy["min_custody"], "assurance: a key is too weak")
            people[one["person"]] = one["key"]["key_id"]
        count = len(set(people.values()))
        need(count >= policy["quorum"], f"quorum: {count} of {policy['quorum']} people")
        barred = set(self.request["never"]) | {self.request["requester"]}
        need(barred.isdisjoint(people), "separation: a reviewer may not decide about this")
        return f"{count} of {policy['quorum']}"

    def check_checkpoint(self) -> str:
        self.log = open_checkpoint(self._file("checkpoint.txt"), self._trusted("vkeys"))
        return f"{self.log.origin}, {self.log.size} entries"

    def _log(self) -> Checkpoint:
        if self.log is None:
            raise NotChecked("there is no trusted checkpoint")
        return self.log

    def _proof(self, name: str, wanted: dict[str, Any]) -> list[bytes]:
        proof = read(self._file(f"proofs/{name}.json"))
        hashes_ = [unb64(one) for one in proof.pop("proof")]
        need(proof == wanted, "proof: it is about something else")
        return hashes_

    def check_entries(self) -> str:
        log = self._log()
        for index in self._numbers("entries", ".json"):
            raw = self._file(f"entries/{index}.json")
            entry = read(raw)
            need(entry["seq"] == index + 1, "entry: it stands elsewhere")
            proof = self._proof(str(index), {"index": index, "size": log.size})
            included(sha256(b"\x00" + raw).digest(), index, log.size, proof, log.root)
            self.entries[index] = entry
        need(bool(self.entries), "no entry is in the bundle")
        need(self._numbers("proofs", ".json") == sorted(self.entries), "a proof of nothing")
        return f"{len(self.entries)} entries"

    def _events(self) -> list[dict[str, Any]]:
        self._log()
        return [entry["event"] for _, entry in sorted(self.entries.items())]

    def check_story(self) -> str:
        events = self._events()
        need(all(e["operation"] == self.manifest["operation"] for e in events), "another's entry")
        versions = [event["version"] for event in events]
        need(versions == list(range(1, len(versions) + 1)), "an event of the operation is missing")
        return f"versions 1 to {len(versions)}"

    def check_logged(self) -> str:
        events = self._events()
        for one in self.decisions:
            found = [e for e in events if e["type"] == "approval.decided"
                     and e["data"]["decision_id"] == one["id"]]  # fmt: skip
            need(len(found) == 1, "a decision is not in the log")
            need(found[0]["data"]["verdict"] == one["verdict"], "the log says another verdict")
            one["index"] = next(i for i, e in self.entries.items() if e["event"] is found[0])
        return f"{len(self.decisions)} decisions in the log"

    def check_witnessed(self) -> str:
        log, seen = self._log(), 0
        for one in self.decisions:
            witness = one["said"]["log"]
            if witness["size"] == 0:
                continue
            if witness["origin"] != log.origin:
                raise NotChecked("a reviewer saw a checkpoint of another log")
            need(witness["size"] <= log.size, "the log is shorter than a reviewer saw it")
            wanted = {"from": witness["size"], "to": log.size}
            proof = self._proof(f"seen-{witness['size']}", wanted)
            consistent(witness["size"], log.size, unb64(witness["root"]), log.root, proof)
            seen += 1
        return f"{seen} reviewers' checkpoints continue in this one"

    def check_keys(self) -> str:
        if self.trust is None:
            raise NotChecked("no --trust was given")
        for one in self.decisions:
            revoked = one["key"]["revoked"]
            if revoked is None or revoked["reason"] != "compromised" or one["verdict"] == "deny":
                continue
            if "index" not in one:
                raise NotChecked("a key was compromised and the decision has no place in the log")
            need(one["index"] < revoked["bad_from"], "a compromised key decided")
        return "no decision stands on a compromised key"

    def check_grant(self) -> str:
        if "grant.jws" not in self.files:
            return "nothing was granted"
        keys = {key["kid"]: key for key in self._trusted("grant_keys")}
        parts = self._file("grant.jws").decode("ascii").removesuffix("\n").split(".")
        need(len(parts) == 3, "encoding: no compact JWS")
        header, claims = read(unb64url(parts[0])), read(unb64url(parts[1]))
        need(header.keys() == {"alg", "kid", "typ"}, "header: other members")
        need((header["alg"], header["typ"]) == ("EdDSA", "exec-grant+jwt"), "header: no grant")
        need(header["kid"] in keys, "key.untrusted: the trust file does not hold this key")
        key = Ed25519PublicKey.from_public_bytes(unb64url(keys[header["kid"]]["x"]))
        _ed25519(key, unb64url(parts[2]), f"{parts[0]}.{parts[1]}".encode())
        if self.request is None:
            raise Failed("a grant without a request")
        wanted = {
            "sub": self.request["call"]["idem_key"], "tool": self.request["call"]["tool"],
            "args_sha256": self.request["args_fingerprint"].removeprefix("jcs-sha256:"),
            "approval": self.request["id"], "policy_sha256": self.request["policy"]["sha256"],
        }  # fmt: skip
        for name, value in wanted.items():
            need(claims[name] == value, f"grant: its {name} is another's")
        made = {one["id"] for one in self.decisions if one["verdict"] == "approve"}
        need(set(claims["decisions"]) == made and bool(made), "grant: it names other decisions")
        return f"{claims['jti']}; that it was used once only the console knows"

    def check_outcome(self) -> str:
        states = [event for event in self._events() if event["to_state"]]
        outcome = read(self._file("outcome.json"))
        last = states[-1]
        made = {"operation": self.manifest["operation"], "state": last["to_state"],
                "at": last["at"], "version": last["version"]}  # fmt: skip
        need(outcome == made, "the outcome is not what the entries say")
        return f"{last['to_state']} at {last['at']}"


def read_trust(path: Path) -> dict[str, Any]:
    """The trust file, as `manage.py export_trust` writes it and as you keep it."""
    try:
        trust = parse(path.read_bytes())
        shape(trust, {"type": str, "vkeys": [str], "reviewers": [dict], "grant_keys": [dict]})
    except (OSError, Failed) as error:
        raise Malformed(f"the trust file cannot be used: {error}") from None
    if trust["type"] != TRUST:
        raise Malformed("the trust file is of another version")
    found: dict[str, Any] = trust
    return found


def main(argv: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="countersign-verify", description=__doc__.split("\n")[0])
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--trust", type=Path, help="your list of keys; never one from the bundle")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of lines")
    options = parser.parse_args(argv)
    try:
        raw = options.bundle.read_bytes()
        files = unpack(raw)
        trust = read_trust(options.trust) if options.trust else None
    except (OSError, Malformed) as error:
        print(f"malformed: {error}", file=sys.stderr)
        return 3
    if "trust.json" in files:
        print("warning: the bundle brings its own trust.json; it is ignored", file=sys.stderr)
    verifier = Verifier(files, trust)
    code = verifier.run()
    verdict = {0: "valid", 1: "FAILED", 2: "INCOMPLETE: not everything was checked"}[code]
    if options.json:
        print(json.dumps({"verdict": verdict, "checks": [r._asdict() for r in verifier.results]}))
        return code
    for number, name, outcome, detail in verifier.results:
        print(f"{number:>2} {outcome:<11} {name:<20} {_visible(detail)}")
    print(verdict)
    return code


if __name__ == "__main__":
    sys.exit(main())
