"""The suites, each a function that yields cases."""
