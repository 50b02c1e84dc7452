#pragma once
// Choices of a process that kernels follow. They are made before the first model is prepared and
// stay: prepacked weights depend on them.

namespace proa {

struct Settings {
  bool winograd = true;  // PROA_WINOGRAD=0: every convolution as a direct sum of products
};

inline Settings& settings() {
  static Settings chosen;
  return chosen;
}

}  // namespace proa
