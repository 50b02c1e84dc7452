"""What the tests of every package share."""

from __future__ import annotations

import signal


def pytest_configure() -> None:
    # A runner that was started in the background ignores Ctrl-C, and the programs that
    # tests interrupt would inherit that.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
