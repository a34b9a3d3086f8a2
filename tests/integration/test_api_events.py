"""The live stream of the console: who may hear it, and what it says."""

import json
import re
import secrets
import threading
from contextlib import contextmanager

import httpx
import pytest

from tests.support.api import Api, assert_problem


@pytest.fixture(scope="module")
def api(live_product):
    return Api(live_product)


@pytest.fixture(scope="module")
def person(live_product):
    """A signed-in browser, as far as cookies go."""
    email, password = f"{secrets.token_hex(4)}@example.com", secrets.token_urlsafe(12)
    live_product.create_user(email, "viewer", password)
    client = httpx.Client(base_url=live_product.base_url, timeout=20, follow_redirects=True)
    page = client.get("/login/")
    token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page.text)
    assert token is not None
    form = {"csrfmiddlewaretoken": token[1], "email": email, "password": password}
    client.post("/login/", data=form, headers={"Referer": f"{live_product.base_url}/login/"})
    assert client.cookies.get("countersign_session")
    yield client
    client.close()


@contextmanager
def stream(client, query="", **headers):
    with client.stream("GET", f"/events{query}", headers=headers) as answer:
        assert answer.status_code == 200, answer.read()
        yield answer


def read_until(answer, found):
    """Events up to the first one that `found` accepts, as (id, event, data)."""
    seen, block = [], {}
    for line in answer.iter_lines():
        if line:
            name, _, value = line.partition(": ")
            block[name] = value
        elif "event" in block:
            seen.append((block.get("id"), block["event"], json.loads(block["data"])))
            if found(*seen[-1]):
                return seen
            block = {}
        else:
            block = {}
    raise AssertionError(f"the stream ended after {seen}")


def test_only_a_signed_in_person_may_listen(live_product, api):
    url = f"{live_product.base_url}/events"
    assert_problem(httpx.get(url), 401, "UNAUTHENTICATED")
    assert_problem(api.http.get("/events"), 401, "UNAUTHENTICATED")
    forged = httpx.get(url, headers={"Cookie": "countersign_session=forged0123456789"})
    assert_problem(forged, 401, "UNAUTHENTICATED")


def test_topics_are_known_words_or_ids(person):
    assert_problem(person.get("/events?topics=secrets"), 422, "VALIDATION_ERROR")
    assert_problem(person.get("/events?other=1"), 422, "UNKNOWN_FIELD")


def test_a_change_is_heard_as_name_and_id_without_any_content(person, api):
    with stream(person, "?topics=ops,approvals,incidents") as answer:
        assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert answer.headers["x-accel-buffering"] == "no"
        assert "content-encoding" not in answer.headers
        handles = []

        def work():
            claimed = api.claimed(args={"secret": "s3cret-args"})
            handles.append(claimed["operation"]["id"])
            api.outcome(claimed, "committed", result={"secret": "s3cret-result"})

        threading.Timer(0.3, work).start()
        seen = read_until(answer, lambda _, event, data: bool(handles) and data["id"] == handles[0])
    seq, event, data = seen[-1]
    assert (event, set(data)) == ("op-changed", {"id", "v"})
    assert int(seq) > 0
    assert "s3cret" not in json.dumps(seen)


def test_a_reader_that_comes_back_is_sent_what_it_missed(person, api):
    with stream(person, "?topics=ops") as answer:
        threading.Timer(0.2, api.claim).start()
        last = read_until(answer, lambda *_: True)[-1][0]
    missed = api.claimed()["operation"]["id"]
    with stream(person, "?topics=ops", **{"Last-Event-ID": last}) as answer:
        read_until(answer, lambda _, event, data: data["id"] == missed)


def test_one_thing_can_be_listened_to(person, api):
    wanted = api.claimed()
    handle = wanted["operation"]["id"]
    with stream(person, f"?topics={handle}") as answer:

        def work():
            api.claim()
            api.outcome(wanted, "committed")

        threading.Timer(0.3, work).start()
        seen = read_until(answer, lambda *_: True)
    assert {data["id"] for _, _, data in seen} == {handle}
