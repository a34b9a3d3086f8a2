"""What tests of pages share: clients by role, and the addresses of a furnished console."""

from django.test import Client

from tests.support.furnished import Seeded


def client_of(seeded: Seeded, role: str) -> Client:
    """Somebody of this role, signed in."""
    client = Client()
    client.force_login(seeded.people[role])
    return client


def addresses(seeded: Seeded) -> list[str]:
    """Every page with something on it."""
    operations = [f"/ops/{row.handle}/" for row in seeded.operations.values()]
    assert seeded.approval is not None
    runs = {row.run.handle for row in seeded.operations.values()}
    return [
        "/", "/unknown/", "/unknown/?q=is:ready", "/approvals/", "/approvals/?status=denied",
        f"/approvals/{seeded.approval.handle}/", "/ops/", "/ops/?q=state:unknown+tool:charge",
        "/ops/?q=nonsense:1", "/ops/?q=tool:nothing", *operations, "/runs/", "/runs/?status=failed",
        *(f"/runs/{run}/" for run in runs), "/reconcilers/", "/tools/", "/tools/stripe.charge/",
        "/alerts/", "/alerts/?resolved=1", "/audit/", "/audit/?type=operation.", "/drills/",
        "/me/", "/me/keys/", "/me/shortcuts/", "/welcome/",
        f"/ops/{seeded.operations['conflict'].handle}/evidence/",
    ]  # fmt: skip
