"""`manage.py demo`: seeds a local instance and keeps demo agents running on it."""

import os
from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import connection

from console.demo import seeding
from console.demo.agents import Attendant
from console.demo.notes import Notes


class Command(BaseCommand):
    """`make run` starts it; by hand it needs the DATA_DIR of a running instance."""

    help = "Seed demo people, tools and policies, print how to sign in, and run the demo agents."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the options."""
        parser.add_argument("--seed", type=int, default=7, help="whose luck the agents have")
        parser.add_argument("--seed-only", action="store_true", help="start no agents")

    def handle(self, *args: Any, **options: Any) -> None:
        """Seed, say how to sign in, and attend to the agents until told to stop."""
        if settings.PRODUCTION:
            raise CommandError("The demo makes accounts with printed passwords: not in production.")
        instance = settings.DATA_DIR.instance()
        provider_url = os.environ.get("COUNTERSIGN_PROVIDER_URL") or (
            instance.provider_url if instance else ""
        )
        if not provider_url:
            raise CommandError("No simulated provider runs here: start with `make run DEMO=1`.")
        notes = Notes(settings.DATA_DIR.path / "demo")
        seeded = seeding.seed(notes, provider_url)
        self._tell(seeded)
        connection.close()
        if not options["seed_only"]:
            attendant = Attendant(notes, seeded, settings.BASE_URL, provider_url, options["seed"])
            attendant.run()

    def _tell(self, seeded: seeding.Seeded) -> None:
        """The runner shows this file once it is there, whole."""
        text = "\n".join(seeded.logins) + "\n"
        path = settings.DATA_DIR.path / "demo-logins.txt"
        draft = path.with_suffix(".draft")
        draft.touch(mode=0o600)
        draft.write_text(text)
        draft.replace(path)
        self.stdout.write(text)
