"""The contract as a document and as a page, both made from the same tables."""

from functools import lru_cache

from django.templatetags.static import static

from console.api.described import document
from console.api.described import page as pages
from console.api.requests import Answer, Request
from console.api.routes import Route

#: The page loads one stylesheet of our own and nothing else, from nowhere else.
_CSP = (
    "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)


async def openapi_json(request: Request) -> Answer:
    """`GET /api/v1/openapi.json`."""
    return Answer(200, _document(), {"Cache-Control": "no-cache"})


async def page(request: Request) -> Answer:
    """`GET /api/v1/docs`: plain HTML, no script."""
    return Answer(
        200,
        _page(),
        {"Content-Security-Policy": _CSP, "Referrer-Policy": "same-origin"},
        content_type=b"text/html; charset=utf-8",
    )


@lru_cache(maxsize=1)
def _document() -> bytes:
    return Answer(200, document.build(_routes())).encode()


@lru_cache(maxsize=1)
def _page() -> bytes:
    return pages.render(document.build(_routes()), static("console/api-docs.css")).encode()


def _routes() -> tuple[Route, ...]:
    # The table names this module's own addresses too.
    from console.api.addresses import ROUTES

    return ROUTES
