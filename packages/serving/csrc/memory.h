#pragma once
#define PY_SSIZE_T_CLEAN
#include <Python.h>

namespace proa::serving {

/// `Memory(size, skip)`: a writable buffer whose byte at `skip` is aligned for any element.
///
/// Blocks are kept when they are freed, for the next of about their size: a fresh one of some
/// hundred KiB costs more in page faults than it does to receive as many bytes into it. They are
/// not zeroed. Used with Python's lock held.
extern PyType_Spec memory_spec;
extern PyTypeObject* memory_type;

/// Memory(size, skip), and where it starts; null with a Python error.
PyObject* new_memory(Py_ssize_t size, Py_ssize_t skip, char** start);

}  // namespace proa::serving
