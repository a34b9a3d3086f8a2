"""A person's own page: zone, theme, shortcuts."""

from zoneinfo import available_timezones

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods

from console import navigation
from console.presentation import words
from console.queries import people
from console.views.people import person
from console.views.rendering import page

ABILITIES = {
    "handle": "take work, ask providers, handle incidents",
    "settle": "settle unknown operations, signed",
    "decide": "approve or deny, signed",
    "enrol": "enrol a signing key",
    "publish": "publish policies",
    "export_audit": "export the audit",
    "start_drill": "start a drill",
}
THEMES = (("auto", "As the system has it"), ("light", "Light"), ("dark", "Dark"))


@require_http_methods(["GET", "HEAD", "POST"])
def me(request: HttpRequest) -> HttpResponse:
    """`/me/`."""
    user = person(request)
    problem = ""
    if request.method == "POST":
        zone = request.POST.get("time_zone", "").strip()
        theme = request.POST.get("theme", "")
        if zone not in available_timezones():
            problem = f"There is no time zone “{zone}”. Write it as in Europe/Berlin, or UTC."
        elif theme not in dict(THEMES):
            problem = "Choose one of the themes."
        else:
            user.time_zone, user.theme = zone, theme
            user.shortcuts = request.POST.get("shortcuts") == "on"
            user.save(update_fields=["time_zone", "theme", "shortcuts"])
            messages.success(request, "Preferences saved.")
            return redirect("me")
    context = {
        "problem": problem,
        "zone": request.POST.get("time_zone", user.time_zone),
        "zones": sorted(available_timezones()),
        "themes": THEMES,
        "shortcuts": navigation.SHORTCUTS,
        "abilities": [(word, people.why_not(user, ability)) for ability, word in ABILITIES.items()],
    }
    return page(request, "me.html", context, status=422 if problem else 200)


@require_http_methods(["GET", "HEAD"])
def shortcuts(request: HttpRequest) -> HttpResponse:
    """`/me/shortcuts/`: the sheet, as a page for those without script."""
    return page(
        request,
        "shortcuts.html",
        {"shortcuts": navigation.SHORTCUTS, "headlines": words.HEADLINES.values()},
    )
