#include "engine.h"
#include "memory.h"

namespace proa::serving {

PyTypeObject* transport_type = nullptr;

namespace {

PyModuleDef definition = {PyModuleDef_HEAD_INIT,
                          "_native",
                          "Sockets of asyncio protocols, and memory for what they receive.",
                          -1,
                          nullptr,
                          nullptr,
                          nullptr,
                          nullptr,
                          nullptr};

}  // namespace
}  // namespace proa::serving

PyMODINIT_FUNC PyInit__native() {
  using namespace proa::serving;
  PyObject* module = PyModule_Create(&definition);
  if (module == nullptr) return nullptr;
  PyObject* engine = PyType_FromSpec(&engine_spec);
  PyObject* transport = PyType_FromSpec(&transport_spec);
  PyObject* memory = PyType_FromSpec(&memory_spec);
  if (engine == nullptr || transport == nullptr || memory == nullptr ||
      PyModule_AddObjectRef(module, "Memory", memory) != 0 ||
      PyModule_AddObjectRef(module, "Engine", engine) != 0 ||
      PyModule_AddObjectRef(module, "Transport", transport) != 0) {
    Py_XDECREF(engine);
    Py_XDECREF(transport);
    Py_XDECREF(memory);
    Py_DECREF(module);
    return nullptr;
  }
  transport_type = reinterpret_cast<PyTypeObject*>(transport);  // kept for the process
  Py_DECREF(engine);
  Py_DECREF(memory);
  return module;
}
