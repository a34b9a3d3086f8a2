"""What each failure of a frontend means, in words a person can act on. Pure.

Never the transport's own text: it may hold more than a page should show.
"""

import re
from typing import Final

from temporalio.api.errordetails.v1 import NamespaceNotFoundFailure
from temporalio.service import RPCError, RPCStatusCode

from reconcilers.providers.base import ProviderError

_TOLD_CODE: Final = re.compile(r"after connection: Status \{ code: (\w+),")
_CAPITAL: Final = re.compile(r"(?<!^)([A-Z])")


def of_answer(problem: RPCError, endpoint: str, namespace: str) -> ProviderError | None:
    """The error, or None where the answer says that the workflow is not there."""
    code = problem.status
    if code is RPCStatusCode.NOT_FOUND:
        if endpoint != "namespace" and not _is_about_namespace(problem):
            return None
        return ProviderError(
            f"this frontend has no namespace called {namespace}", permanent=True, status=404
        )
    return _of_code(code, namespace)


def _of_code(code: RPCStatusCode, namespace: str) -> ProviderError:
    if code is RPCStatusCode.UNAUTHENTICATED:
        return ProviderError(
            "the frontend does not accept the credentials", permanent=True, status=401
        )
    if code is RPCStatusCode.PERMISSION_DENIED:
        return ProviderError(
            f"the credentials may not read the namespace {namespace}: give them its read role",
            permanent=True,
            status=403,
        )
    if code is RPCStatusCode.RESOURCE_EXHAUSTED:
        return ProviderError(
            "the namespace's limit of requests is used up", status=429, retry_after_seconds=2.0
        )
    if code in {RPCStatusCode.INVALID_ARGUMENT, RPCStatusCode.UNIMPLEMENTED}:
        return ProviderError(
            f"the frontend refused the question ({code.name})", permanent=True, status=400
        )
    if code is RPCStatusCode.DEADLINE_EXCEEDED:
        return ProviderError("no answer in time")
    if code in {RPCStatusCode.CANCELLED, RPCStatusCode.UNKNOWN}:
        # Nobody cancels here but the transport: a frontend that refuses our certificate hangs up.
        return ProviderError(f"the connection to the frontend broke, or it failed ({code.name})")
    return ProviderError(f"the frontend failed ({code.name})", status=503)


def of_connection(words: str, namespace: str) -> ProviderError:
    """The client asks one question as it connects; what refuses that refuses all.

    It tells the code in its words alone, and those are not passed on.
    """
    told = _TOLD_CODE.search(words)
    if told is not None:
        name = _CAPITAL.sub(r"_\1", told[1]).upper()
        if name in RPCStatusCode.__members__:
            return _of_code(RPCStatusCode[name], namespace)
    return ProviderError("the connection to the frontend failed")


def _is_about_namespace(problem: RPCError) -> bool:
    details = problem.grpc_status.details
    return any(each.Is(NamespaceNotFoundFailure.DESCRIPTOR) for each in details)
