"""Graphs of other frameworks as Layers: what their importers share."""
