"""What both kinds of signing page share: session, key, the page with one button, the answer."""

import json
from typing import Any, Final, cast

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.csp import CSP

from approvals import keys, permissions, signing
from approvals.display import Display
from approvals.encodings import b64
from approvals.errors import Refused
from approvals.models import ReviewerKey, User
from approvals.signing import Ceremony
from console.presentation.arguments import WARNINGS
from operations.errors import DomainError

#: Nothing but the page's own file runs here, and no script may make markup.
SIGNING_CSP: Final[dict[str, list[str]]] = {
    **cast(dict[str, list[str]], settings.SECURE_CSP),
    "script-src": [CSP.SELF],
    "trusted-types": ["'none'"],
}


def session_of(request: HttpRequest) -> str:
    """The session as pending statements know it."""
    if request.session.session_key is None:
        request.session.create()
    return signing.session_digest(str(request.session.session_key))


def chosen_key(user: User, key_id: str, min_custody: str) -> ReviewerKey:
    """The key that the form names, or the one this person used last; raises Refused for none."""
    if key_id:
        key = ReviewerKey.objects.filter(user=user, key_id=key_id).first()
        if key is None:
            raise Refused("FORBIDDEN", "That is not a key of yours.")
        return key
    usable = permissions.usable_keys(user, min_custody)
    if not usable:
        waiting = ReviewerKey.objects.filter(user=user, revoked_at=None).first()
        if waiting is not None:
            permissions.check_key(user, waiting, min_custody)
        raise Refused("FORBIDDEN", "You have no signing key yet. Enrol one on your keys page.")
    return usable[0]


def refused(request: HttpRequest, error: DomainError, back: str) -> HttpResponse:
    """What stood in the way, with the way back."""
    context = {"error": error, "back": back, "approval": error.extra.get("approval_id")}
    return render(request, "signing/refused.html", context, status=error.status)


def shown_as(shown: Display) -> dict[str, Any]:
    """The display for a page: every leaf with what its warnings mean, and the amount by itself."""
    leaves = [
        (leaf, [(code, WARNINGS.get(code, "")) for code in leaf.warnings]) for leaf in shown.leaves
    ]
    amount = dict(shown.facts).get("amount", "").partition(" = ")[2]
    return {"shown": shown, "leaves": leaves, "amount": amount}


def sign_page(request: HttpRequest, ceremony: Ceremony, **about: Any) -> HttpResponse:
    """The exact bytes, shown; `about` has title, button, verdict, finish and back."""
    context = {
        "ceremony": ceremony,
        "predicate": ceremony.statement["predicate"],
        **shown_as(ceremony.shown),
        "options": json.dumps(ceremony.options),
        "statement_text": json.dumps(ceremony.statement, indent=2, ensure_ascii=True),
        **about,
    }
    return render(request, "signing/sign.html", context)


def receipt(request: HttpRequest, context: dict[str, Any]) -> HttpResponse:
    """What was recorded, and how anybody checks it; `decision` is what was signed."""
    signed = context["decision"]
    context |= {
        "allowed_signers": keys.allowed_signers(signed.user.email, signed.key.ssh_public_key),
        "message_b64": b64(bytes(signed.message)),
    }
    return render(request, "signing/receipt.html", context)


def answer_of(request: HttpRequest) -> object:
    """The browser's answer, or a pasted SSH signature."""
    if pasted := request.POST.get("sshsig", "").strip():
        return {"sshsig": pasted.replace("\r\n", "\n") + "\n"}
    return request.POST.get("answer", "")
