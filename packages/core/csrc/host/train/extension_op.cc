#include "proa/train/extension_op.h"

#include <cstring>
#include <numeric>

#include "proa/runtime/error.h"
#include "proa/train/dispatch.h"
#include "proa/train/promote.h"
#include "proa/train/run.h"
#include "proa/train/tape.h"
#include "proa/train/watch.h"

namespace proa {

ExtensionRecorder extension_recorder = nullptr;

namespace {

constexpr const char* kGrad = "@GRAD";

// Where an input of a gradient comes from: an input or output of the operator, or an output's
// gradient.
struct Source {
  enum Kind : uint8_t { kInput, kOutput, kOutputGrad } kind;
  size_t index;
};

Source source_of(const ExtensionOp& op, const ExtensionOp& grad, const std::string& name) {
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    if (op.inputs[i].name == name) return {Source::kInput, i};
  }
  for (size_t i = 0; i < op.outputs.size(); ++i) {
    if (op.outputs[i].name == name) return {Source::kOutput, i};
    if (op.outputs[i].name + kGrad == name) return {Source::kOutputGrad, i};
  }
  throw Error(ErrorKind::kInvalidArgument,
              "[" + grad.name + "] an input must be one of " + op.name +
                  "'s inputs or outputs, or an output's gradient, got " + name);
}

// The input of the operator whose gradient an output of the gradient's operator is.
size_t target_of(const ExtensionOp& op, const ExtensionOp& grad, const std::string& name) {
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    if (op.inputs[i].name + kGrad == name) return i;
  }
  throw Error(ErrorKind::kInvalidArgument, "[" + grad.name +
                                               "] an output must be the gradient of " +
                                               "an input of " + op.name + ", got " + name);
}

// The backward of one call: calls the operator of the gradient.
class ExtensionBackward final : public CustomBackward {
 public:
  ExtensionBackward(const ExtensionOp& op, const ExtensionOp& grad, std::vector<int64_t> counts,
                    std::vector<ExtensionValue> values)
      : op_(op), grad_(grad), counts_(std::move(counts)), values_(std::move(values)) {
    first_.resize(counts_.size() + 1, 0);
    std::partial_sum(counts_.begin(), counts_.end(), first_.begin() + 1);
  }

  const char* name() const override { return op_.name.c_str(); }

  // Keeps what the gradient's operator reads; outputs without their place in the graph, or the
  // node would keep itself alive.
  void save(Node* node, const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs) {
    node_ = node;
    for (const ExtensionInput& input : grad_.inputs) {
      const Source source = source_of(op_, grad_, input.name);
      std::vector<Saved> list;
      if (source.kind == Source::kInput) {
        for (int64_t k = first_[source.index]; k < first_[source.index + 1]; ++k) {
          list.push_back(saved(inputs[static_cast<size_t>(k)]));
        }
      } else if (source.kind == Source::kOutput) {
        list.push_back(saved(detach(outputs[source.index])));
      }
      saved_.push_back(std::move(list));
    }
  }

  void run(std::vector<Tensor>& grads, std::vector<Tensor>* result) override {
    if (freed_) raise_freed(op_.name);
    std::vector<Tensor> inputs;
    std::vector<int64_t> counts;
    for (size_t i = 0; i < grad_.inputs.size(); ++i) {
      const Source source = source_of(op_, grad_, grad_.inputs[i].name);
      if (source.kind == Source::kOutputGrad) {
        inputs.push_back(grads[source.index]);
        counts.push_back(1);
        continue;
      }
      for (const Saved& s : saved_[i]) inputs.push_back(read(s, source));
      counts.push_back(static_cast<int64_t>(saved_[i].size()));
    }
    spread(call_operator(grad_, inputs, counts, own_values()), result);
  }

  void free_saved() override {
    saved_.clear();
    freed_ = true;
  }

 private:
  static Saved saved(Tensor x) {
    Saved s;
    s.version = x->version();
    s.value = std::move(x);
    return s;
  }

  Tensor read(const Saved& s, const Source& source) const {
    if (s.value->version() != s.version) {
      throw Error(ErrorKind::kPreconditionNotMet, "[backward] a tensor saved by op " + op_.name +
                                                      " was modified in place: version " +
                                                      std::to_string(s.value->version()) +
                                                      ", expected " + std::to_string(s.version));
    }
    if (source.kind != Source::kOutput || !grad_enabled()) return s.value;
    Tensor output = detach(s.value);  // the graph of the gradient begins here
    node_->retain();
    output->grad_fn = node_;
    output->output = static_cast<uint16_t>(source.index);
    output->set(TensorImpl::kStopGradient, false);
    return output;
  }

  // Attributes of the gradient are found by name among the operator's.
  std::vector<ExtensionValue> own_values() const {
    std::vector<ExtensionValue> list;
    for (const ExtensionAttribute& wanted : grad_.attributes) {
      size_t at = 0;
      while (at < op_.attributes.size() && op_.attributes[at].name != wanted.name) ++at;
      if (at == op_.attributes.size()) {
        throw Error(ErrorKind::kInvalidArgument, "[" + grad_.name +
                                                     "] an attribute must be one of " + op_.name +
                                                     "'s, got " + wanted.name);
      }
      list.push_back(values_[at]);
    }
    return list;
  }

