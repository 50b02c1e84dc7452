#pragma once
// The tape: one node per recorded op, and the engine of the backward pass.
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "proa/runtime/ops.h"
#include "proa/train/tensor.h"

namespace proa {

/// Where the gradient of a node's input goes: to output `index` of a node, or to a leaf tensor.
struct Edge {
  Node* node = nullptr;        // counted
  TensorImpl* leaf = nullptr;  // counted
  uint32_t index = 0;
  bool wanted() const { return node != nullptr || leaf != nullptr; }
};

/// Shape and dtype of an output.
struct OutputMeta {
  int64_t shape[kMaxRank];
  int8_t rank;
  DType dtype;
  std::shared_ptr<void> handle;  // of a symbolic tensor
};

/// A tensor that the gradient rule will read.
struct Saved {
  Tensor value;
  uint32_t version = 0;  // of the storage when it was saved
  bool checked = false;  // false: only the shape is used
  bool own_output = false;
};

/// The backward of a node that is not an op's (PyLayer).
struct CustomBackward {
  virtual ~CustomBackward() = default;
  virtual const char* name() const = 0;
  /// Gradients of the outputs in, of the inputs out (one for each edge).
  virtual void run(std::vector<Tensor>& grads, std::vector<Tensor>* result) = 0;
  virtual void free_saved() {}
  /// Whether `run` gets zeros for outputs that no gradient reached, or null tensors.
  virtual bool wants_zeros() const { return true; }
};

/// A recorded computation. Counted; owned by the tensors it made and the nodes that follow.
class Node {
 public:
  static Node* create(const OpEntry* op, int edges, int saved, int outputs, const void* attrs);
  static Node* create_custom(std::unique_ptr<CustomBackward> custom, int edges, int outputs);

  void retain() { refs_.fetch_add(1, std::memory_order_relaxed); }
  void drop() {
    if (refs_.fetch_sub(1, std::memory_order_acq_rel) == 1) destroy(this);
  }

  const OpEntry* op() const { return op_; }
  const char* name() const;
  uint64_t sequence() const { return sequence_; }
  int edge_count() const { return edges_; }
  int saved_count() const { return saved_; }
  int output_count() const { return outputs_; }
  Edge* edges() { return edge_; }
  OutputMeta* outputs() { return output_; }
  Saved* saved() { return save_; }
  const void* attrs() const { return attrs_; }
  CustomBackward* custom() { return custom_.get(); }

  /// Points edge i to the target of x's gradient; no edge if x requires none.
  void connect(int i, TensorImpl* x);
  /// Describes output i and makes x that output.
  void adopt(int i, TensorImpl* x);
  /// Frees saved tensors; a later backward through the node is an error if it had some.
  void free_saved();
  bool freed() const { return freed_; }
  /// The user's line that recorded the node; empty unless lines are watched.
  const std::string& created_at() const;
  /// Results of its backward are not searched for NaN, as those of its forward were not.
  bool unchecked() const { return unchecked_; }

  struct OutputHook {
    int output;
    std::shared_ptr<GradHook> hook;
  };
  struct Retained {
    int output;
    TensorImpl* tensor;  // borrowed: the tensor removes itself when it is destroyed
  };
  std::vector<OutputHook>* hooks() { return hooks_.get(); }
  std::vector<Retained>* retained() { return retained_.get(); }
  void add_hook(int output, std::shared_ptr<GradHook> hook);
  void retain_grad(int output, TensorImpl* tensor);
  void forget_retained(TensorImpl* tensor);

 private:
  static Node* allocate_node(int edges, int saved, int outputs, size_t attr_bytes);
  static void destroy(Node* node);
  void destroy_now();

  std::atomic<int32_t> refs_{1};
  uint16_t edges_ = 0, saved_ = 0, outputs_ = 0;
  bool freed_ = false, unchecked_ = false;
  const OpEntry* op_ = nullptr;
  uint64_t sequence_ = 0;
  size_t capacity_ = 0;
  Edge* edge_ = nullptr;
  OutputMeta* output_ = nullptr;
  Saved* save_ = nullptr;
  void* attrs_ = nullptr;
  std::unique_ptr<CustomBackward> custom_;
  std::unique_ptr<std::vector<OutputHook>> hooks_;
  std::unique_ptr<std::vector<Retained>> retained_;
  std::unique_ptr<std::string> created_at_;
  Node* next_dead_ = nullptr;
};

/// Records the call on the tape: makes `out` the outputs of a new node. `before` holds, for an
/// in-place form, what to save in place of in[i] (null where in[i] itself is right); may be null.
void record_node(const OpEntry& entry, TensorImpl* const* in, int n_in, const void* attrs,
                 Tensor* out, int n_out, TensorImpl* const* before = nullptr);
/// True if grad mode is on and some input takes a gradient.
bool needs_node(TensorImpl* const* in, int n_in);
/// Throws if x is a recorded view whose memory was since changed through another tensor.
void check_view(const OpEntry& entry, const TensorImpl* x);

/// Whether the backward pass of this thread retains the graph.
bool retains_graph();
/// Throws the error of a second backward pass through `name`, whose saved tensors are freed.
[[noreturn]] void raise_freed(const std::string& name);

struct BackwardOptions {
  bool retain_graph = false;
  bool create_graph = false;
};

/// Adds the gradients of `roots` to the leaves' `grad`. An empty gradient means ones (of a root
/// with one element, else an error).
void backward(const std::vector<Tensor>& roots, const std::vector<Tensor>& grads,
              BackwardOptions options);

struct GradOptions {
  bool retain_graph = false;
  bool create_graph = false;
  bool only_inputs = true;  // false: leaves' `grad` are added to as well
  bool allow_unused = false;
  std::vector<Tensor> no_grad;  // the gradient stops at these
};

/// Gradients of `outputs` with respect to `inputs` (empty tensors for unused ones if allowed).
std::vector<Tensor> grad(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                         const std::vector<Tensor>& grads, const GradOptions& options);

}  // namespace proa
