#include "engine.h"
#include "inbox.h"
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
  struct {
    const char* name;
    PyType_Spec* spec;
    PyTypeObject** type;  // kept for the process
  } types[] = {{"Memory", &memory_spec, &memory_type},          {"Engine", &engine_spec, nullptr},
               {"Transport", &transport_spec, &transport_type}, {"Inbox", &inbox_spec, &inbox_type},
               {"Arrival", &arrival_spec, &arrival_type},       {"Lane", &lane_spec, &lane_type}};
  PyObject* module = PyModule_Create(&definition);
  if (module == nullptr) return nullptr;
  for (const auto& each : types) {
    PyObject* type_object = PyType_FromSpec(each.spec);
    if (type_object == nullptr || PyModule_AddObjectRef(module, each.name, type_object) != 0) {
      Py_XDECREF(type_object);
      Py_DECREF(module);
      return nullptr;
    }
    if (each.type == nullptr) {
      Py_DECREF(type_object);
    } else {
      *each.type = reinterpret_cast<PyTypeObject*>(type_object);
    }
  }
  return module;
}
