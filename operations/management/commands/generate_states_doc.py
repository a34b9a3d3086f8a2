"""Write docs/states.md from the transition table."""

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from operations import states_document


class Command(BaseCommand):
    help = "Write docs/states.md from operations/states.py."

    def handle(self, *args: Any, **options: Any) -> None:
        path = Path(settings.BASE_DIR) / "docs" / "states.md"
        path.write_text(states_document.render())
        self.stdout.write(f"wrote {path.relative_to(settings.BASE_DIR)}")
