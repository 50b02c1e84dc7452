#include "python.h"

namespace proa::bind {

PyMethodDef dlpack_methods[] = {{nullptr, nullptr, 0, nullptr}};

}  // namespace proa::bind
