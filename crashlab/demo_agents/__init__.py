"""Agents for the demo: real processes on the SDK, with a seeded run of good and bad luck."""
