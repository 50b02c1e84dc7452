#pragma once
// Operators of extensions: shared libraries written against proa/extension.h.
#include <memory>
#include <string>
#include <vector>

#include "proa/base/op_table.h"
#include "proa/extension_abi.h"
#include "proa/runtime/storage.h"

namespace proa {

/// The value of an attribute: one of the lists, of one element unless its type is a vector.
struct ExtensionValue {
  int kind = 0;  // PROA_ATTRIBUTE_...
  std::vector<int64_t> ints;
  std::vector<double> floats;
  std::vector<std::string> texts;
};

struct ExtensionInput {
  enum Kind : uint8_t { kOne, kVector, kOptional };
  std::string name;
  Kind kind = kOne;
};

struct ExtensionAttribute {
  std::string name;
  std::string type;  // bool int float text, or list of int, float, text
  int kind = 0;      // PROA_ATTRIBUTE_...
  bool list = false;
};

/// An operator of an extension. It lives as long as the process.
struct ExtensionOp {
  const ProaOperator* abi = nullptr;
  std::string name;
  std::vector<ExtensionInput> inputs;
  std::vector<ExtensionInput> outputs;
  std::vector<ExtensionAttribute> attributes;
  ExtraOp row;             // how plans see it
  bool plannable = false;  // has a row: a fixed number of outputs
  /// The operator of its gradient, or null.
  const ExtensionOp* grad() const;
};

/// Opens a shared library and registers its operators. The same path twice registers once; an
/// operator of the same name as one before takes its place. Throws Error: kUnavailable if it cannot
/// be opened or is of another ABI version, kInvalidArgument if an operator is declared wrongly.
std::vector<const ExtensionOp*> load_extension(const std::string& path);
/// Registers an operator of this process, which must live as long. Throws as `load_extension`.
const ExtensionOp* register_operator(const ProaOperator& op);
/// What operators call.
const ProaHost& extension_host();
const ExtensionOp* find_extension_op(const std::string& name);

/// Tensors that an operator returned; owns their memory.
struct ExtensionResults {
  std::vector<ProaTensor> tensors;
  ExtensionResults() = default;
  ExtensionResults(ExtensionResults&& other) noexcept : tensors(std::move(other.tensors)) {
    other.tensors.clear();
  }
  ExtensionResults(const ExtensionResults&) = delete;
  ExtensionResults& operator=(const ExtensionResults&) = delete;
  ~ExtensionResults();
};

/// Calls the operator (or its inference). Inputs are row-major; throws Error with its message.
ExtensionResults call_extension(const ExtensionOp& op, const ProaTensor* tensors,
                                const std::vector<int64_t>& counts,
                                const std::vector<uint8_t>& attributes, bool infer);

/// The attributes as the operator reads them.
std::vector<uint8_t> pack_values(const std::vector<ExtensionValue>& values);
/// Counts and attributes as a model file and a plan hold them: the attribute struct of the row.
std::vector<uint8_t> pack_struct(const std::vector<int64_t>& counts,
                                 const std::vector<uint8_t>& attributes);
/// Why the last planned run of an extension's operator on this thread failed; empty if none did.
std::string take_extension_failure();

}  // namespace proa
