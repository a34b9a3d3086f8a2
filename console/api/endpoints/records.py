"""Report mode: batches of what already happened."""

from collections.abc import Sequence

from console.api import bodies, problems, shapes
from console.api.requests import Answer, Request
from operations import ingest
from operations.canonical import InvalidJson
from operations.reports.splitting import Parsed

MOST_RECORDS = 5000
_FLAGS = {"1": True, "true": True, "0": False, "false": False, "": True}


def report(request: Request) -> Answer:
    """`POST /api/v1/records`: a JSON array, or one record a line."""
    verbose = _FLAGS.get(request.query("verbose").get("verbose", "0"))
    if verbose is None:
        raise problems.invalid("'verbose' is 0 or 1.", "?verbose")
    runtime = request.runtime
    try:
        if request.media_type == bodies.NDJSON:
            records: Sequence[str | Parsed] = ingest.split_lines(request.body)
        else:
            records = ingest.split_array(request.body)
    except InvalidJson as fault:
        raise shapes.refusal_of(fault) from None
    if not 1 <= len(records) <= MOST_RECORDS:
        raise problems.invalid(f"A batch holds 1 to {MOST_RECORDS} records.", "")
    return Answer(200, ingest.ingest_records(records, runtime, verbose=verbose))


def read_record(request: Request) -> Answer:
    """`GET /api/v1/records/{record_id}`: what became of one record."""
    request.query()
    document = ingest.read_record(request.runtime.scope, request.params["record_id"])
    if document is None:
        raise problems.not_found("There is no such record for this key.")
    return Answer(200, document)
