"""Static files from memory: versions, caching, compression, and nothing outside."""

import gzip

import pytest
from django.contrib.staticfiles import finders
from django.contrib.staticfiles.finders import FileSystemFinder

from console import assets

CSS = "body { color: black }\n" * 20


@pytest.fixture(autouse=True)
def files(tmp_path, monkeypatch, settings):
    (tmp_path / "console").mkdir()
    (tmp_path / "console" / "app.css").write_text(CSS)
    settings.STATICFILES_DIRS = [str(tmp_path)]
    found_by = FileSystemFinder()
    monkeypatch.setattr(finders, "get_finders", lambda: [found_by])
    assets._cached.cache_clear()
    yield
    assets._cached.cache_clear()


async def get(path, query="", method="GET", **headers):
    sent = []

    async def send(message):
        sent.append(message)

    async def beyond(scope, receive, send):
        sent.append({"status": "beyond"})

    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": query.encode(),
        "headers": [(k.replace("_", "-").encode(), v.encode()) for k, v in headers.items()],
    }

    async def receive():
        return {"type": "http.request"}

    await assets.Assets(beyond)(scope, receive, send)
    if sent[0]["status"] == "beyond":
        return "beyond", {}, b""
    return sent[0]["status"], dict(sent[0]["headers"]), sent[1]["body"]


async def test_a_versioned_address_may_be_kept_for_ever():
    address = assets.VersionedStorage().url("console/app.css")
    path, _, query = address.partition("?")
    status, headers, body = await get(path, query)
    assert status == 200
    assert body.decode() == CSS
    assert headers[b"content-type"] == b"text/css; charset=utf-8"
    assert b"immutable" in headers[b"cache-control"]


async def test_any_other_address_of_it_asks_each_time():
    _, headers, _ = await get("/static/console/app.css", "v=0000000000000000")
    assert headers[b"cache-control"] == b"no-cache"
    _, headers, _ = await get("/static/console/app.css")
    assert headers[b"cache-control"] == b"no-cache"
    etag = headers[b"etag"].decode()
    status, _, body = await get("/static/console/app.css", if_none_match=etag)
    assert (status, body) == (304, b"")


async def test_it_is_compressed_for_those_who_can_read_that():
    _, headers, body = await get("/static/console/app.css", accept_encoding="br, gzip")
    assert headers[b"content-encoding"] == b"gzip"
    assert gzip.decompress(body).decode() == CSS


@pytest.mark.parametrize("path", ["nothing.css", "../manage.py", "/etc/passwd", "console", ""])
async def test_what_is_no_static_file_is_not_found(path):
    status, _, body = await get(f"/static/{path}")
    assert (status, body) == (404, b"")


async def test_it_only_reads():
    assert (await get("/static/console/app.css", method="POST"))[0] == 405
    status, headers, body = await get("/static/console/app.css", method="HEAD")
    assert (status, body) == (200, b"")
    assert int(headers[b"content-length"]) == len(CSS)


async def test_other_addresses_go_on_to_django():
    assert (await get("/ops/"))[0] == "beyond"
