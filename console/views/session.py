"""Signing in and out."""

from datetime import timedelta
from typing import Any

from django.contrib.auth import authenticate, login, logout
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from console import throttle
from console.presentation import times
from console.queries import first_steps

MISMATCH = "That e-mail address and password do not belong together."


@login_not_required
@sensitive_post_parameters("password")
@require_http_methods(["GET", "HEAD", "POST"])
def sign_in(request: HttpRequest) -> HttpResponse:
    """The form, and what became of it."""
    after = safe_next(request)
    if request.user.is_authenticated:
        return HttpResponseRedirect(after)
    if request.method != "POST":
        return _form(request, after)
    email = request.POST.get("email", "").strip()
    password = request.POST.get("password", "")
    if not email or not password:
        return _form(request, after, email, missing=[not email, not password])
    counted = throttle.counters(email, request.META.get("REMOTE_ADDR", ""))
    if wait := throttle.seconds_to_wait(counted):
        span = times.span(timedelta(seconds=wait))
        problem = f"Too many wrong passwords. Try again in {span}, or ask an admin to reset it."
        return _form(request, after, email, problem=problem, status=429)
    user = authenticate(request, username=email.lower(), password=password)
    if user is None:
        throttle.note_miss(counted)
        return _form(request, after, email, problem=MISMATCH, status=422)
    throttle.forget(counted[0])
    previous = user.last_login
    login(request, user)
    if previous is not None:
        request.session["previous_visit"] = previous.isoformat()
    if after == reverse("overview") and first_steps.is_new(user):
        return redirect("welcome")
    return HttpResponseRedirect(after)


@require_POST
def sign_out(request: HttpRequest) -> HttpResponse:
    """End the session; links never do."""
    logout(request)
    return redirect("login")


def safe_next(request: HttpRequest) -> str:
    """Where to go afterwards: an address of this site, or the overview."""
    wanted = request.POST.get("next") or request.GET.get("next") or ""
    allowed = url_has_allowed_host_and_scheme(
        wanted, allowed_hosts={request.get_host()}, require_https=request.is_secure()
    )
    return wanted if allowed else reverse("overview")


def _form(
    request: HttpRequest,
    after: str,
    email: str = "",
    *,
    problem: str = "",
    missing: list[bool] | None = None,
    status: int = 200,
) -> HttpResponse:
    context: dict[str, Any] = {"next": after, "email": email, "problem": problem}
    if missing:
        context["email_problem"] = "Enter your e-mail address." if missing[0] else ""
        context["password_problem"] = "Enter your password." if missing[1] else ""
        status = 422
    return render(request, "login.html", context, status=status)
