"""`manage.py reconcile --once [--provider stripe] [--dry-run]`: look now, and say why."""

import argparse
from collections import Counter
from functools import partial
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from reconcilers import registry, rehearsals, sentences
from reconcilers.acting import Conclusion

#: What follows, as a rehearsal and as a run say it.
_WOULD = {
    "commit": ("would be committed", "committed"),
    "settle_absent": ("would end FAILED, nothing happened", "failed, nothing happened"),
    "release": ("would be released", "released"),
    "hold": ("would stay as it is", "stays as it is"),
}


class Command(BaseCommand):
    """Every UNKNOWN operation is looked at once, due or not."""

    help = "Look at every UNKNOWN operation now and print what follows from it, and why."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """`--once` is said so that nobody takes this for a daemon."""
        parser.add_argument("--once", action="store_true", required=True)
        parser.add_argument("--provider", help=f"one of: {', '.join(registry.providers())}")
        parser.add_argument("--dry-run", action="store_true", help="ask, and change nothing")

    def handle(self, *args: Any, **options: Any) -> None:
        """One paragraph for each operation, then the sums."""
        kind = options["provider"]
        if kind is not None and kind not in registry.providers():
            raise CommandError(f"no provider is called {kind!r}")
        dry = options["dry_run"]
        told: Counter[str] = Counter()
        tell = partial(self._tell, dry=dry, told=told)
        if dry:
            for conclusion in rehearsals.rehearse(kind=kind):
                tell(conclusion, conclusion.dossier.facts.state)
        else:
            rehearsals.look_at_everything(kind=kind, listener=tell)
        sums = ", ".join(f"{count} {what}" for what, count in sorted(told.items()))
        self.stdout.write(sums or "nothing is UNKNOWN")

    def _tell(self, conclusion: Conclusion, state: str, *, dry: bool, told: Counter[str]) -> None:
        dossier, verdict, exit_ = conclusion.dossier, conclusion.verdict, conclusion.exit
        words = _WOULD[exit_.move][0 if dry else 1]
        reason = f" ({exit_.reason})" if exit_.move == "release" else ""
        said = sentences.say(dossier.facts, verdict, conclusion.looks, exit_=exit_)
        self.stdout.write(f"{dossier.handle}  {dossier.tool}  {verdict.kind}: {words}{reason}")
        self.stdout.write(f"    {said}")
        told[f"{verdict.kind}"] += 1
