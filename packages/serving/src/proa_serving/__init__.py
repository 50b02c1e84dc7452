"""Serve Proa models over the Open Inference Protocol, version 2.

This module imports nothing, so that ``proa_serving.client`` stays light. The server
is in ``proa_serving.app``, the command in ``proa_serving.cli``.
"""

__version__ = "0.1.0"
