"""What was acknowledged with 2xx survives the SIGKILL of any process, and the API comes back."""

import itertools
import threading
import time
from collections import Counter

import httpx
import pytest

from tests.support.api import Api, claim_body

_WRITERS = 6


@pytest.fixture
def api(own_product):
    own_product.wait_until_ready()
    return Api(own_product)


class Load:
    """Writers that note every acknowledgement and every refusal; a lost answer proves nothing."""

    def __init__(self, api):
        self.api = api
        self.claimed, self.committed, self.records = set(), set(), set()
        self.answers: Counter[str] = Counter()
        self._stop = threading.Event()
        self._numbers = itertools.count()
        self._threads = [threading.Thread(target=self._write) for _ in range(_WRITERS)]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _write(self):
        with httpx.Client(
            base_url=self.api.http.base_url, headers=self.api.http.headers, timeout=15
        ) as http:
            while not self._stop.is_set():
                number = next(self._numbers)
                try:
                    self._call(http, number)
                    self._record(http, number)
                except httpx.HTTPError as error:
                    self.answers[type(error).__name__] += 1
                    time.sleep(0.05)

    def _call(self, http, number):
        claim = claim_body(tool_call_id=f"c{number}", attempt={"id": f"a{number}"})
        answer = self._post(http, "/api/v1/operations", claim)
        if answer.status_code != 201:
            return
        key = answer.json()["idem_key"]
        self.claimed.add(key)
        report = {
            "attempt_number": 1, "attempt_id": f"a{number}", "outcome": "committed",
            "result": number,
        }  # fmt: skip
        if self._post(http, f"/api/v1/operations/{key}/outcome", report).status_code == 200:
            self.committed.add(key)

    def _record(self, http, number):
        names = [f"rec-{number}-{n}" for n in range(3)]
        batch = [
            {
                "record_id": name, "type": "TOOL_INVOKED", "tool": "tests.told", "args": {},
                "run": {"id": f"told-{number}", "agent": "a"}, "step": n, "tool_call_id": "c",
            }
            for n, name in enumerate(names)
        ]  # fmt: skip
        if self._post(http, "/api/v1/records", batch).status_code == 200:
            self.records.update(names)

    def _post(self, http, path, body):
        answer = http.post(path, json=body)
        if answer.status_code >= 400:
            problem = answer.json()
            self.answers[f"{answer.status_code} {problem['code']}"] += 1
            assert problem["retryable"] is True, problem
        else:
            self.answers["acknowledged"] += 1
        return answer

    def go_on(self, calls=15, within_seconds=40):
        """Wait until so many more calls were acknowledged."""
        wanted = len(self.committed) + calls
        deadline = time.monotonic() + within_seconds
        while len(self.committed) < wanted:
            assert time.monotonic() < deadline, self.answers
            time.sleep(0.02)

    def check(self):
        """Every acknowledgement is in the database."""
        found = dict(
            self.api.sql(
                "SELECT idem_key, state FROM operations_operation WHERE namespace = %s",
                self.api.namespace,
            )
        )
        assert self.claimed <= set(found)
        assert {key for key in self.committed if found[key] != "COMMITTED"} == set()
        kept = self.api.sql(
            "SELECT record_id FROM operations_record WHERE namespace = %s", self.api.namespace
        )
        assert self.records <= {name for (name,) in kept}
        assert self.records


def test_no_acknowledged_write_is_lost_when_web_processes_are_killed(api, own_product):
    with Load(api) as load:
        for name in ("web-1", "web-2", "web-1", "web-2"):
            load.go_on()
            own_product.kill(name)
        load.go_on()
    load.check()
    own_product.wait_until_ready()


def test_no_acknowledged_write_is_lost_when_postgres_is_killed_and_the_api_comes_back(
    api, own_product
):
    with Load(api) as load:
        for _ in range(2):
            load.go_on()
            own_product.kill("postgres")
        load.go_on()
    load.check()
    allowed = {"acknowledged", "503 UNAVAILABLE", "503 OUTCOME_UNCERTAIN"}
    assert set(load.answers) <= allowed, load.answers
    own_product.wait_until_ready()


def test_without_postgres_nothing_is_stored_and_readiness_says_so(api, own_product):
    assert api.claim().status_code == 201
    postgres = own_product.pids()["postgres"]
    own_product.kill("postgres")
    assert own_product.pids()["postgres"] != postgres
    deadline = time.monotonic() + 15
    while (answer := api.claim()).status_code != 201:
        assert answer.status_code == 503, answer.text
        assert answer.headers["retry-after"] == "1"
        assert time.monotonic() < deadline
        time.sleep(0.1)
