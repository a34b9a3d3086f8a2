"""The HTTP contract for agent runtimes (`/api/v1`): shapes, answers, waiting. Rules live below."""
