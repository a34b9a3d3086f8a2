"""`manage.py check_ledger`: do the rows say what the events say, and does the tree hold them?"""

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from operations.ledger import checking


class Command(BaseCommand):
    """Exit 0 where everything agrees, 1 with a line for each difference where not.

    Differences that an admin signed for are named, and are no news.
    """

    help = "Fold the events, compare with every row, and verify the tree and its checkpoints."

    def handle(self, *args: Any, **options: Any) -> None:
        """Print every difference; nothing is changed."""
        differences, forgiven = list(checking.differences()), checking.forgiven()
        found = [item for item in differences if item.where not in forgiven]
        for item in differences:
            known = "known since this log began: " if item.where in forgiven else ""
            self.stdout.write(f"{known}{item}")
        if found:
            raise CommandError(
                f"{len(found)} differences: the rows do not say what the events say. "
                "Nothing was changed. Keep a copy of the database before anything is repaired."
            )
        self.stdout.write(
            "The events and the rows agree, the sealed sequence has no gap, and the tree and its "
            "checkpoints hold every entry."
        )
