#pragma once
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <deque>

namespace proa::serving {

/// What a socket has not taken yet: buffers of Python objects, which are held until it has.
///
/// Used with Python's lock held. Does not own the socket.
class Outbox {
 public:
  enum class Result { kDone, kWaits, kFailed };
  // More than this is sent without Python's lock: copying it takes longer than to hand that over.
  static constexpr size_t kLong = 1 << 16;

  Outbox() = default;
  Outbox(const Outbox&) = delete;
  Outbox& operator=(const Outbox&) = delete;
  ~Outbox() { clear(); }

  size_t size() const { return size_; }
  /// Holds the bytes of `part`; false, with a Python error, if it has none.
  bool put(PyObject* part);
  /// Writes until the socket takes no more. kFailed leaves errno.
  Result flush(int fd);
  void clear();

 private:
  struct Chunk {
    Py_buffer view;
    size_t sent;
  };
  void drop(size_t count);

  std::deque<Chunk> chunks_;
  size_t size_ = 0;
};

}  // namespace proa::serving
