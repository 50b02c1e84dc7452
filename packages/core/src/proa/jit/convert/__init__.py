"""Python's control flow on tensors, rewritten so that it can be recorded.

A function is recorded by calling it once with symbols, which have no values: an ``if``
on one cannot choose. So what is called is a function made of the user's, of which every
branch and loop became functions that the runtime may call, to record each once:

    if x.sum() > 0:              def _if_1():
        y = x + 1                    nonlocal y
    else:                            y = x + 1
        y = x - 1      ->        def _else_1():
    return y                         nonlocal y
                                     y = x - 1
                                 _proa.if_else(x.sum() > 0, _if_1, _else_1, ('y',))
                                 return y

The new functions share the variables of the old one (`nonlocal`), that is their cells.
The runtime reads and writes cells: nothing is passed, and a variable that has no value
is an empty cell, which Python itself reports when it is read. If a condition is no
symbol, the runtime does what Python does.

If it is one, `jit.flow` records the functions as blocks. Both branches must leave the
same kind of value in each variable that is live (`liveness`): equal Python values stay
such, numbers that differ become tensors (`lattice`). The abstract values are known when
the second branch has been recorded; if the first does not fit, both are retraced.
Early returns, `break` and `continue` become flags first (`early_exits`).

Calls in rewritten code look up what to call (`calls`): users' functions and `forward`
of their Layers are rewritten likewise, those of libraries are not; a function whose
source cannot be found is called as it is. Lines are those of the user's file, in errors
and for the debugger (`source`). Code is rewritten once, functions share it.
"""

from proa.jit.convert.calls import code_of, converted, recordable

__all__ = ["code_of", "converted", "recordable"]
