"""The API's tables say the same thing: routes, words, shapes, codes, guards."""

import json
import re
from pathlib import Path

from console.api.addresses import ROUTES
from console.api.described import document
from console.api.described.problem_codes import STATUS_OF
from console.api.readiness import guards
from console.api.routes import Table

ROOT = Path(__file__).resolve().parents[2]


def spec():
    return json.loads(json.dumps(document.build(ROUTES)))


def test_every_route_is_in_openapi_and_every_path_of_openapi_is_a_route():
    described = {
        (method.upper(), path) for path, methods in spec()["paths"].items() for method in methods
    }
    assert described == {(route.method, route.path) for route in ROUTES}


def test_no_route_is_named_twice_and_no_words_are_left_over():
    routes = [(route.method, route.path) for route in ROUTES]
    assert len(routes) == len(set(routes))
    assert set(document.WORDS) == set(routes)


def test_every_reference_in_openapi_leads_somewhere():
    text = json.dumps(spec())
    names = set(re.findall(r'"#/components/schemas/([A-Za-z]+)"', text))
    assert names == set(spec()["components"]["schemas"])


def test_every_operation_of_openapi_has_what_a_client_generator_needs():
    ids = []
    for path, methods in spec()["paths"].items():
        for operation in methods.values():
            ids.append(operation["operationId"])
            assert operation["summary"]
            assert "security" in operation
            assert any(
                status.startswith("2") or status == "404" for status in operation["responses"]
            )
            named = {p["name"] for p in operation.get("parameters", []) if p["in"] == "path"}
            assert named == set(re.findall(r"{(\w+)}", path))
    assert len(ids) == len(set(ids))


def test_every_error_answer_is_a_problem_document_with_its_codes():
    for methods in spec()["paths"].values():
        for operation in methods.values():
            for status, answer in operation["responses"].items():
                if int(status) >= 400:
                    schema = answer["content"]["application/problem+json"]["schema"]
                    codes = schema["allOf"][1]["properties"]["code"]["enum"]
                    assert all(int(status) in STATUS_OF[code] for code in codes)


def test_routes_are_found_by_whole_segments():
    table = Table(ROUTES)
    found = table.find(b"/api/v1/operations/a%3Ab/outcome")
    assert found is not None
    assert found.params == {"idem_key": "a:b"}
    assert found.allowed == "OPTIONS, POST"
    record = table.find(b"/api/v1/records/a%2Fb")
    assert record is not None
    assert record.params == {"record_id": "a/b"}
    for unknown in (b"/api/v1/operations/", b"/api/v1/operations/a/b/c", b"/api/v1", b"/healthz/"):
        assert table.find(unknown) is None


def test_readiness_asks_for_the_triggers_of_every_app():
    sql = "".join(path.read_text() for path in ROOT.glob("*/sql/*guards.sql"))
    written = set(re.findall(r"TRIGGER\s+(\w+)\s+(?:BEFORE|AFTER|INSTEAD)", sql))
    assert {"operations_event_append_only", "decision_keep"} <= written
    assert guards() == written
