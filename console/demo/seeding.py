"""Demo people, catalogue, API key and provider account. Run again it changes nothing."""

from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Final

from django.conf import settings
from django.core.management import call_command
from django.db import connection, transaction

from approvals import audit
from approvals.models import ReviewerKey, User
from console.demo.notes import Notes, new_password
from operations import api_keys
from operations.models import ApiKey
from reconcilers import accounts
from reconcilers.models import ProviderAccount

CATALOGUE: Final = Path(settings.BASE_DIR) / "docs" / "demo-catalogue.yaml"
ENVIRONMENT: Final = "test"
NAMESPACE: Final = "default"
#: Opens an account of its own at the simulated provider.
PROVIDER_KEY: Final = "sk_test_simdemo"
SCOPES: Final = ("operations:write", "operations:read", "ledger:read", "drills:write")
#: (e-mail, name, role); passwords are made at the first start.
PEOPLE: Final = (
    ("alice@example.com", "Alice Reviewer", "reviewer"),
    ("bob@example.com", "Bob Reviewer", "reviewer"),
    ("olga@example.com", "Olga Operator", "operator"),
    ("ada@example.com", "Ada Admin", "admin"),
    ("axel@example.com", "Axel Auditor", "auditor"),
    ("vera@example.com", "Vera Viewer", "viewer"),
)
ROBOT: Final = ("robot@example.com", "Demo Robot", "reviewer")


@dataclass(frozen=True)
class Seeded:
    """What the agents need, and the lines that tell people how to sign in."""

    api_key: str
    logins: tuple[str, ...]


def seed(notes: Notes, provider_url: str) -> Seeded:
    """Makes whatever is not there yet."""
    call_command("catalogue", "apply", str(CATALOGUE), stdout=StringIO())
    logins = tuple(_person(notes, *person) for person in PEOPLE)
    _provider_account(provider_url)
    return Seeded(_api_key(notes), logins)


def _person(notes: Notes, email: str, name: str, role: str) -> str:
    password = notes.get(f"password of {email}")
    user = User.objects.filter(email=email).first()
    if user is None or password is None:
        password = notes.keep(f"password of {email}", new_password())
        _give_account(user, email, name, role, password)
    return f"  {email:<20} {password:<34} {role}"


def _give_account(user: User | None, email: str, name: str, role: str, password: str) -> None:
    with transaction.atomic(), connection.cursor() as cur:
        if user is None:
            user = User.objects.create_user(email, password, role=role, name=name)
            about = {"user": str(user.id), "role": role}
            audit.note(cur, "user.created", actor="system:demo", data=about)
        else:
            user.set_password(password)
            user.save(update_fields=["password"])
            audit.note(cur, "user.password_set", actor="system:demo", data={"user": str(user.id)})


def _api_key(notes: Notes) -> str:
    token = notes.get("api key")
    if token is not None and ApiKey.objects.filter(digest=api_keys.digest_of(token)).exists():
        return token
    _, token = api_keys.create(
        "demo agents", environment=ENVIRONMENT, namespace=NAMESPACE, scopes=SCOPES
    )
    return notes.keep("api key", token)


def _provider_account(provider_url: str) -> None:
    found = ProviderAccount.objects.filter(
        environment=ENVIRONMENT, namespace=NAMESPACE, name="stripe"
    ).first()
    if found is None:
        accounts.create_account(
            "stripe",
            environment=ENVIRONMENT,
            namespace=NAMESPACE,
            name="stripe",
            document={"secret_key": PROVIDER_KEY, "base_url": provider_url},
        )
    elif found.config.get("base_url") != provider_url:
        # Another program took the port of the last run.
        found.config = {**found.config, "base_url": provider_url}
        found.save(update_fields=["config"])


def robot_reviewer(notes: Notes) -> tuple[str, Path] | None:
    """The robot's token and SSH key, once somebody else has enrolled a key; None before.

    The first key of an installation needs nobody's word for it, and that is the visitor's.
    """
    others = ReviewerKey.objects.exclude(user__email=ROBOT[0])
    if not others.filter(revoked_at=None).exists():
        return None
    key = notes.folder / "robot_ed25519"
    if notes.get("robot token") is None or not key.exists():
        _person(notes, *ROBOT)
        _enrol(key)
        out = StringIO()
        call_command("create_reviewer_token", ROBOT[0], stdout=out)
        notes.keep("robot token", out.getvalue().strip())
    return notes.get("robot token") or "", key


def _enrol(path: Path) -> None:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    private = Ed25519PrivateKey.generate()
    path.touch(mode=0o600)
    path.write_bytes(
        private.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.OpenSSH,
            serialization.NoEncryption(),
        )
    )
    public = path.with_suffix(".pub")
    public.write_bytes(
        private.public_key().public_bytes(
            serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
        )
    )
    call_command("enrol_key", ROBOT[0], ssh_key=public, name="demo robot", stdout=StringIO())
