"""What every page answer carries."""

from collections.abc import Callable
from typing import Any

from django.contrib.auth.middleware import LoginRequiredMiddleware
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.utils.cache import patch_vary_headers
from django.utils.deprecation import MiddlewareMixin

from console.search.operations import TooBroad
from operations.errors import DomainError

_TOO_LONG = "Reading this was stopped after two seconds. Narrow it by a search, or try again."


class PrivatePages(MiddlewareMixin):
    """Pages are one person's and of this moment: no shared cache keeps them, and a kept one asks.

    The same address answers a page or a part of it, so caches must tell the two apart.
    """

    def process_response(
        self, request: HttpRequest, response: HttpResponseBase
    ) -> HttpResponseBase:
        """Add the headers unless the view chose its own."""
        if not response.has_header("Cache-Control"):
            response["Cache-Control"] = "private, no-cache"
        patch_vary_headers(response, ["HX-Request", "HX-Target"])
        return response


class SignedInOnly(LoginRequiredMiddleware):
    """Pages are for people who have signed in.

    A part of a page that is asked for after the session has ended is refused instead of led to the
    login, which would otherwise be put in the part's place.
    """

    def process_view(
        self,
        request: HttpRequest,
        view_func: Callable[..., Any],
        view_args: Any,
        view_kwargs: Any,
    ) -> HttpResponseBase | None:
        """401 for parts, the login for pages."""
        answer = super().process_view(request, view_func, view_args, view_kwargs)
        if answer is not None and request.headers.get("HX-Request") == "true":
            return HttpResponse("Sign in again.", status=401, content_type="text/plain")
        return answer


class RefusalsInWords(MiddlewareMixin):
    """A rule that says no inside a view becomes a page with the rule's own sentence."""

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        """Turn a domain error into an error page; anything else stays what it is."""
        if isinstance(exception, TooBroad):
            context = {"status": 503, "title": "That takes too long", "says": _TOO_LONG}
            return render(request, "error.html", context, status=503)
        if not isinstance(exception, DomainError):
            return None
        context = {"status": exception.status, "title": exception.title, "says": exception.detail}
        return render(request, "error.html", context, status=exception.status)
