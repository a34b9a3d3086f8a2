"""Where a demo agent works: console, provider, its own folder."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Setting:
    console: str
    key: str
    provider: str
    provider_key: str
    state: Path
    seed: int

    def arguments(self) -> list[str]:
        """As command line, for a process of its own. The keys go by environment."""
        return [
            *("--console", self.console),
            *("--provider", self.provider),
            *("--state", str(self.state)),
            *("--seed", str(self.seed)),
        ]

    def environment(self) -> dict[str, str]:
        return {KEY: self.key, PROVIDER_KEY: self.provider_key}


#: Names of the environment variables: keys on command lines show in every process list.
KEY = "COUNTERSIGN_DEMO_KEY"
PROVIDER_KEY = "COUNTERSIGN_DEMO_PROVIDER_KEY"
