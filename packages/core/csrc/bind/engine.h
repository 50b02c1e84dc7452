#pragma once
#include <pybind11/pybind11.h>

namespace proa {

/// Adds Engine to the module.
void bind_engine(pybind11::module_& m);

}  // namespace proa
