"""Makes operations in doubt in the database of DATABASE_URL, as a process of its own.

`python -m tests.support.make_doubts PROVIDER_URL NAMESPACE COUNT [effect] [kind]`; prints their
keys. The namespace gets a catalogue, and an account where it has none.
"""

import json
import os
import sys

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")
django.setup()

import reconcilers.providers  # noqa: E402

if more_providers := os.environ.get("MORE_PROVIDERS"):
    reconcilers.providers.__path__.append(more_providers)

from reconcilers import accounts  # noqa: E402
from reconcilers.models import ProviderAccount  # noqa: E402
from tests.support.reconciling import CHARGE, World, publish  # noqa: E402
from tests.support.simulated_provider import SimulatedProvider  # noqa: E402


def main(url: str, namespace: str, count: int, effect: bool, kind: str) -> list[str]:
    simulator = SimulatedProvider.__new__(SimulatedProvider)
    simulator.port = int(url.rpartition(":")[2])
    world = World(simulator, namespace=namespace, secret_key=f"sk_test_sim{namespace}")
    publish(charge=CHARGE | {"provider": kind, "reconciler": kind})
    if not ProviderAccount.objects.filter(namespace=namespace).exists():
        if kind == "stripe":
            world.account()
        else:
            accounts.create_account(
                kind, environment="test", namespace=namespace, name=kind, document={}
            )
    return [world.doubtful(effect=effect).key for _ in range(count)]


if __name__ == "__main__":
    provider_url, in_namespace, how_many, *more = sys.argv[1:]
    kinds = [word for word in more if word != "effect"]
    made = main(
        provider_url, in_namespace, int(how_many), "effect" in more, (kinds or ["stripe"])[0]
    )
    print(json.dumps(made))
