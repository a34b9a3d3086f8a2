"""Words for the ledger's endpoints."""

from typing import Final

from console.api.described.schemas import TEXT, WHOLE, maybe, ref, thing
from console.api.described.words import V1, Described, Query, Words

_B64: Final = {"type": "string", "description": "Base64."}
_HASHES: Final = {"type": "array", "items": _B64}
_NUMBER: Final = {"type": "integer", "minimum": 0}

LEDGER_SCHEMAS: Final = {
    "LedgerEntry": thing(
        {
            "index": WHOLE,
            "leaf_hash": _B64,
            "entry": maybe(
                "string",
                description="The exact text that was hashed; null where it is another namespace's.",
            ),
        }
    ),
    "LedgerEntries": thing(
        {
            "items": {"type": "array", "items": ref("LedgerEntry")},
            "next_cursor": maybe("string", description="The next `from`."),
        }
    ),
    "InclusionProof": thing(
        {
            "origin": TEXT, "index": WHOLE, "size": WHOLE, "leaf_hash": _B64, "root": _B64,
            "proof": _HASHES,
        }
    ),
    "ConsistencyProof": thing(
        {
            "origin": TEXT, "from": WHOLE, "to": WHOLE, "from_root": _B64, "to_root": _B64,
            "proof": _HASHES,
        }
    ),
    "LedgerKeys": thing({"origin": TEXT, "vkeys": {"type": "array", "items": TEXT}}),
}  # fmt: skip
_RANGE: Final[Query] = {
    "from": (_NUMBER, "The first index, from 0."),
    "to": (_NUMBER, "The index after the last; at most 1,000 entries are answered."),
}

LEDGER: Final[Described] = {
    ("GET", f"{V1}/ledger/checkpoint"): Words(
        summary="The newest signed checkpoint",
        group="Ledger",
        says="A C2SP signed note: origin, number of entries, root, an Ed25519 signature.",
        media="text/plain",
        answers={200: ("The note.", {"type": "string"}, None)},
        problems=("NOT_FOUND",),
    ),
    ("GET", f"{V1}/ledger/entries"): Words(
        summary="Entries of the ledger",
        group="Ledger",
        says="As far as they are published. `leaf_hash` is SHA-256 of a zero byte and the entry.",
        query=_RANGE,
        answers={200: ("Entries in their order.", ref("LedgerEntries"), None)},
        problems=("NOT_FOUND", "VALIDATION_ERROR", "UNAVAILABLE"),
    ),
    ("GET", f"{V1}/ledger/proof/inclusion"): Words(
        summary="Proof that an entry is in the log",
        group="Ledger",
        query={
            "index": (_NUMBER, "Which entry, from 0."),
            "size": (_NUMBER, "In the log at this size; the newest published one by default."),
        },
        answers={200: ("RFC 6962 hashes, from the leaf up.", ref("InclusionProof"), None)},
        problems=("NOT_FOUND", "VALIDATION_ERROR", "UNAVAILABLE"),
    ),
    ("GET", f"{V1}/ledger/proof/consistency"): Words(
        summary="Proof that the log only grew",
        group="Ledger",
        query={
            "from": (_NUMBER, "The earlier size, from 1."),
            "to": (_NUMBER, "The later size; the newest published one by default."),
        },
        answers={200: ("RFC 6962 hashes.", ref("ConsistencyProof"), None)},
        problems=("NOT_FOUND", "VALIDATION_ERROR", "UNAVAILABLE"),
    ),
    ("GET", "/.well-known/ledger-keys.json"): Words(
        summary="The keys that verify checkpoints",
        group="Ledger",
        says="Compare them with a copy that you trust: a bundle is judged by your own list.",
        answers={200: ("Origin and C2SP verifier keys.", ref("LedgerKeys"), None)},
        problems=("NOT_FOUND",),
    ),
}
