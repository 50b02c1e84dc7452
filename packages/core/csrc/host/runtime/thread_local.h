#pragma once
// Access to variables of a thread.

namespace proa {

/// The variable of this thread. Its address costs a call of the C library in a shared module, which
/// the compiler repeats rather than keep the result: here it cannot know that it would be the same.
template <class T>
T& of_this_thread(T& variable) {
  T* address = &variable;
  asm("" : "+r"(address));
  return *address;
}

}  // namespace proa
