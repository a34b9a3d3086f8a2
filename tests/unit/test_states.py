"""The transition table: the full product of states and events, read from the design's own table."""

import itertools
from pathlib import Path

import pytest

from operations import states, states_document

#: The table of the design, "States", as it stands there (its last column shortened).
DESIGN = """
| (none) | PENDING | `operation.recorded` | the intent is durable |
| PENDING | INVOKED | `operation.invoked` | a claim is granted |
| PENDING | FAILED | `operation.refused` | refused, and no attempt in doubt |
| PENDING | UNKNOWN | `operation.in_doubt` | refused or closed while an attempt is in doubt |
| INVOKED | COMMITTED | `operation.committed` | an attempt reports success |
| INVOKED | PENDING | `operation.not_sent` | definite no effect |
| INVOKED | FAILED | `operation.failed` | definite no effect and permanent |
| INVOKED | UNKNOWN | `operation.in_doubt` | outcome unknown; lease ran out |
| UNKNOWN | COMMITTED | `operation.reconciled` | positive evidence |
| UNKNOWN | FAILED | `operation.reconciled` | absence proved and the intent is closed |
| UNKNOWN | PENDING | `operation.released`, `operation.not_sent` | released |
| PENDING, FAILED | COMMITTED | `operation.late_effect` | positive evidence, late |
| FAILED | UNKNOWN | `operation.in_doubt` | report mode only |
"""


def of_the_design() -> set[tuple[str | None, str, str]]:
    edges = set()
    for line in DESIGN.strip().splitlines():
        froms, to_state, events = (cell.strip() for cell in line.strip("|").split("|")[:3])
        for from_state, event in itertools.product(froms.split(", "), events.split(", ")):
            edges.add((None if from_state == "(none)" else from_state, to_state, event.strip("`")))
    return edges


EVENTS = sorted({event for _, _, event in of_the_design()})
PRODUCT = list(itertools.product((None, *states.STATES), states.STATES, EVENTS))


@pytest.mark.parametrize(("from_state", "to_state", "event"), PRODUCT)
def test_an_edge_exists_exactly_where_the_design_has_it(
    from_state: str | None, to_state: str, event: str
) -> None:
    expected = (from_state, to_state, event) in of_the_design()
    assert states.allowed(from_state, to_state, event) is expected


def test_nothing_leads_out_of_committed() -> None:
    assert not [edge for edge in states.TRANSITIONS if edge[0] == states.COMMITTED]


def test_the_document_is_current() -> None:
    path = Path(__file__).parents[2] / "docs" / "states.md"
    assert path.read_text() == states_document.render(), "run manage.py generate_states_doc"
