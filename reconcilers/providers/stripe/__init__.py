"""Stripe: by id, by a window of a list, and by search."""

from reconcilers.providers.stripe.provider import StripeProvider

provider = StripeProvider()

__all__ = ["provider"]
