"""Countersign for agents: each effect once, whatever dies in between. See README.md."""

from countersign.async_client import AsyncClient
from countersign.calls import ClearedCall, Done, Result, RunInfo
from countersign.canonical import NotCanonical, canonicalize, derive_key, fingerprint, parse
from countersign.client import Client
from countersign.errors import (
    ApprovalDenied,
    ApprovalExpired,
    ApprovalPending,
    ApprovalWithdrawn,
    ArgsConflict,
    AttemptInFlight,
    ConsoleUnavailable,
    CountersignError,
    Declined,
    DuplicateRun,
    GrantRefused,
    InvalidCall,
    KeyCollision,
    LimitReached,
    NotAuthorised,
    NotSent,
    OperationFailed,
    OutcomeUnknown,
    PermitLapsed,
    Waiting,
)
from countersign.grants import verify_grant
from countersign.http import VERSION
from countersign.resuming import Resumed
from countersign.runs import AsyncRun, Run

__version__ = VERSION

__all__ = [
    "ApprovalDenied",
    "ApprovalExpired",
    "ApprovalPending",
    "ApprovalWithdrawn",
    "ArgsConflict",
    "AsyncClient",
    "AsyncRun",
    "AttemptInFlight",
    "ClearedCall",
    "Client",
    "ConsoleUnavailable",
    "CountersignError",
    "Declined",
    "Done",
    "DuplicateRun",
    "GrantRefused",
    "InvalidCall",
    "KeyCollision",
    "LimitReached",
    "NotAuthorised",
    "NotCanonical",
    "NotSent",
    "OperationFailed",
    "OutcomeUnknown",
    "PermitLapsed",
    "Result",
    "Resumed",
    "Run",
    "RunInfo",
    "Waiting",
    "__version__",
    "canonicalize",
    "derive_key",
    "fingerprint",
    "parse",
    "verify_grant",
]
