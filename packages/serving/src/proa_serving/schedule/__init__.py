"""Queues requests, batches them, and runs them on worker threads."""
