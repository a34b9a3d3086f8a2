"""The demo: what it is seeded with, and the agents that it keeps running."""
