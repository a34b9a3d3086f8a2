"""A gate without limits: the provider's own tests bring no engine and no Redis."""

from datetime import UTC, datetime, timedelta

from reconcilers.providers.base import ProviderError


class OpenGate:
    """Always somebody's turn; counts what passes. `ahead` moves its clock."""

    def __init__(self) -> None:
        self.turns: list[str] = []
        self.failures: list[ProviderError] = []
        self.ahead = timedelta(0)

    def now(self) -> datetime:
        return datetime.now(UTC) + self.ahead

    async def turn(self, endpoint: str) -> None:
        self.turns.append(endpoint)

    async def answered(self, endpoint: str) -> None:
        return

    async def failed(self, endpoint: str, error: ProviderError) -> None:
        self.failures.append(error)
