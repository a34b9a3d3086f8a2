"""One signing ceremony for every subject: a form, the bytes with one button, the answer.

GET never changes anything. `start` builds the statement and shows it; `finish` takes the answer
and redirects to the receipt, so that a reload signs nothing twice. What is signed about, an
approval or a settlement, is a `Subject`.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Final, cast

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.csp import CSP

from approvals import keys, permissions, signing
from approvals.display import Display
from approvals.encodings import b64
from approvals.errors import Refused
from approvals.models import ReviewerKey, User
from approvals.signing import Ceremony
from console.presentation.arguments import WARNINGS
from console.views.people import person
from operations.errors import DomainError

#: Nothing but the page's own file runs here, and no script may make markup.
SIGNING_CSP: Final[dict[str, list[str]]] = {
    **cast(dict[str, list[str]], settings.SECURE_CSP),
    "script-src": [CSP.SELF],
    "trusted-types": ["'none'"],
}


class Subject(ABC):
    """What is signed about. `words`: each choice's title and the beginning of its button.

    `field` is the form's name for the choice, `back` the subject's own page.
    """

    field: ClassVar[str]
    words: ClassVar[Mapping[str, tuple[str, str]]]
    template: ClassVar[str]
    handle: str
    back: str
    finish_url: str
    receipt_name: ClassVar[str]

    @property
    @abstractmethod
    def tool(self) -> str:
        """The call's tool, for the button."""

    @abstractmethod
    def min_custody(self) -> str:
        """The least custody of a key that may sign."""

    @abstractmethod
    def form(self, user: User, choice: str) -> dict[str, Any]:
        """What the form shows for this choice, beside the ceremony's own members."""

    @abstractmethod
    def start(
        self, request: HttpRequest, user: User, choice: str, key: ReviewerKey
    ) -> tuple[Ceremony, dict[str, Any]]:
        """Build the statement; what else the page shows. Raises DomainError."""

    @abstractmethod
    def finish(self, request: HttpRequest, user: User, answer: object) -> str:
        """Take the answer; the id of what was recorded. Raises DomainError."""


def form(request: HttpRequest, subject: Subject) -> HttpResponse:
    """The form by itself, for a link from outside. Nothing is stored."""
    return _form(request, subject, _choice(subject, request.GET.get(subject.field, "")))


def start(request: HttpRequest, subject: Subject) -> HttpResponse:
    """Build the statement and show it, with one button; what is missing is asked for again."""
    user = person(request)
    choice = _choice(subject, request.POST.get(subject.field, ""))
    title, button = subject.words[choice]
    try:
        key = chosen_key(user, request.POST.get("key", ""), subject.min_custody())
        ceremony, more = subject.start(request, user, choice, key)
    except DomainError as error:
        if error.code == "VALIDATION_ERROR":
            return _form(request, subject, choice, error)
        return refused(request, error, subject.back)
    context = {
        "ceremony": ceremony,
        "predicate": ceremony.statement["predicate"],
        **shown_as(ceremony.shown),
        "options": json.dumps(ceremony.options),
        "statement_text": json.dumps(ceremony.statement, indent=2, ensure_ascii=True),
        "title": title,
        "button": f"{button}: {subject.tool}",
        "finish": subject.finish_url,
        "back": subject.back,
        **more,
    }
    return render(request, "signing/sign.html", context)


def finish(request: HttpRequest, subject: Subject) -> HttpResponse:
    """Take the answer; the receipt is another page."""
    try:
        decision_id = subject.finish(request, person(request), answer_of(request))
    except DomainError as error:
        return refused(request, error, subject.back)
    return redirect(subject.receipt_name, handle=subject.handle, decision_id=decision_id)


def receipt(request: HttpRequest, context: dict[str, Any]) -> HttpResponse:
    """What was recorded, and how anybody checks it; `decision` is what was signed."""
    signed = context["decision"]
    context |= {
        "allowed_signers": keys.allowed_signers(signed.user.email, signed.key.ssh_public_key),
        "message_b64": b64(bytes(signed.message)),
    }
    return render(request, "signing/receipt.html", context)


def refused(request: HttpRequest, error: DomainError, back: str) -> HttpResponse:
    """What stood in the way, with the way back."""
    context = {"error": error, "back": back, "approval": error.extra.get("approval_id")}
    return render(request, "signing/refused.html", context, status=error.status)


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


def shown_as(shown: Display) -> dict[str, Any]:
    """The display for a page: every leaf with what its warnings mean, and the amount by itself."""
    leaves = [
        (leaf, [(code, WARNINGS.get(code, "")) for code in leaf.warnings]) for leaf in shown.leaves
    ]
    amount = dict(shown.facts).get("amount", "").partition(" = ")[2]
    return {"shown": shown, "leaves": leaves, "amount": amount}


def answer_of(request: HttpRequest) -> object:
    """The browser's answer, or a pasted SSH signature."""
    if pasted := request.POST.get("sshsig", "").strip():
        return {"sshsig": pasted.replace("\r\n", "\n") + "\n"}
    return request.POST.get("answer", "")


def _form(
    request: HttpRequest, subject: Subject, choice: str, error: DomainError | None = None
) -> HttpResponse:
    user = person(request)
    context = {
        subject.field: choice,
        "title": subject.words[choice][0],
        "keys": permissions.usable_keys(user, subject.min_custody()),
        "error": error,
        "given": request.POST,
        "back": subject.back,
        **subject.form(user, choice),
    }
    return render(request, subject.template, context, status=error.status if error else 200)


def _choice(subject: Subject, said: str) -> str:
    if said not in subject.words:
        raise Http404(said)
    return said
