"""Template tags of the console's pages. Everything is escaped; none writes style or script."""

from datetime import UTC, datetime, timedelta
from typing import Any

from django import template
from django.http import HttpRequest
from django.template.context import Context
from django.templatetags.static import static
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from approvals import announcements
from approvals.models import ReviewerKey, User
from console import navigation
from console.presentation import amounts, times, visible, words
from console.presentation.amounts import Amount
from console.presentation.visible import Run
from console.presentation.words import Headline
from console.queries import clock
from operations.models import Operation
from reconcilers.reading import Rung

register = template.Library()


@register.simple_tag
def icon(name: str, label: str = "") -> SafeString:
    """A picture from the sprite; silent for screen readers unless it is given a label."""
    href = f"{static('console/icons.svg')}#{name}"
    if label:
        return format_html(
            '<svg class="icon" role="img" aria-label="{}"><use href="{}"/></svg>', label, href
        )
    return format_html('<svg class="icon" aria-hidden="true"><use href="{}"/></svg>', href)


@register.simple_tag
def state(headline: Headline, size: str = "") -> SafeString:
    """The pill: icon, word, shape."""
    return format_html(
        '<span class="state state-{}{}">{}<span class="state-word">{}</span></span>',
        headline.key,
        f" state-{size}" if size else "",
        icon(headline.icon),
        headline.word,
    )


@register.simple_tag(takes_context=True)
def state_of(context: Context, operation: words.OperationRow, size: str = "") -> SafeString:
    """The pill of an operation's row."""
    return state(words.headline(operation, now=_now(context)), size)


@register.simple_tag(takes_context=True)
def when(context: Context, moment: datetime | None, form: str = "full") -> SafeString:
    """A moment in the viewer's zone. Forms: full (with age), short, stamp (no age), utc."""
    if moment is None:
        return SafeString("–")
    said = times.instant(moment, _zone(context), now=_now(context))
    utc = times.instant(moment, UTC, now=_now(context))
    if form == "utc":
        return format_html('<time datetime="{}">{}</time>', said.machine, said.utc)
    local, in_utc = (said.short, utc.short) if form == "short" else (said.full, utc.full)
    shown = format_html(
        '<time datetime="{}" title="{}" data-utc="{}">{}</time>',
        said.machine,
        f"{said.full} · {said.utc}",
        in_utc,
        local,
    )
    if form in {"stamp", "short"}:
        return shown
    return format_html('{} <span class="age">{}</span>', shown, said.age)


@register.simple_tag(takes_context=True)
def age(context: Context, moment: datetime | None) -> str:
    """`42 min ago`; always printed beside the moment itself."""
    return times.age(moment, now=_now(context)) if moment else "–"


@register.simple_tag(takes_context=True)
def since(context: Context, moment: datetime | None) -> str:
    """`42 min`: how long it has lasted, for columns that are headed by what they count."""
    return times.short_span(abs(_now(context) - moment)) if moment else "–"


@register.simple_tag
def span_of(length: timedelta | None) -> str:
    """A length of time, to the millisecond below ten seconds."""
    if length is None:
        return ""
    milliseconds = round(length.total_seconds() * 1000)
    return f"{milliseconds:,} ms" if milliseconds < 10_000 else times.span(length)


@register.simple_tag
def money(amount: Amount | None, form: str = "both") -> SafeString:
    """`EUR 1,250.00`, with the exact minor units beside it unless the form is `major`."""
    if amount is None:
        return SafeString("–")
    if amount.major is None:
        return format_html(
            '<span class="amount">{} {}</span> '
            '<span class="tag tag-warn">decimals not known</span>',
            amount.minor,
            amount.currency,
        )
    major = format_html('<span class="amount">{} {}</span>', amount.currency, amount.major)
    if form == "major":
        return major
    return format_html('{} <span class="minor">({} minor)</span>', major, amount.minor)


@register.simple_tag
def amount_of(operation: Operation) -> SafeString:
    """What an operation's row moves, in major units."""
    return money(amounts.of_operation(operation), "major")


@register.simple_tag
def verdict_of(operation: Operation) -> SafeString:
    """The pill of what the findings prove about an operation."""
    return state(words.verdict_headline(words.verdict_kind(operation)))


@register.simple_tag
def rung_state(rung: Rung) -> SafeString:
    """The pill of a look-up's newest answer."""
    if not rung.looks:
        return state(words.NOT_ASKED)
    return state(words.OUTCOMES[rung.looks[0]["outcome"]])


@register.simple_tag
def copy(value: object, label: str) -> SafeString:
    """A button that copies exactly this value; it appears only where script runs."""
    return format_html(
        '<button type="button" class="copy js-only" data-copy="{}" aria-label="Copy {}" '
        'title="Copy {}">{}</button>',
        value,
        label,
        label,
        icon("copy"),
    )


@register.simple_tag
def runs(parts: list[Run]) -> SafeString:
    """Visible text: plain runs escaped, hidden characters as boxes with a name."""
    return format_html_join(
        "",
        "{}",
        (
            (part.text,)
            if part.kind == "text"
            else (
                format_html('<span class="esc" title="{}">{}</span>', part.name, part.text)
                if part.kind == "box"
                else format_html(
                    '<span class="esc" title="{}">{}</span><br>', part.name, part.text
                ),
            )
            for part in parts
        ),
    )


@register.filter
def made_visible(text: str) -> SafeString:
    """A short string from outside, isolated and visible."""
    return format_html("<bdi>{}</bdi>", runs(visible.visible(text)))


@register.filter
def shortened(key: str) -> str:
    """The beginning of a long key; the whole stands in a title or behind a copy button."""
    if len(key) <= 16:
        return key
    head, separator, _ = key.partition("_")
    # Handles begin with the time, so only their end tells two of one minute apart.
    kept = head + separator if separator and len(head) <= 3 else key[:8]
    return f"{kept}…{key[-6:]}"


@register.filter
def spoken(word: str) -> str:
    """`args_conflict` -> `args conflict`."""
    return word.replace("_", " ")


@register.filter
def looked_at_by(operation: Operation, looking: dict[Any, str]) -> str:
    """Who claimed the operation to look at it; empty where nobody did."""
    return looking.get(operation.pk, "")


@register.inclusion_tag("components/navigation.html", takes_context=True)
def navigation_rail(context: Context) -> dict[str, Any]:
    """The left rail with its badges."""
    request: HttpRequest = context["request"]
    return {
        "items": navigation.rail(request),
        "here": navigation.here(request),
        "csp_nonce": context.get("csp_nonce"),
    }


def _now(context: Context) -> datetime:
    """One clock for each page, read from the database once."""
    moment = context.get("now")
    if not isinstance(moment, datetime):
        moment = clock.now()
        context.dicts[0]["now"] = moment
    return moment


def _zone(context: Context) -> Any:
    user = getattr(context.get("request"), "user", None)
    return times.zone_of(getattr(user, "time_zone", "UTC"))


@register.simple_tag(takes_context=True)
def new_keys(context: Context) -> list[ReviewerKey]:
    """Signing keys in the viewer's name that they have not recognised yet."""
    viewer = context.get("user")
    return announcements.unanswered(viewer) if isinstance(viewer, User) else []
