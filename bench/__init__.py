"""Benchmarks of the speed goals: the product over HTTP, and raw SQL beside it, in one run."""
