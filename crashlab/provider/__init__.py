"""A payment provider of our own: Stripe-compatible where the `stripe` SDK looks, with switchable
faults and a durable book of effects, which is the judge in every test."""
