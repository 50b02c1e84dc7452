#include "memory.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include <vector>

namespace proa::serving {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kUnit = 1 << 16;            // sizes are rounded up to it, so that blocks fit again
constexpr size_t kMaxFreeBytes = 64u << 20;  // bytes of all blocks in the free list
constexpr size_t kMaxBlocks = 64;
constexpr time_t kSeconds = 3;  // after which a block is freed

struct Block {
  char* start;
  size_t size;
  time_t since;  // seconds of the monotonic clock, when it was released
};

/// Blocks that nothing uses, in the order in which they were released.
struct FreeList {
  std::vector<Block> blocks;
  size_t bytes = 0;
};

FreeList& free_list() {
  static FreeList* list = new FreeList;  // outlives every Memory
  return *list;
}

Block take(size_t size) {
  FreeList& pool = free_list();
  for (size_t at = pool.blocks.size(); at-- > 0;) {
    const Block found = pool.blocks[at];
    if (found.size < size || found.size > size + size / 4) continue;
    pool.blocks.erase(pool.blocks.begin() + static_cast<ptrdiff_t>(at));
    pool.bytes -= found.size;
    return found;
  }
  return {static_cast<char*>(aligned_alloc(kAlignment, size)), size, 0};
}

time_t seconds() {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return now.tv_sec;
}

/// Frees blocks of sizes that no request had for a while, which would stay for ever.
void free_unused(FreeList& pool, time_t now) {
  size_t count = 0;
  while (count < pool.blocks.size() && now - pool.blocks[count].since > kSeconds) {
    pool.bytes -= pool.blocks[count].size;
    free(pool.blocks[count++].start);
  }
  pool.blocks.erase(pool.blocks.begin(), pool.blocks.begin() + static_cast<ptrdiff_t>(count));
}

void give_back(Block block) {
  FreeList& pool = free_list();
  block.since = seconds();
  free_unused(pool, block.since);
  if (pool.blocks.size() >= kMaxBlocks || pool.bytes + block.size > kMaxFreeBytes) {
    free(block.start);
    return;
  }
  pool.blocks.push_back(block);
  pool.bytes += block.size;
}

struct Memory {
  PyObject_HEAD Block block;
  char* start;
  Py_ssize_t size;
};

Memory* allocate(PyTypeObject* type, Py_ssize_t size, Py_ssize_t skip) {
  constexpr Py_ssize_t kMax = PY_SSIZE_T_MAX / 2;
  if (size < 0 || skip < 0 || size > kMax) {
    PyErr_Format(PyExc_ValueError, "[Memory] expected sizes of 0 or more, got %zd and %zd", size,
                 skip);
    return nullptr;
  }
  auto* self = reinterpret_cast<Memory*>(type->tp_alloc(type, 0));
  if (self == nullptr) return nullptr;
  const size_t wanted = (static_cast<size_t>(size) + kAlignment + kUnit - 1) / kUnit * kUnit;
  self->block = take(wanted);
  if (self->block.start == nullptr) {
    Py_DECREF(self);
    PyErr_NoMemory();
    return nullptr;
  }
  const size_t over = static_cast<size_t>(skip) % kAlignment;
  self->start = self->block.start + (over ? kAlignment - over : 0);
  self->size = size;
  return self;
}

PyObject* memory_new(PyTypeObject* type, PyObject* args, PyObject*) {
  Py_ssize_t size, skip;
  if (!PyArg_ParseTuple(args, "nn:Memory", &size, &skip)) return nullptr;
  return reinterpret_cast<PyObject*>(allocate(type, size, skip));
}

void memory_dealloc(Memory* self) {
  PyTypeObject* type = Py_TYPE(self);
  if (self->block.start != nullptr) give_back(self->block);
  type->tp_free(self);
  Py_DECREF(type);
}

int memory_get_buffer(Memory* self, Py_buffer* view, int flags) {
  return PyBuffer_FillInfo(view, reinterpret_cast<PyObject*>(self), self->start, self->size, 0,
                           flags);
}

PyType_Slot slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(memory_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(memory_dealloc)},
    {Py_bf_getbuffer, reinterpret_cast<void*>(memory_get_buffer)},
    {Py_tp_doc, const_cast<char*>("Memory(size, skip): a buffer aligned at skip.")},
    {0, nullptr}};

}  // namespace

PyTypeObject* memory_type = nullptr;

PyObject* new_memory(Py_ssize_t size, Py_ssize_t skip, char** start) {
  Memory* found = allocate(memory_type, size, skip);
  if (found != nullptr) *start = found->start;
  return reinterpret_cast<PyObject*>(found);
}

PyType_Spec memory_spec = {"proa_serving._native.Memory", sizeof(Memory), 0, Py_TPFLAGS_DEFAULT,
                           slots};

}  // namespace proa::serving
