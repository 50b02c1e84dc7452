"""What recorded graphs and their inputs are described with."""

from proa.jit.input_spec import InputSpec

__all__ = ["InputSpec"]
