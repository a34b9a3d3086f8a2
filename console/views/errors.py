"""Pages for what went wrong: what happened, what it means, what to do next."""

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render


def _error(request: HttpRequest, status: int, **context: object) -> HttpResponse:
    return render(request, "error.html", {"status": status, **context}, status=status)


@login_not_required
def bad_request(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """400."""
    return _error(
        request, 400, title="That request makes no sense here", says="Nothing was changed."
    )


@login_not_required
def permission_denied(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """403: the exception's words say what is needed."""
    return _error(
        request,
        403,
        title="You may not do that",
        says=str(exception or "") or "Your role does not allow it. Nothing was changed.",
    )


@login_not_required
def page_not_found(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """404."""
    return _error(
        request,
        404,
        title="There is nothing at this address",
        says="The link may be cut off, or name something of another installation.",
        path=request.path,
    )


@login_not_required
def server_error(request: HttpRequest) -> HttpResponse:
    """500: rendered without the database, which may be what is missing."""
    return render(request, "500.html", status=500)


@login_not_required
def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """The form was too old, or did not come from this site."""
    return _error(
        request,
        403,
        title="This form has expired",
        says="Nothing was changed. Go back, reload the page and send the form again. "
        "If you signed in or out in another tab, that is the cause.",
    )
