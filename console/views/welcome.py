"""The first minutes: see agents act, enrol a key, sign the first decision."""

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from console.queries import first_steps
from console.views.people import person
from console.views.rendering import page


@require_safe
def welcome(request: HttpRequest) -> HttpResponse:
    """`/welcome/`: each step says whether it is done, and leads to where it is done."""
    context = {"steps": first_steps.steps(request, person(request))}
    return page(request, "welcome.html", context, {"steps": "steps"})
