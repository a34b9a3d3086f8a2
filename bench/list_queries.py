"""`python -m bench.list_queries DATA_DIR ROWS`: times the SQL of every list and badge, as JSON.

A process of its own, because Django reads DATA_DIR once.
"""

import json
import os
import random
import sys
import time
from collections.abc import Callable
from typing import Any

import psycopg

_ROUNDS = 60


class Timer:
    """Sums the time of the statements that psycopg runs, Django's cursors and prepared ones alike.

    A context manager: patches the cursor class of both for as long as it is open.
    """

    def __init__(self) -> None:
        self.seconds = 0.0

    def __enter__(self) -> "Timer":
        self._execute = psycopg.Cursor.execute
        timer, execute = self, self._execute

        def timed(cursor: Any, *args: Any, **options: Any) -> Any:
            began = time.perf_counter()
            try:
                return execute(cursor, *args, **options)
            finally:
                timer.seconds += time.perf_counter() - began

        psycopg.Cursor.execute = timed  # type: ignore[method-assign,assignment]
        return self

    def __exit__(self, *error: object) -> None:
        psycopg.Cursor.execute = self._execute  # type: ignore[method-assign]


def main() -> None:
    """Time each query."""
    os.environ["DATA_DIR"], count = sys.argv[1], int(sys.argv[2])
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")
    import django

    django.setup()
    from bench.lists import NAMESPACE
    from operations import reading, runs_reading
    from operations.actors import Scope
    from operations.reading import OperationQuery
    from operations.runs_reading import RunQuery

    scope = Scope("test", NAMESPACE)
    dice = random.Random(7)

    def deep(query: OperationQuery) -> str | None:
        """A cursor some pages down."""
        cursor = None
        for _ in range(dice.randint(0, 5)):
            cursor = reading.list_operations(query, cursor)[1] or cursor
        return cursor

    def by_key() -> Callable[[], object]:
        key = f"key_{dice.randint(1, count)}"
        return lambda: reading.read_operation(scope, key)

    def operations(**filters: Any) -> Callable[[], object]:
        query = OperationQuery(scope=scope, **filters)
        cursor = deep(query)
        return lambda: reading.list_operations(query, cursor)

    def runs(**filters: Any) -> Callable[[], object]:
        query = RunQuery(scope=scope, **filters)
        cursor = None
        for _ in range(dice.randint(0, 5)):
            cursor = runs_reading.list_runs(query, cursor)[1] or cursor
        return lambda: runs_reading.list_runs(query, cursor)

    cases: dict[str, Callable[[], Callable[[], object]]] = {
        "operations, newest": operations,
        "operations, state UNKNOWN": lambda: operations(state="UNKNOWN"),
        "operations, state COMMITTED": lambda: operations(state="COMMITTED"),
        "operations, tool": lambda: operations(tool=f"tool_{dice.randrange(30)}"),
        "operations, tool and state": lambda: operations(tool="tool_7", state="UNKNOWN"),
        "operations, run": lambda: operations(run=f"run_{dice.randint(1, count // 20)}"),
        "operation by key": by_key,
        "badge, UNKNOWN": lambda: (
            lambda: reading.capped_count(OperationQuery(scope=scope, state="UNKNOWN"))
        ),
        "operations, run and state": lambda: operations(
            run=f"run_{dice.randint(1, count // 20)}", state="UNKNOWN"
        ),
        "operations, waiting on": lambda: operations(waiting_on="look"),
        "operations, waiting on, none": lambda: operations(waiting_on="person"),
        "operations, tool and waiting on": lambda: operations(tool="tool_7", waiting_on="look"),
        "operations, gate, none": lambda: operations(gate="waiting"),
        "badge, waiting on, none": lambda: (
            lambda: reading.capped_count(OperationQuery(scope=scope, waiting_on="person"))
        ),
        "runs, newest": runs,
        "runs, unfinished": lambda: runs(status="unfinished"),
        "runs, unfinished, agent": lambda: runs(status="unfinished", agent="agent_3"),
        "runs, waiting": lambda: runs(status="waiting"),
        "runs, waiting, agent": lambda: runs(status="waiting", agent="agent_3"),
        "runs, running": lambda: runs(status="running"),
        "runs, finished": lambda: runs(status="finished"),
        "runs, failed, none": lambda: runs(status="failed"),
        "runs, agent": lambda: runs(agent="agent_3"),
        "runs, agent, none": lambda: runs(agent="nobody"),
        "runs, finished, agent": lambda: runs(status="finished", agent="agent_3"),
    }
    found = {}
    for name, make in cases.items():
        took = []
        for _ in range(_ROUNDS):
            call = make()
            with Timer() as timer:
                call()
            took.append(timer.seconds * 1000)
        took.sort()
        found[name] = {"p50_ms": took[len(took) // 2], "p95_ms": took[int(len(took) * 0.95)]}
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
