"""The rows, by family. Importing this package fills `proa.schema.row.ROWS`."""

from proa.schema.ops import (  # noqa: F401
    activation,
    binary,
    conv,
    creation,
    fft,
    index,
    linalg,
    linear,
    loss,
    movement,
    norm,
    optimizer,
    pool,
    quant,
    rand,
    recurrent,
    reduce,
    sampling,
    sort,
    unary,
)
