"""Report mode: batches of what already happened (design: the HTTP contract, "Records")."""
