"""Every refusal of approvals: a code, its status, a sentence. Same shape as the ground floor's."""

from typing import Any, Final

from approvals.refusals import SignatureRefused
from operations.errors import DomainError

#: code -> (status, title)
KINDS: Final[dict[str, tuple[int, str]]] = {
    "NOT_FOUND": (404, "Not found"),
    "FORBIDDEN": (403, "This person may not do this"),
    "SEPARATION_OF_DUTIES": (403, "Maker is not checker"),
    "LOGIN_NOT_FRESH": (403, "Log in again first"),
    "ALREADY_DECIDED": (409, "Already decided"),
    "APPROVAL_CLOSED": (409, "The approval is not open any more"),
    "POLICY_CHANGED": (409, "The policy has changed"),
    "ARGS_CHANGED": (409, "The arguments are not the ones that were asked about"),
    "ARGS_ERASED": (409, "The arguments have been erased"),
    "STATEMENT_STALE": (409, "The statement cannot be signed any more"),
    "NOT_APPROVED": (409, "The approval does not permit this"),
    "NOT_UNKNOWN": (409, "The operation is not UNKNOWN any more"),
    "NOT_RELEASABLE": (409, "The operation may not be released"),
    "NOT_READY": (409, "Not available yet"),
    "ALREADY_CONSUMED": (409, "The grant was consumed by another claim"),
    "GRANT_EXPIRED": (410, "The grant is over"),
    "GRANT_REVOKED": (410, "The grant was revoked"),
    "FINGERPRINT_MISMATCH": (412, "The arguments are not the approved ones"),
    "SIGNATURE_REFUSED": (422, "The signature was not accepted"),
    "CUSTODY_TOO_LOW": (422, "The key is not strong enough for this rule"),
    "VALIDATION_ERROR": (422, "A field is not valid"),
    "INVALID_POLICY": (422, "The policy is not valid"),
    "UNAVAILABLE": (503, "Not available until the ledger is put right"),
}


class Refused(DomainError):
    """A rule said no. `detail` is the sentence that the button and the answer both show."""

    def __init__(self, code: str, detail: str, **extra: Any) -> None:
        status, title = KINDS[code]
        Exception.__init__(self, f"{code}: {detail}")
        self.code = code
        self.status = status
        self.title = title
        self.detail = detail
        self.retryable = False
        self.retry_after_seconds = None
        self.extra = {name: value for name, value in extra.items() if value is not None}


def of_signature(refusal: SignatureRefused) -> Refused:
    """The failed check as an answer; `check` is its stable code. Broken encodings are 400."""
    refused = Refused("SIGNATURE_REFUSED", f"{refusal.check}: {refusal}.", check=refusal.check)
    if refusal.check == "encoding":
        refused.status = 400
    return refused


def not_found() -> Refused:
    """It does not exist, or is not this caller's: the same answer."""
    return Refused("NOT_FOUND", "There is no such approval.")
