"""Observes requests: statistics, traces, a timeline, a log, and a page to look at."""
