"""What the demo must know again after a restart: passwords and keys, in a file of the owner's."""

import json
import os
import secrets
from pathlib import Path
from typing import Any, Final

_WORDS: Final = (
    "amber", "basil", "cedar", "delta", "ember", "fjord", "grove", "heron", "indigo", "jasper",
    "kelp", "linden", "maple", "nectar", "onyx", "pepper", "quartz", "raven", "sorrel", "tundra",
    "umber", "violet", "willow", "yarrow",
)  # fmt: skip


class Notes:
    """`folder/secrets.json`, readable by its owner alone."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._path = folder / "secrets.json"
        self._values: dict[str, Any] = (
            json.loads(self._path.read_text()) if self._path.exists() else {}
        )

    def get(self, name: str) -> str | None:
        value = self._values.get(name)
        return str(value) if value is not None else None

    def keep(self, name: str, value: str) -> str:
        self._values[name] = value
        draft = self._path.with_suffix(".draft")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            json.dump(self._values, file, indent=2)
        draft.replace(self._path)
        return value


def new_password() -> str:
    """Four words and a number: one of 300 million, and typed without a mistake."""
    words = [secrets.choice(_WORDS) for _ in range(4)]
    return "-".join([*words, str(100 + secrets.randbelow(900))])
