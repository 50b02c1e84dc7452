"""Sockets: who may connect, for how long, and how a server stops listening."""
