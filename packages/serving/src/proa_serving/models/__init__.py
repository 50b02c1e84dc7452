"""Models being served, where they come from, and the requests they serve."""