  // Outputs of the gradient's operator to the inputs they are the gradients of.
  void spread(std::vector<Tensor> given, std::vector<Tensor>* result) const {
    result->assign(static_cast<size_t>(first_.back()), Tensor());
    size_t at = 0;
    for (const ExtensionInput& output : grad_.outputs) {
      const size_t target = target_of(op_, grad_, output.name);
      for (int64_t k = first_[target]; k < first_[target + 1]; ++k) {
        if (at == given.size()) break;
        (*result)[static_cast<size_t>(k)] = std::move(given[at++]);
      }
    }
    if (at != given.size()) {
      throw Error(ErrorKind::kInvalidArgument, "[" + grad_.name +
                                                   "] expected as many gradients as " + op_.name +
                                                   " had inputs, " + std::to_string(at) + ", got " +
                                                   std::to_string(given.size()));
    }
  }

  const ExtensionOp& op_;
  const ExtensionOp& grad_;
  std::vector<int64_t> counts_, first_;
  std::vector<ExtensionValue> values_;
  std::vector<std::vector<Saved>> saved_;  // by input of the gradient
  Node* node_ = nullptr;                   // owns this
  bool freed_ = false;
};

ProaTensor raw(const Tensor& x) {
  ProaTensor t = {};
  std::memcpy(&t.view, &x->view, sizeof t.view);
  t.memory = x->storage;
  return t;
}

Tensor adopt(const ProaTensor& t, const std::vector<Tensor>& inputs) {
  View view;
  std::memcpy(static_cast<void*>(&view), &t.view, sizeof view);
  auto* storage = static_cast<Storage*>(t.memory);
  for (const Tensor& x : inputs) {
    if (x->storage != storage) continue;
    Tensor copy = empty_as(view);  // a result has memory of its own
    copy_into(copy->view, x.get());
    return copy;
  }
  storage->retain();
  return on_storage(storage, view);
}

std::vector<Tensor> compute(const ExtensionOp& op, const std::vector<Tensor>& inputs,
                            const std::vector<int64_t>& counts,
                            const std::vector<ExtensionValue>& values) {
  std::vector<ProaTensor> tensors;
  tensors.reserve(inputs.size());
  for (const Tensor& x : inputs) tensors.push_back(raw(x));
  const Timed timed(op.name.c_str(), EventKind::kKernel);
  const ExtensionResults results =
      call_extension(op, tensors.data(), counts, pack_values(values), false);
  std::vector<Tensor> outputs;
  outputs.reserve(results.tensors.size());
  for (const ProaTensor& t : results.tensors) outputs.push_back(adopt(t, inputs));
  return outputs;
}

void check_results(const ExtensionOp& op, const std::vector<Tensor>& outputs) {
  if (!op.plannable) return;
  View views[kMaxOutputs];
  Call call;
  call.out = views;
  call.n_out = static_cast<int>(outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) views[i] = outputs[i].view();
  check_finite(op.row.info, call, outputs.data());
}

void note(const ExtensionOp& op, const std::vector<Tensor>& inputs,
          const std::vector<int64_t>& counts, const std::vector<ExtensionValue>& values,
          const std::vector<Tensor>& outputs) {
  const ExtensionOp* grad = op.grad();
  if (grad == nullptr || !grad_enabled()) return;
  bool wanted = false;
  for (const Tensor& x : inputs) wanted |= x->requires_grad();
  if (!wanted) return;
  auto custom = std::make_unique<ExtensionBackward>(op, *grad, counts, values);
  ExtensionBackward* backward = custom.get();
  Node* node = Node::create_custom(std::move(custom), static_cast<int>(inputs.size()),
                                   static_cast<int>(outputs.size()));
  backward->save(node, inputs, outputs);
  for (size_t i = 0; i < inputs.size(); ++i) node->connect(static_cast<int>(i), inputs[i].get());
  for (size_t i = 0; i < outputs.size(); ++i) {
    const DType dtype = outputs[i].dtype();
    if (is_floating(dtype) || is_complex(dtype)) node->adopt(static_cast<int>(i), outputs[i].get());
  }
  node->drop();
}

}  // namespace

std::vector<Tensor> call_operator(const ExtensionOp& op, const std::vector<Tensor>& given,
                                  const std::vector<int64_t>& counts,
                                  const std::vector<ExtensionValue>& values) {
  std::vector<Tensor> inputs;
  std::vector<TensorImpl*> watched;
  bool symbolic = false;
  for (const Tensor& x : given) {
    symbolic |= x->has(TensorImpl::kSymbolic);
    inputs.push_back(x->has(TensorImpl::kWeak)
                         ? strong(x.get(), x.dtype() == DType::kF64 ? default_dtype() : x.dtype())
                         : x);
    watched.push_back(inputs.back().get());
  }
  const Timed timed(op.name.c_str(), EventKind::kOp, watched.data(),
                    static_cast<int>(watched.size()));
  std::vector<Tensor> outputs;
  if (symbolic) {
    if (extension_recorder == nullptr) {
      throw Error(ErrorKind::kPreconditionNotMet,
                  "[" + op.name +
                      "] expected a program that is being recorded to use a symbolic tensor, "
                      "got none");
    }
    outputs = extension_recorder(op, inputs, counts, values);
  } else {
    for (Tensor& x : inputs) x = contiguous(x.get());
    outputs = compute(op, inputs, counts, values);
    if (watching(kWatchFinite)) check_results(op, outputs);
  }
  note(op, inputs, counts, values, outputs);
  return outputs;
}

}  // namespace proa
