"""HTTP: one declared GET against any JSON interface."""

from reconcilers.providers.http.provider import HttpProvider

provider = HttpProvider()

__all__ = ["provider"]
