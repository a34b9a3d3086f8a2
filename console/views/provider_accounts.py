"""Provider accounts: made, changed, and their look-ups tried by hand."""

from collections.abc import Mapping
from typing import Any, Final

from django.contrib import messages
from django.db import connection, transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from approvals import audit, permissions
from console import throttle
from console.presentation import account_forms, tried_words
from console.queries import people
from console.queries import provider_accounts as queries
from console.queries.provider_accounts import AccountPage
from console.views.people import person
from console.views.rendering import page
from operations import ids
from operations.actors import Scope
from operations.models.scoped import ENVIRONMENTS
from reconcilers import accounts, changing, keyring, registry, services, trying
from reconcilers.models import ProviderAccount
from reconcilers.providers.base import BadConfig, Provider

#: Tests by one person within the throttle's window of a quarter of an hour.
MOST_TESTS: Final = 30
WINDOWS: Final = ((1, "the last hour"), (24, "the last day"), (168, "the last week"))


@require_safe
def kinds(request: HttpRequest) -> HttpResponse:
    """`/reconcilers/accounts/new/`: which provider."""
    context = {
        "kinds": list(registry.providers().values()),
        "cannot": people.why_not(person(request), "manage_accounts"),
    }
    return page(request, "account_kinds.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@sensitive_post_parameters()
def new(request: HttpRequest, kind: str) -> HttpResponse:
    """`/reconcilers/accounts/new/stripe/`: the provider's own form."""
    provider = _provider(kind)
    if request.method != "POST":
        return _form(request, provider)
    user = person(request)
    permissions.check_may(user, "manage_accounts")
    given = request.POST
    try:
        document = account_forms.document_of(provider.fields, given.dict())
        with transaction.atomic():
            made = accounts.create_account(
                kind,
                environment=_environment(given.get("environment", "")),
                namespace=_word("namespace", given.get("namespace", "")),
                name=_word("name", given.get("name", "")),
                document=document,
            )
            _note(request, made, "created", {"fields": sorted(document)})
    except (BadConfig, accounts.AccountTaken) as error:
        return _form(request, provider, problem=str(error))
    messages.success(request, f"{made.name} is kept. Nobody was asked yet: test a look-up below.")
    return redirect("reconcilers-account", ids.handle("acc", made.pk))


@require_safe
def account(request: HttpRequest, handle: str) -> HttpResponse:
    """`/reconcilers/accounts/acc_…/`."""
    return _account(request, _found(handle))


def _account(
    request: HttpRequest, shown: AccountPage, *, status: int = 200, **more: Any
) -> HttpResponse:
    user = person(request)
    context = {
        "account": shown,
        "windows": WINDOWS,
        "given": {},
        "cannot_manage": people.why_not(user, "manage_accounts"),
        "cannot_test": people.why_not(user, "handle"),
        **more,
    }
    return page(request, "account.html", context, status=status)


@require_http_methods(["GET", "HEAD", "POST"])
@sensitive_post_parameters()
def edit(request: HttpRequest, handle: str) -> HttpResponse:
    """`/reconcilers/accounts/acc_…/edit/`: secrets are only replaced, never shown."""
    shown = _found(handle)
    provider = _provider(shown.row.kind)
    if request.method != "POST":
        return _form(request, provider, shown)
    permissions.check_may(person(request), "manage_accounts")
    try:
        changes = account_forms.changes_of(provider.fields, request.POST.dict())
        row, now = shown.row, {"account": shown.row.external_id, **shown.row.config}
        names = [name for name, value in changes.items() if value != now.get(name)]
        with transaction.atomic():
            changing.change_account(
                environment=row.environment, namespace=row.namespace, name=row.name, changes=changes
            )
            services.wake_account(row.pk)
            _note(request, row, "changed", {"fields": sorted(names)})
    except (BadConfig, keyring.Unreadable) as error:
        return _form(request, provider, shown, problem=str(error))
    messages.success(request, f"{shown.row.name} is changed. What waits for it is asked again.")
    return redirect("reconcilers-account", handle)


@require_POST
def test(request: HttpRequest, handle: str) -> HttpResponse:
    """Make one look-up now. The answer is shown, and kept nowhere."""
    shown = _found(handle)
    user = person(request)
    permissions.check_may(user, "handle")
    given = {name: request.POST.get(name, "").strip()[:500] for name in ("lookup", "key", "id")}
    given |= {"kind": request.POST.get("kind", "").strip()[:100]}
    hours = next((n for n, _ in WINDOWS if str(n) == request.POST.get("hours")), 24)
    counted = (throttle.Counter(f"try-lookup:{user.pk}", MOST_TESTS),)
    if wait := throttle.seconds_to_wait(counted):
        problem = f"That is {MOST_TESTS} tests in a quarter of an hour. Try again in {wait} s."
        return _account(request, shown, status=429, test_problem=problem, given=given)
    throttle.note_miss(counted)
    try:
        tried = trying.try_lookup(
            shown.row,
            lookup=given["lookup"],
            key=given["key"],
            object_kind=given["kind"],
            object_id=given["id"],
            hours=hours,
        )
    except (trying.CannotTry, registry.UnknownProvider) as error:
        return _account(request, shown, status=422, test_problem=str(error), given=given)
    outcomes = [look.outcome.value for look in tried.looks]
    facts = {"lookup": tried.way.name, "object": tried.object_kind, "outcomes": outcomes}
    _note(request, shown.row, "tested", facts)
    looks = tried_words.told(tried.looks)
    return _account(request, shown, tried=tried, looks=looks, given=given | {"hours": hours})


def _form(
    request: HttpRequest,
    provider: Provider,
    shown: AccountPage | None = None,
    *,
    problem: str = "",
) -> HttpResponse:
    row = shown.row if shown else None
    config = {"account": row.external_id, **row.config} if row else {}
    typed = request.POST.dict() if request.method == "POST" else None
    fields = account_forms.fields_of(
        provider.fields,
        config=config,
        masked=shown.masked if shown else {},
        typed=typed,
        problem=problem,
    )
    context = {
        "provider": provider,
        "account": shown,
        "fields": fields,
        "problem": problem,
        "environments": ENVIRONMENTS,
        "given": typed or {},
        "cannot": people.why_not(person(request), "manage_accounts"),
    }
    return page(request, "account_form.html", context, status=422 if problem else 200)


def _note(request: HttpRequest, row: ProviderAccount, what: str, facts: Mapping[str, Any]) -> None:
    """One line of the audit: names of fields and look-ups, never values."""
    data = {"account": str(row.pk), "kind": row.kind, "name": row.name, **facts}
    with connection.cursor() as cur:
        audit.note(
            cur,
            f"account.{what}",
            actor=f"user:{person(request).pk}",
            data=data,
            scope=Scope(row.environment, row.namespace),
        )


def _environment(text: str) -> str:
    if text not in ENVIRONMENTS:
        raise BadConfig(f"environment: expected one of {', '.join(ENVIRONMENTS)}")
    return text


def _word(name: str, text: str) -> str:
    word = text.strip()
    if not word or len(word) > 100 or not word.isprintable():
        raise BadConfig(f"{name}: expected a name of up to 100 characters")
    return word


def _provider(kind: str) -> Provider:
    try:
        return registry.provider_of(kind)
    except registry.UnknownProvider as error:
        raise Http404(str(error)) from None


def _found(handle: str) -> AccountPage:
    shown = queries.find(handle)
    if shown is None:
        raise Http404(handle)
    return shown
