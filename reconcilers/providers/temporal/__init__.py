"""Temporal: workflows and activities, by describe and by history."""

from reconcilers.providers.temporal.provider import TemporalProvider

provider = TemporalProvider()

__all__ = ["provider"]
