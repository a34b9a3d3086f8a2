"""Postmark: sent mail by message id, and by a search of its log."""

from reconcilers.providers.postmark.provider import PostmarkProvider

provider = PostmarkProvider()

__all__ = ["provider"]
