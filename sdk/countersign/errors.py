"""What may be raised. Each message says what happened, what was kept, and what to do next."""

from typing import Any


class CountersignError(Exception):
    """Anything that the console or this SDK refuses. `problem` is the console's own answer."""

    def __init__(self, message: str, *, problem: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.problem = problem or {}
        self.code: str | None = self.problem.get("code")
        self.retryable = bool(self.problem.get("retryable", False))
        self.retry_after_seconds: float | None = self.problem.get("retry_after_seconds")
        self.idem_key: str | None = self.problem.get("idem_key")
        self.operation_url: str | None = self.problem.get("operation_url")


class ConsoleUnavailable(CountersignError):
    """The console could not be reached, or not answer. The call was not executed."""

    def __init__(self, message: str, *, problem: dict[str, Any] | None = None) -> None:
        super().__init__(message, problem=problem)
        self.retryable = True


class NotAuthorised(CountersignError):
    """The API key is unknown, expired, or lacks the scope."""


class InvalidCall(CountersignError):
    """The console cannot take this call as it is; `pointer` says which part."""

    def __init__(self, message: str, *, problem: dict[str, Any] | None = None) -> None:
        super().__init__(message, problem=problem)
        self.pointer: str | None = self.problem.get("pointer")


class ArgsConflict(CountersignError):
    """This run, step and call already stand for other arguments (or another tool)."""


class KeyCollision(CountersignError):
    """One idempotency key for two calls, or two keys for one call."""


class DuplicateRun(CountersignError):
    """The trigger was delivered before: `run_id` is the run that it started then."""

    def __init__(self, message: str, *, problem: dict[str, Any] | None = None) -> None:
        super().__init__(message, problem=problem)
        self.run_id: str | None = self.problem.get("run_id")


class LimitReached(CountersignError):
    """A budget or a cap on attempts is used up (`code` says which)."""


class OperationFailed(CountersignError):
    """The call is over and had no effect; `failure` says why. A new wish needs a new call."""

    def __init__(self, message: str, *, problem: dict[str, Any] | None = None) -> None:
        super().__init__(message, problem=problem)
        self.failure: str | None = self.problem.get("failure")
        self.superseded_by: str | None = self.problem.get("superseded_by")


class ApprovalDenied(OperationFailed):
    """A person said no."""


class ApprovalExpired(OperationFailed):
    """Nobody decided in time. That is not a no."""


class ApprovalWithdrawn(OperationFailed):
    """The request was withdrawn before anybody decided."""


class Waiting(CountersignError):
    """Not over yet. The same call, made again later by any process, goes on from here."""


class ApprovalPending(Waiting):
    """Waits for a person. Stop if you like; the request stays open until `expires_at`."""

    def __init__(
        self, message: str, *, approval_id: str | None, url: str | None, expires_at: str | None
    ) -> None:
        super().__init__(message)
        self.approval_id = approval_id
        self.url = url
        self.expires_at = expires_at


class AttemptInFlight(Waiting):
    """Another process is executing this call right now."""


class OutcomeUnknown(Waiting):
    """It may or may not have happened, and nothing has settled it yet. Never repeat it by hand."""

    def __init__(
        self, message: str, *, verdict: dict[str, Any] | None, next_check_at: str | None
    ) -> None:
        super().__init__(message)
        self.verdict = verdict or {}
        self.next_check_at = next_check_at


class EffectError(Exception):
    """Raised by an effect to say what happened, where no library's exception says it."""

    def __init__(self, message: str = "", *, http_status: int | None = None) -> None:
        super().__init__(message or type(self).__name__)
        self.http_status = http_status


class NotSent(EffectError):
    """Nothing left this process: the call may be tried again."""


class PermitLapsed(NotSent):
    """The permit to send ran out before anything was sent."""


class GrantRefused(NotSent):
    """The proof of approval does not fit this call (`check` says where); nothing was sent."""

    def __init__(self, check: str, reason: str) -> None:
        super().__init__(f"The grant was refused ({check}): {reason}. Nothing was sent.")
        self.check = check


class Declined(EffectError):
    """The provider refused for good, and says that nothing happened."""

    def __init__(
        self, message: str = "", *, http_status: int | None = None, replayed: bool = False
    ) -> None:
        super().__init__(message, http_status=http_status)
        self.replayed = replayed
