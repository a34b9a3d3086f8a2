"""What every page answer carries."""

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.utils.cache import patch_vary_headers
from django.utils.deprecation import MiddlewareMixin

from operations.errors import DomainError


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


class RefusalsInWords(MiddlewareMixin):
    """A rule that says no inside a view becomes a page with the rule's own sentence."""

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        """Turn a domain error into an error page; anything else stays what it is."""
        if not isinstance(exception, DomainError):
            return None
        context = {"status": exception.status, "title": exception.title, "says": exception.detail}
        return render(request, "error.html", context, status=exception.status)
