"""Server-sent events for the console: what changed, never what it says."""
