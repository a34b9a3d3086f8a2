"""What an exception proves, library by library. Where in doubt: nothing."""

import socket
import urllib.error
from email.message import Message
from typing import Any

import httpx
import pytest
import requests
import stripe
import urllib3
from countersign import Declined, NotSent, PermitLapsed
from countersign.classify import conclude

REQUEST = httpx.Request("POST", "https://provider/charge")


def http(status: int, **headers: str) -> httpx.HTTPStatusError:
    return httpx.HTTPStatusError(
        "x", request=REQUEST, response=httpx.Response(status, headers=headers)
    )


def requests_http(status: int) -> requests.HTTPError:
    response = requests.Response()
    response.status_code = status
    return requests.HTTPError("x", response=response)


def requests_connection(reason: Exception) -> requests.ConnectionError:
    pool = urllib3.HTTPConnectionPool("provider")
    return requests.ConnectionError(urllib3.exceptions.MaxRetryError(pool, "/", reason))


def stripe_connection(cause: Exception) -> stripe.APIConnectionError:
    error = stripe.APIConnectionError("x")
    error.__cause__ = cause
    return error


def of_stripe(kind: type[stripe.StripeError], status: int, code: str | None = None) -> Any:
    more = {"param": None, "code": code} if kind in (stripe.CardError,) else {}
    if kind in (stripe.InvalidRequestError, stripe.IdempotencyError):
        more = {"param": None} if kind is stripe.InvalidRequestError else {}
    body = {"error": {"code": code}} if code else None
    return kind("x", http_status=status, json_body=body, **more)  # type: ignore[arg-type]


_POOL = urllib3.HTTPConnectionPool("provider")


@pytest.mark.parametrize(
    "error",
    [
        NotSent("x"),
        PermitLapsed("x"),
        ConnectionRefusedError(),
        socket.gaierror(),
        httpx.ConnectError("x"),
        httpx.ConnectTimeout("x"),
        httpx.PoolTimeout("x"),
        httpx.UnsupportedProtocol("x"),
        requests.exceptions.ConnectTimeout(),
        requests.exceptions.InvalidURL(),
        requests_connection(urllib3.exceptions.NewConnectionError(_POOL, "refused")),  # type: ignore[arg-type]
        urllib.error.URLError(ConnectionRefusedError()),
        stripe_connection(requests.exceptions.ConnectTimeout()),
        # Answered in front of the operation, or by somebody who can be asked to let us in.
        http(429),
        http(401),
        http(403),
        of_stripe(stripe.RateLimitError, 429),
        of_stripe(stripe.AuthenticationError, 401),
    ],
)
def test_nothing_happened_and_it_may_be_tried_again(error: BaseException) -> None:
    conclusion = conclude(error)
    assert (conclusion.outcome, conclusion.permanent) == ("failed", False)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (Declined("x"), None),
        (http(402), 402),
        (http(400), 400),
        (http(422), 422),
        (requests_http(404), 404),
        (urllib.error.HTTPError("u", 400, "m", Message(), None), 400),
        (of_stripe(stripe.CardError, 402, "card_declined"), 402),
        (of_stripe(stripe.InvalidRequestError, 400), 400),
    ],
)
def test_it_was_refused_for_good(error: BaseException, status: int | None) -> None:
    conclusion = conclude(error)
    assert (conclusion.outcome, conclusion.permanent) == ("failed", True)
    assert conclusion.http_status == status


@pytest.mark.parametrize(
    "error",
    [
        httpx.ReadTimeout("x"),
        httpx.WriteTimeout("x"),
        httpx.ReadError("x"),
        httpx.RemoteProtocolError("x"),
        requests.exceptions.ReadTimeout(),
        requests.ConnectionError("reset"),
        requests_connection(urllib3.exceptions.ProtocolError("reset")),
        stripe_connection(requests.exceptions.ReadTimeout()),
        stripe_connection(requests.ConnectionError("reset")),
        stripe.APIConnectionError("x"),
        of_stripe(stripe.APIError, 500),
        of_stripe(stripe.APIError, 409, "idempotency_key_in_use"),
        of_stripe(stripe.IdempotencyError, 400),
        of_stripe(stripe.RateLimitError, 429, "lock_timeout"),
        http(500),
        http(408),
        http(409),
        requests_http(503),
        urllib.error.URLError("x"),
        TimeoutError(),
        ConnectionResetError(),
        BrokenPipeError(),
    ],
)
def test_an_answer_got_lost(error: BaseException) -> None:
    conclusion = conclude(error)
    assert (conclusion.outcome, conclusion.lost) == ("unknown", True)


@pytest.mark.parametrize(
    "error", [ValueError("x"), KeyboardInterrupt(), OSError(28, "no space"), Exception()]
)
def test_anything_else_proves_nothing(error: BaseException) -> None:
    conclusion = conclude(error)
    assert (conclusion.outcome, conclusion.lost) == ("unknown", False)


def test_a_wrapped_exception_is_not_believed() -> None:
    wrapped = RuntimeError("sync failed")
    wrapped.__cause__ = ConnectionRefusedError()
    assert conclude(wrapped).outcome == "unknown"


@pytest.mark.parametrize("name", ["Idempotent-Replayed", "idempotent-replayed"])
def test_it_says_where_a_provider_replayed_its_answer(name: str) -> None:
    assert conclude(http(402, **{name: "true"})).replayed
    assert not conclude(http(402)).replayed
    declined = of_stripe(stripe.CardError, 402)
    declined.headers = {name: "true"}
    assert conclude(declined).replayed
