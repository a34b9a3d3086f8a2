"""The product under test: a whole instance of its own, empty, in a temporary folder."""

import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from uuid import uuid4

import psycopg

from bench.generators import Target
from tests.support.product import Product

_SCOPES = ["operations:write", "operations:read"]


@dataclass(frozen=True, kw_only=True)
class Running:
    """A running product: over HTTP, and its database for set-up and raw SQL."""

    product: Product
    database_url: str
    port: int
    folder: Path

    def target(self, environment: str = "test", namespace: str = "default") -> Target:
        """A new key and where to use it."""
        token = f"cs_{environment}_{secrets.token_urlsafe(32)}"
        with psycopg.connect(self.database_url, autocommit=True) as connection:
            connection.execute(
                "INSERT INTO operations_apikey (id, environment, namespace, name, scopes, digest,"
                " token_prefix, created_at) VALUES (%s, %s, %s, 'bench', %s, %s, %s, now())",
                [
                    uuid4(),
                    environment,
                    namespace,
                    _SCOPES,
                    sha256(token.encode()).digest(),
                    token[:9],
                ],
            )
        return Target(host="127.0.0.1", port=self.port, key=token)


@contextmanager
def running() -> Iterator[Running]:
    """Start it, and stop it whatever happens."""
    with tempfile.TemporaryDirectory(prefix="countersign-bench-") as folder:
        product = Product(Path(folder) / "data")
        product.start(demo=False)
        try:
            instance = product.instance
            yield Running(
                product=product,
                database_url=instance.database_url,
                port=instance.port,
                folder=product.data.path,
            )
        finally:
            product.stop()
