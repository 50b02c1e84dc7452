"""Who may call the server, and how often."""
