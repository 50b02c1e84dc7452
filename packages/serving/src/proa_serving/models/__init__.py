"""Models being served, where they come from, and what can be asked of them."""
