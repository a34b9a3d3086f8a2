"""Signing keys: one's own, new ones, and those of others that wait for a countersignature."""

import json

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.csp import csp_override
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_POST, require_safe

from approvals import announcements, enrolment, freshness, keys, permissions, revocation
from approvals.errors import Refused
from approvals.models import ReviewerKey
from console import throttle
from console.views.ceremony import SIGNING_CSP, answer_of, refused, session_of
from console.views.people import person
from console.views.rendering import page

BACK = "/me/keys/"
METHODS = (
    ("webauthn", "Passkey", "Fingerprint, face, PIN or a security key. Good for every rule (A2)."),
    (
        "webcrypto",
        "Key of this browser",
        "Only where a rule says A1; lost with the browser's data.",
    ),
    ("ssh", "SSH key", "For the command line. A hardware (sk-) key is A2, a plain one A1."),
)


@require_safe
def own_keys(request: HttpRequest) -> HttpResponse:
    """`/me/keys/`: what this person signs with, and whose keys wait for their word."""
    user = person(request)
    mine = ReviewerKey.objects.filter(user=user).select_related("countersigned_by")
    context = {
        "mine": [(key, _standing(key)) for key in mine.order_by("revoked_at", "-created_at")],
        "waiting": enrolment.waiting_for_countersignature(user),
        "cannot_enrol": _why_not(user, "enrol"),
        "fresh": freshness.is_fresh(request.session),
        "reasons": revocation.REASONS,
        "allowed_signers": [
            keys.allowed_signers(user.email, key.ssh_public_key)
            for key in mine
            if key.revoked_at is None and key.method != "webcrypto"
        ],
    }
    return page(request, "keys/keys.html", context)


def _standing(key: ReviewerKey) -> str:
    if key.revoked_at is not None:
        return f"revoked ({key.revoked_reason})"
    if key.bootstrap:
        return "in use (bootstrap)"
    if key.countersigned_by is None:
        return "waits for a countersignature"
    return f"in use, countersigned by {key.countersigned_by}"


def _why_not(user: object, ability: str) -> str:
    try:
        permissions.check_may(user, ability)  # type: ignore[arg-type]
    except Refused as error:
        return error.detail
    return ""


@require_safe
@csp_override(SIGNING_CSP)
def enrol_form(request: HttpRequest) -> HttpResponse:
    """`/me/keys/enrol/`: which kind, what name; the password first where it is not fresh."""
    return _enrol_form(request)


def _enrol_form(request: HttpRequest, error: Refused | None = None) -> HttpResponse:
    context = {
        "methods": METHODS,
        "fresh": freshness.is_fresh(request.session),
        "cannot_enrol": _why_not(person(request), "enrol"),
        "error": error,
        "given": request.POST,
        "back": BACK,
    }
    return render(request, "keys/enrol.html", context, status=error.status if error else 200)


@require_POST
@sensitive_post_parameters("password")
def confirm(request: HttpRequest) -> HttpResponse:
    """The password once more: a key is only enrolled within ten minutes of it."""
    user = person(request)
    counted = throttle.counters(user.email, request.META.get("REMOTE_ADDR", ""))
    if throttle.seconds_to_wait(counted):
        messages.error(request, "Too many wrong passwords. Wait a little and try again.")
    elif user.check_password(request.POST.get("password", "")):
        throttle.forget(counted[0])
        freshness.note(request.session)
    else:
        throttle.note_miss(counted)
        messages.error(request, "That is not your password.")
    return redirect("keys" if request.POST.get("next") == "keys" else "keys-enrol")


@require_POST
@csp_override(SIGNING_CSP)
def enrol_start(request: HttpRequest) -> HttpResponse:
    """A challenge for the new key, and the page that answers it."""
    try:
        freshness.check_is_fresh(request.session)
        begun = enrolment.start(
            person(request),
            session_of(request),
            request.POST.get("method", ""),
            request.POST.get("name", ""),
        )
    except Refused as error:
        return _enrol_form(request, error)
    context = {"begun": begun, "options": json.dumps(begun["options"]), "back": BACK}
    return render(request, "keys/enrol_key.html", context)


@require_POST
@csp_override(SIGNING_CSP)
def enrol_finish(request: HttpRequest) -> HttpResponse:
    """The new key's proof."""
    answer = answer_of(request)
    if request.POST.get("ssh_key"):
        answer = {"ssh_key": request.POST["ssh_key"], "sshsig": request.POST.get("sshsig", "")}
    try:
        freshness.check_is_fresh(request.session)
        key = enrolment.finish(
            person(request), session_of(request), request.POST.get("enrolment", ""), answer
        )
    except Refused as error:
        return refused(request, error, BACK)
    messages.success(request, f"{key.name} is enrolled: {_standing(key)}.")
    return redirect("keys")


@require_POST
def countersign(request: HttpRequest) -> HttpResponse:
    """Vouch for somebody else's key."""
    try:
        freshness.check_is_fresh(request.session)
        key = enrolment.countersign(person(request), request.POST.get("key_id", ""))
    except Refused as error:
        return refused(request, error, BACK)
    messages.success(request, f"You countersigned {key.name} of {key.user}.")
    return redirect("keys")


@require_POST
def recognise(request: HttpRequest) -> HttpResponse:
    """ "This key is mine": the notice goes away."""
    try:
        key = announcements.recognise(person(request), request.POST.get("key_id", ""))
    except Refused:
        raise Http404 from None
    messages.success(request, f"Noted: {key.name} is yours.")
    return redirect("keys")


@require_POST
def revoke(request: HttpRequest) -> HttpResponse:
    """Take a key back: one's own, or anybody's as an admin."""
    user = person(request)
    key = ReviewerKey.objects.filter(key_id=request.POST.get("key_id", "")).first()
    if key is None or not (key.user_id == user.id or permissions.may(user, "manage_people")):
        raise Http404
    try:
        count = revocation.revoke(
            key,
            request.POST.get("reason", ""),
            actor=f"user:{user.id}",
            bad_from=_first_bad(request.POST.get("bad_from", "")),
        )
    except Refused as error:
        return refused(request, error, BACK)
    more = f" {count} approvals that stood on it were revoked." if count else ""
    messages.success(request, f"{key.name} is revoked.{more}")
    return redirect("keys")


def _first_bad(sealed: str) -> int:
    """The log's index of a sealed number; nothing said means from the beginning."""
    number = sealed.strip().removeprefix("#")
    if number and not (number.isascii() and number.isdigit() and 0 < len(number) < 17):
        raise Refused("VALIDATION_ERROR", "Name an entry of the audit by its number.")
    return max(0, int(number or 0) - 1)
