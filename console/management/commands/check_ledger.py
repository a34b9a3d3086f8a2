"""`manage.py check_ledger`: do the rows say what the events say?"""

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from operations.ledger import checking


class Command(BaseCommand):
    """Exit 0 where everything agrees, 1 with a line for each difference where not."""

    help = "Fold the events, compare with every row, and check the sealed sequence."

    def handle(self, *args: Any, **options: Any) -> None:
        """Print every difference; nothing is changed."""
        found = list(checking.differences())
        for item in found:
            self.stdout.write(f"{item.where}: expected {item.expected}, found {item.found}")
        if found:
            raise CommandError(
                f"{len(found)} differences: the rows do not say what the events say. "
                "Nothing was changed. Keep a copy of the database before anything is repaired."
            )
        self.stdout.write("The events and the rows agree, and the sealed sequence has no gap.")
