#include "outbox.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

namespace proa::serving {
namespace {

constexpr size_t kParts = 16;  // in one call of the kernel

ssize_t send_parts(int fd, struct iovec* parts, size_t count, size_t bytes) {
  struct msghdr message;
  memset(&message, 0, sizeof message);
  message.msg_iov = parts;
  message.msg_iovlen = count;
  ssize_t sent;
  if (bytes <= Outbox::kLong) return sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  int error;
  Py_BEGIN_ALLOW_THREADS;
  sent = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  error = errno;
  Py_END_ALLOW_THREADS;
  errno = error;
  return sent;
}

}  // namespace

bool Outbox::put(PyObject* part) {
  Py_buffer view;
  if (PyObject_GetBuffer(part, &view, PyBUF_SIMPLE) != 0) return false;
  if (view.len == 0) {
    PyBuffer_Release(&view);
    return true;
  }
  size_ += static_cast<size_t>(view.len);
  chunks_.push_back({view, 0});
  return true;
}

Outbox::Result Outbox::flush(int fd) {
  while (!chunks_.empty()) {
    struct iovec parts[kParts];
    size_t count = 0, bytes = 0;
    for (const Chunk& chunk : chunks_) {
      if (count == kParts) break;
      const size_t left = static_cast<size_t>(chunk.view.len) - chunk.sent;
      parts[count++] = {static_cast<char*>(chunk.view.buf) + chunk.sent, left};
      bytes += left;
    }
    const ssize_t sent = send_parts(fd, parts, count, bytes);
    if (sent < 0) {
      if (errno == EINTR) continue;
      return errno == EAGAIN || errno == EWOULDBLOCK ? Result::kWaits : Result::kFailed;
    }
    drop(static_cast<size_t>(sent));
    if (static_cast<size_t>(sent) < bytes) return Result::kWaits;
  }
  return Result::kDone;
}

void Outbox::drop(size_t count) {
  size_ -= count;
  while (count) {
    Chunk& first = chunks_.front();
    const size_t left = static_cast<size_t>(first.view.len) - first.sent;
    if (count < left) {
      first.sent += count;
      return;
    }
    count -= left;
    PyBuffer_Release(&first.view);
    chunks_.pop_front();
  }
}

void Outbox::clear() {
  for (Chunk& chunk : chunks_) PyBuffer_Release(&chunk.view);
  chunks_.clear();
  size_ = 0;
}

}  // namespace proa::serving
