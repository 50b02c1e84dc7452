"""The REST front end."""
