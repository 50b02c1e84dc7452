"""Static mode for the tests that request it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import proa
from proa import static


@pytest.fixture
def static_mode() -> Iterator[tuple[static.Program, static.Program]]:
    """Static mode, with programs, names and a scope of the test's own."""
    main, startup = static.Program(), static.Program()
    proa.enable_static()
    try:
        with (
            static.program_guard(main, startup),
            static.scope_guard(static.Scope()),
            proa.utils.unique_name.guard(),
        ):
            yield main, startup
    finally:
        proa.disable_static()
