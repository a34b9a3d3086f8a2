"""`manage.py export_trust`: the keys that a verifier of evidence bundles trusts."""

import json
from typing import Any

from django.core.management.base import BaseCommand

from approvals import bundles


class Command(BaseCommand):
    help = "Print trust.json for countersign-verify; hand it over apart from any bundle."

    def handle(self, *args: Any, **options: Any) -> None:
        self.stdout.write(json.dumps(bundles.trust(), indent=2, sort_keys=True))
