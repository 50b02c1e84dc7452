#pragma once
// Access to thread-local variables.

namespace proa {

/// The given thread-local variable, its address computed once. In a shared library that takes a
/// call of __tls_get_addr, which the compiler would otherwise repeat at each access; the empty asm
/// hides from it that the address can be computed again.
template <class T>
T& of_this_thread(T& variable) {
  T* address = &variable;
  asm("" : "+r"(address));
  return *address;
}

}  // namespace proa
