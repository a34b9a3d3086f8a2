"""`docs/states.md`, written from the transition table. `manage.py generate_states_doc` saves it."""

from typing import Final

from operations import states

_WHY: Final[dict[tuple[str | None, str], str]] = {
    (None, "PENDING"): "the intent is durable",
    ("PENDING", "INVOKED"): "a claim is granted: a lease and an attempt number",
    ("PENDING", "FAILED"): "refused or no longer wanted, and no attempt in doubt",
    ("PENDING", "UNKNOWN"): "refused or closed with an attempt in doubt; a send that was never "
    "claimed; a replay window that closed",
    ("PENDING", "COMMITTED"): "an effect shows up that nobody was granted",
    ("INVOKED", "COMMITTED"): "an attempt reports success, or a look finds the effect",
    ("INVOKED", "PENDING"): "the attempt did nothing and may be repeated",
    ("INVOKED", "FAILED"): "the attempt did nothing, for good, and no other is in doubt",
    ("INVOKED", "UNKNOWN"): "outcome unknown, or the lease ran out after a possible send",
    ("UNKNOWN", "COMMITTED"): "positive evidence",
    ("UNKNOWN", "FAILED"): "absence proved and the intent closed, or a person signed",
    ("UNKNOWN", "PENDING"): "released: it may be claimed again, with the same key",
    ("FAILED", "COMMITTED"): "an effect shows up after all",
    ("FAILED", "UNKNOWN"): "report mode: a later record puts an attempt in doubt",
}
_HEAD: Final = """\
# States of an operation

Generated from `operations/states.py` by `manage.py generate_states_doc`; a test keeps it current.
The database trigger in `operations/sql/guards.sql` holds the same table.

```mermaid
stateDiagram-v2
"""


def render() -> str:
    """The whole document."""
    lines = [_HEAD]
    for (from_state, to_state), events in states.TRANSITIONS.items():
        names = ", ".join(sorted(event.removeprefix("operation.") for event in events))
        lines.append(f"    {from_state or '[*]'} --> {to_state}: {names}\n")
    lines.append("```\n\n| from | to | event | when |\n|---|---|---|---|\n")
    for edge, events in states.TRANSITIONS.items():
        names = ", ".join(f"`{event}`" for event in sorted(events))
        lines.append(f"| {edge[0] or '(none)'} | {edge[1]} | {names} | {_WHY[edge]} |\n")
    lines.append("\nCOMMITTED is absorbing: nothing leads out of it.\n")
    return "".join(lines)
