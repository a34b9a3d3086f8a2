#!/usr/bin/env python
"""Django's command line for Countersign; commands reach the instance that runs in DATA_DIR."""

import os
import sys


def main() -> None:
    """Run the management command that the arguments name."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")
    from django.core.management import execute_from_command_line
    from django.db import OperationalError

    try:
        execute_from_command_line(sys.argv)
    except OperationalError as error:
        if "no-instance-runs-here" not in str(error):
            raise
        folder = os.environ.get("DATA_DIR", ".data")
        sys.exit(
            f"No instance of Countersign runs in {folder}, so there is no database to speak to;"
            " nothing was changed.\nStart one there with `make run`, or set DATA_DIR to the folder"
            " of one that runs, or DATABASE_URL."
        )


if __name__ == "__main__":
    main()
