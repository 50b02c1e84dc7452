"""Programs of Paddle 1.x (`paddle.fluid`) rewritten for Paddle 2.x and Proa.

`rewrite` takes and gives source code; the command `proa migrate` does so with files.
Names and their arguments are those of the table `names.tsv`. Formatting and comments
stay. What has no equal in 2.x is called in `proa.migrate.fluid`. Source code is read by
libcst: ``pip install "proa[migrate]"``.
"""

import importlib as _importlib
import typing as _typing

from proa.base.public import publish as _publish
from proa.errors import UnavailableError as _UnavailableError
from proa.migrate.table import Row, rows

if _typing.TYPE_CHECKING:
    from proa.migrate import fluid as fluid
    from proa.migrate.files import File as File
    from proa.migrate.files import migrate as migrate
    from proa.migrate.files import report_page as report_page
    from proa.migrate.rewriter import Finding as Finding
    from proa.migrate.rewriter import Rewritten as Rewritten
    from proa.migrate.rewriter import rewrite as rewrite

#: Names of modules that need libcst.
_LAZY = {
    "File": "files", "Finding": "rewriter", "Rewritten": "rewriter",
    "migrate": "files", "report_page": "files", "rewrite": "rewriter",
}  # fmt: skip

__all__ = ["Row", "rows", *_LAZY]


def __getattr__(name: str) -> _typing.Any:
    if name == "fluid":  # for rewritten programs alone; without libcst
        return _importlib.import_module("proa.migrate.fluid")
    if name not in _LAZY:
        raise AttributeError(f"module 'proa.migrate' has no attribute {name!r}")
    try:
        module = _importlib.import_module(f"proa.migrate.{_LAZY[name]}")
    except ModuleNotFoundError as error:
        if error.name != "libcst":
            raise
        raise _UnavailableError(
            '[migrate] expected the package libcst: pip install "proa[migrate]"'
        ) from error
    globals()[name] = getattr(module, name)
    _publish(__name__)
    return globals()[name]


def __dir__() -> list[str]:
    return __all__


_publish(__name__)
