"""`python -m bench` (or `make bench`): measures the speed goals into a table and results.json."""

import argparse
import json
import sys
from pathlib import Path

from bench import measures, reconciling
from bench.product import running
from bench.table import Row, render

PARTS = ("calls", "records", "waiting", "lists", "reconciling")
RESULTS = Path(__file__).parent / "results.json"


def main() -> int:
    """Measure everything; 0 when every floor was met."""
    parser = argparse.ArgumentParser(prog="python -m bench")
    parser.add_argument("--seconds", type=int, default=10, help="of each load measurement")
    parser.add_argument("--rows", type=int, default=1_000_000, help="operations behind the lists")
    parser.add_argument("--unknown", type=int, default=10_000, help="settled by one list window")
    parser.add_argument("--waiters", type=int, nargs="*", default=[200, 1000])
    parser.add_argument("--only", default="", help=f"comma-separated: {', '.join(PARTS)}")
    options = parser.parse_args()
    wanted = set(filter(None, options.only.split(","))) or set(PARTS)
    rows: list[Row] = []
    with running() as product:
        quiet = measures.noise(product)
        if "calls" in wanted:
            rows += measures.tool_calls(product, options.seconds)
        if "records" in wanted:
            rows += measures.records(product, options.seconds)
        if "waiting" in wanted:
            rows += measures.waiting(product, options.waiters)
        if "lists" in wanted:
            rows += measures.lists(product, options.rows)
    if "reconciling" in wanted:
        # On services of its own: the product's workers would settle the same operations.
        rows += reconciling.measure(options.unknown)
    print(render(rows, quiet))
    document = {"noise": quiet, "rows": [row.as_dict() for row in rows]}
    RESULTS.write_text(json.dumps(document, indent=2) + "\n")
    print("\nwritten to bench/results.json")
    return 0


if __name__ == "__main__":
    sys.exit(main())
