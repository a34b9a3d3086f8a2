"""Who did it: `runtime:<key id>`, `user:<id>` or `system:<part>`. Never optional, never guessed."""

from dataclasses import dataclass
from typing import Final, NamedTuple
from uuid import UUID

SWEEPER: Final = "system:sweeper"
RECONCILER: Final = "system:reconciler"
SEQUENCER: Final = "system:sequencer"


class Scope(NamedTuple):
    """The pair that owns a key: what belongs to another pair does not exist for it."""

    environment: str
    namespace: str


@dataclass(frozen=True, slots=True)
class Runtime:
    """An agent runtime, as its API key names it."""

    key_id: UUID
    name: str
    environment: str
    namespace: str
    scopes: frozenset[str]

    @property
    def actor(self) -> str:
        return f"runtime:{self.key_id}"

    @property
    def scope(self) -> Scope:
        return Scope(self.environment, self.namespace)
