// The backward pass over the tape. A node is recorded after the nodes whose outputs it reads, so
// the reverse order of recording is one in which every gradient is complete before it is used.
#include <algorithm>
#include <cstring>

#include "proa/gen/ops.h"
#include "proa/runtime/error.h"
#include "proa/shapes/layout.h"
#include "proa/train/dispatch.h"
#include "proa/train/edge_gradient.h"
#include "proa/train/grad_call.h"
#include "proa/train/row_sparse.h"
#include "proa/train/run.h"
#include "proa/train/tape.h"
#include "proa/train/watch.h"

namespace proa {

namespace {

thread_local bool t_retain_graph = false;

// True if no other tensor refers to the tensor's memory.
bool exclusive(const Tensor& x) {
  return x->refs.load(std::memory_order_acquire) == 1 && x->storage != nullptr &&
         x->storage->unique() && !x->storage->foreign() && x->leaf();
}

void add_inplace(const Tensor& sum, const Tensor& x) {
  const KeepLock keep;
  View in[2] = {sum.view(), x.view()}, out = sum.view();
  Call call;
  call.in = in;
  call.out = &out;
  call.n_in = 2;
  call.n_out = 1;
  run_kernel(op_entries()[static_cast<int>(OpId::add)], &call);
  sum->storage->bump_version();
}

void add_to_slot(Tensor* slot, Tensor grad, bool create_graph) {
  if (!*slot) {
    *slot = std::move(grad);
  } else if (is_row_sparse(slot->get()) && is_row_sparse(grad.get())) {
    *slot = joined(*slot, grad);
  } else if (!create_graph && !grad->has(TensorImpl::kSymbolic) && exclusive(*slot) &&
             is_dense(slot->view())) {
    add_inplace(*slot, dense(grad));
  } else {
    *slot = ops::add(*slot, grad);
  }
}

// Adds to the leaf's `grad`.
void accumulate_grad(TensorImpl* leaf, Tensor grad, bool create_graph) {
  Tensor& have = leaf->extra().grad;
  leaf->set(TensorImpl::kZeroGrad, false);
  if (leaf->has(TensorImpl::kSymbolic)) leaf->set(TensorImpl::kGradAdded, true);
  if (is_row_sparse(grad.get()) && !create_graph) {
    if (!have || is_row_sparse(have.get())) {
      have = have ? joined(have, grad) : std::move(grad);
      return;
    }
    grad = dense(grad);
  }
  if (grad->has(TensorImpl::kSymbolic) || create_graph) {
    have = have ? ops::add(have, grad) : std::move(grad);
    return;
  }
  if (have && have->storage != nullptr && !have->requires_grad() &&
      same_shape(grad.view(), meta_of(have.get())) && have.dtype() == grad.dtype() &&
      is_dense(have.view())) {
    return add_inplace(have, grad);
  }
  if (have) {
    have = ops::add(have, grad);
    return;
  }
  if (exclusive(grad) && is_dense(grad.view())) {
    have = std::move(grad);
    return;
  }
  View layout = grad.view();
  if (!is_dense(layout)) layout.set_contiguous();
  have = empty_as(layout);
  copy_into(have->view, grad.get());
}

// Gradients collected for one node or leaf.
struct Task {
  Node* node = nullptr;
  TensorImpl* leaf = nullptr;
  int pending_edges = 0;  // of a leaf: edges whose gradient has not been added yet
  bool needed = true;
  Tensor first;
  std::vector<Tensor> more;
  Tensor& grad(uint32_t i) {
    if (i == 0) return first;
    if (more.size() < i) more.resize(i);
    return more[i - 1];
  }
};

// Address -> number of its task.
class TaskMap {
 public:
  TaskMap() : slots_(64) {}
  int* find(const void* key) {
    if ((used_ + 1) * 2 > slots_.size()) grow();
    Slot& slot = probe(key);
    if (slot.key == nullptr) {
      slot.key = key;
      slot.task = -1;
      ++used_;
    }
    return &slot.task;
  }

 private:
  struct Slot {
    const void* key = nullptr;
    int task = -1;
  };
  Slot& probe(const void* key) {
    const size_t mask = slots_.size() - 1;
    size_t at = (reinterpret_cast<uintptr_t>(key) * 0x9E3779B97F4A7C15ull >> 20) & mask;
    while (slots_[at].key != nullptr && slots_[at].key != key) at = (at + 1) & mask;
    return slots_[at];
  }
  void grow() {
    std::vector<Slot> old(slots_.size() * 2);
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.key != nullptr) probe(slot.key) = slot;
    }
  }
  std::vector<Slot> slots_;
  size_t used_ = 0;
};

// What a gradient is with respect to: an output of a node, or a leaf.
struct GradTarget {
  Node* node;
  TensorImpl* leaf;
  uint32_t index;
  explicit GradTarget(const Tensor& x)
      : node(x->grad_fn), leaf(x->grad_fn == nullptr ? x.get() : nullptr), index(x->output) {}
  bool is(const Edge& edge) const {
    return node != nullptr ? edge.node == node && edge.index == index : edge.leaf == leaf;
  }
};

class RuleCall final : public GradCall {
 public:
  RuleCall(Node* node, Task* task, bool create_graph, std::vector<Tensor>* result)
      : node_(node), task_(task), create_graph_(create_graph), result_(result) {}

  Tensor dout(int i) override {
    Tensor& grad = task_->grad(static_cast<uint32_t>(i));
    if (!grad) grad = full(node_->outputs()[i], 0);
    return grad;
  }
  Tensor saved(int slot) override { return unpack(offset(slot)); }
  std::vector<Tensor> saved_list(int slot) override {
    const int from = offset(slot);
    const int count = node_->edge_count() - info().saved[slot].index;
    std::vector<Tensor> list;
    list.reserve(static_cast<size_t>(count));
    for (int i = 0; i < count; ++i) list.push_back(unpack(from + i));
    return list;
  }
  bool needs(int i) const override {
    if (node_->op()->info->n_in != kVariadic) return node_->edges()[i].wanted();
    for (int k = i; k < node_->edge_count(); ++k) {
      if (node_->edges()[k].wanted()) return true;
    }
    return false;
  }
  void set(int i, Tensor grad) override { (*result_)[static_cast<size_t>(i)] = std::move(grad); }
  void set_list(int i, std::vector<Tensor> grads) override {
    for (size_t k = 0; k < grads.size(); ++k) {
      (*result_)[static_cast<size_t>(i) + k] = std::move(grads[k]);
    }
  }
  const void* attrs() const override { return node_->attrs(); }

 private:
  const GradInfo& info() const { return kGrads[node_->op()->info->id]; }
  int offset(int slot) const {
    int at = 0;
    for (int i = 0; i < slot; ++i) {
      const SavedSpec& spec = info().saved[i];
      at += spec.kind == SavedSpec::kVariadic ? node_->edge_count() - spec.index : 1;
    }
    return at;
  }
  Tensor unpack(int at) {
    const Saved& saved = node_->saved()[at];
    if (!saved.value) return {};
    if (saved.checked && saved.value->version() != saved.version) {
      throw Error(ErrorKind::kPreconditionNotMet,
                  std::string("[backward] a tensor saved by op ") + node_->name() +
                      " was modified in place: version " + std::to_string(saved.value->version()) +
                      ", expected " + std::to_string(saved.version));
    }
    if (!saved.own_output || !create_graph_) return saved.value;
    Tensor output = detach(saved.value);
    const int index = output_index(at);
    node_->retain();
    output->grad_fn = node_;
    output->output = static_cast<uint16_t>(index);
    output->set(TensorImpl::kStopGradient, false);
    return output;
  }
  int output_index(int at) const {
    for (int i = 0; i < info().saved_count; ++i) {
      if (offset(i) == at) return info().saved[i].index;
    }
    return 0;
  }

  Node* node_;
  Task* task_;
  bool create_graph_;
  std::vector<Tensor>* result_;
};

// The op whose backward failed, and where that op was called if that was recorded.
std::string describe_backward(const Node* node) {
  std::string text = std::string("in the backward of ") + node->name();
  if (!node->created_at().empty()) text += ", called at " + node->created_at();
  return text;
}

class BackwardPass {
 public:
  BackwardPass(bool retain_graph, bool create_graph, bool to_leaves)
      : retain_graph_(retain_graph), create_graph_(create_graph), to_leaves_(to_leaves) {}

  void stop_at(const Tensor& x) { stops_.emplace_back(x); }
  void capture(const Tensor& x) { captures_.emplace_back(GradTarget(x), Tensor()); }
  std::vector<std::pair<GradTarget, Tensor>>& captures() { return captures_; }

  void root(const Tensor& x, Tensor grad) {
    if (!x->requires_grad()) {
      throw Error(ErrorKind::kPreconditionNotMet,
                  "[backward] the tensor must take a gradient, got one with stop_gradient=True of "
                  "shape " +
                      shape_text(x.view()));
    }
    const OutputMeta meta = meta_of(x.get());
    if (!grad) {
      const GradMode off(false);
      grad = full(meta, 1);
    } else if (!same_shape(grad.view(), meta)) {
      throw Error(ErrorKind::kInvalidArgument,
                  "[backward] the gradient must have the tensor's shape " + shape_text(x.view()) +
                      ", got " + shape_text(grad.view()));
    }
    root_tensors_.push_back(x);
    const GradTarget target(x);
    const int task = target.node != nullptr ? visit(target.node) : visit(target.leaf);
    if (target.leaf != nullptr) ++tasks_[static_cast<size_t>(task)].pending_edges;
    roots_.push_back({task, target.leaf != nullptr ? 0 : target.index, std::move(grad)});
  }

  void run() {
    const BackwardScope scope;
    const Timed timed("Backward", EventKind::kPhase);
    discover();
    for (Root& root : roots_) add_grad(root.task, root.index, std::move(root.grad));
    int processed = 0;
    for (const int number : order_) {
      if (tasks_[static_cast<size_t>(number)].node != nullptr) process(number);
      if (++processed % 64 == 0 && dispatch_hooks.check_interrupt != nullptr) {
        dispatch_hooks.check_interrupt();
      }
    }
  }

 private:
  struct Root {
    int task;
    uint32_t index;
    Tensor grad;
  };

  int visit(Node* node) {
    int* number = map_.find(node);
    if (*number < 0) {
      *number = static_cast<int>(tasks_.size());
      tasks_.emplace_back();
      tasks_.back().node = node;
      pending_.push_back(*number);
    }
    return *number;
  }
  int visit(TensorImpl* leaf) {
    int* number = map_.find(leaf);
    if (*number < 0) {
      *number = static_cast<int>(tasks_.size());
      tasks_.emplace_back();
      tasks_.back().leaf = leaf;
    }
    return *number;
  }
  bool stopped(const Edge& edge) const {
    for (const GradTarget& stop : stops_) {
      if (stop.is(edge)) return true;
    }
    return false;
  }

  void discover() {
    while (!pending_.empty()) {
      const int number = pending_.back();
      pending_.pop_back();
      order_.push_back(number);
      Node* node = tasks_[static_cast<size_t>(number)].node;
      for (int i = 0; i < node->edge_count(); ++i) {
        const Edge& edge = node->edges()[i];
        if (!edge.wanted() || stopped(edge)) continue;
        if (edge.node != nullptr) {
          visit(edge.node);
        } else {
          ++tasks_[static_cast<size_t>(visit(edge.leaf))].pending_edges;
        }
      }
    }
    std::sort(order_.begin(), order_.end(), [this](int a, int b) {
      return tasks_[static_cast<size_t>(a)].node->sequence() >
             tasks_[static_cast<size_t>(b)].node->sequence();
    });
    if (!to_leaves_) prune();
  }

  // Marks the nodes on a path to a captured target as needed, the others as not.
  void prune() {
    for (Task& task : tasks_) task.needed = false;
    for (auto at = order_.rbegin(); at != order_.rend(); ++at) {
      Task& task = tasks_[static_cast<size_t>(*at)];
      for (int i = 0; i < task.node->edge_count() && !task.needed; ++i) {
        const Edge& edge = task.node->edges()[i];
        if (!edge.wanted() || stopped(edge)) continue;
        for (const auto& capture : captures_) task.needed |= capture.first.is(edge);
        if (edge.node != nullptr) {
          task.needed |= tasks_[static_cast<size_t>(*map_.find(edge.node))].needed;
        }
      }
    }
  }

  void add_grad(int number, uint32_t index, Tensor grad) {
    Task& task = tasks_[static_cast<size_t>(number)];
    if (grad) add_to_slot(&task.grad(index), std::move(grad), create_graph_);
    if (task.leaf != nullptr && --task.pending_edges == 0) finish_leaf(number);
  }

  void finish_leaf(int number) {
    TensorImpl* leaf = tasks_[static_cast<size_t>(number)].leaf;
    Tensor grad = std::move(tasks_[static_cast<size_t>(number)].first);
    if (!grad) return;
    if (leaf->extras != nullptr) {
      const auto hooks = leaf->extras->hooks;
      for (const auto& hook : hooks) call_hook(hook.get(), &grad);
    }
    bool captured = false;
    for (auto& capture : captures_) {
      if (capture.first.leaf != leaf) continue;
      capture.second = grad;
      captured = true;
    }
    if (to_leaves_ && !(captured && !captures_.empty())) {
      accumulate_grad(leaf, std::move(grad), create_graph_);
    }
  }

  void call_hook(GradHook* hook, Tensor* grad) {
    Tensor changed = hook->call(*grad);
    if (changed) *grad = std::move(changed);
  }

  void process(int number) {
    Node* node = tasks_[static_cast<size_t>(number)].node;
    bool any = false;
    for (int i = 0; i < node->output_count(); ++i) {
      Tensor& slot = tasks_[static_cast<size_t>(number)].grad(static_cast<uint32_t>(i));
      if (!slot) continue;
      any = true;
      receive_grad(node, i, number);
    }
    std::vector<Tensor> result(static_cast<size_t>(node->edge_count()));
    if (any && tasks_[static_cast<size_t>(number)].needed) {
      check_not_freed(node);
      try {
        run_node(node, number, &result);
      } catch (const Error& error) {
        throw error.with(std::string(error.what()) + "; " + describe_backward(node));
      } catch (...) {  // the code of a hook or PyLayer
        if (dispatch_hooks.annotate != nullptr) dispatch_hooks.annotate(describe_backward(node));
        throw;
      }
      if (!retain_graph_) node->free_saved();
    }
    tasks_[static_cast<size_t>(number)].first = Tensor();
    tasks_[static_cast<size_t>(number)].more.clear();
    for (int i = 0; i < node->edge_count(); ++i) {
      const Edge& edge = node->edges()[i];
      if (!edge.wanted() || stopped(edge)) continue;
      const void* key = edge.node != nullptr ? static_cast<void*>(edge.node) : edge.leaf;
      const int target = *map_.find(key);
      Tensor grad = std::move(result[static_cast<size_t>(i)]);
      if (grad) grad = sum_to_edge(std::move(grad), node, i);
      add_grad(target, edge.index, std::move(grad));
    }
  }

  // Hooks, retained gradients and captures of output i.
  void receive_grad(Node* node, int i, int number) {
    const auto index = static_cast<uint32_t>(i);
    if (node->hooks() != nullptr) {
      const auto hooks = *node->hooks();
      for (const auto& entry : hooks) {
        if (entry.output != i) continue;
        Tensor grad = tasks_[static_cast<size_t>(number)].grad(index);
        call_hook(entry.hook.get(), &grad);
        tasks_[static_cast<size_t>(number)].grad(index) = std::move(grad);
      }
    }
    const Tensor& grad = tasks_[static_cast<size_t>(number)].grad(index);
    if (node->retained() != nullptr && to_leaves_) {
      for (const auto& retained : *node->retained()) {
        if (retained.output == i) accumulate_grad(retained.tensor, grad, create_graph_);
      }
    }
    for (auto& capture : captures_) {
      if (capture.first.node == node && capture.first.index == index) capture.second = grad;
    }
  }

  static void check_not_freed(const Node* node) {
    if (node->freed()) raise_freed(node->name());
  }

  void run_node(Node* node, int number, std::vector<Tensor>* result) {
    const Timed timed(node->custom() == nullptr ? node->name() : interned(node->name()),
                      EventKind::kBackward);
    const Unchecked unchecked(node->unchecked());
    // The rule may start another backward pass (a PyLayer): the task's gradients are moved out
    // first.
    Task own;
    own.first = std::move(tasks_[static_cast<size_t>(number)].first);
    own.more = std::move(tasks_[static_cast<size_t>(number)].more);
    if (node->custom() == nullptr) {
      RuleCall call(node, &own, create_graph_, result);
      kGrads[node->op()->info->id].run(call);
      return;
    }
    std::vector<Tensor> grads;
    for (int i = 0; i < node->output_count(); ++i) {
      Tensor& grad = own.grad(static_cast<uint32_t>(i));
      if (!grad && node->custom()->wants_zeros()) grad = full(node->outputs()[i], 0);
      grads.push_back(std::move(grad));
    }
    t_retain_graph = retain_graph_;
    node->custom()->run(grads, result);
    result->resize(static_cast<size_t>(node->edge_count()));
  }

  bool retain_graph_, create_graph_, to_leaves_;
  std::vector<GradTarget> stops_;
  std::vector<std::pair<GradTarget, Tensor>> captures_;
  std::vector<Root> roots_;
  std::vector<Tensor> root_tensors_;  // alive until the pass ends
  std::vector<Task> tasks_;
  std::vector<int> pending_, order_;
  TaskMap map_;
};

// Gradients are computed in the dtypes of the forward pass, even inside an autocast region.
struct AutocastOff {
  bool before = std::exchange(autocast().on, false);
  ~AutocastOff() { autocast().on = before; }
};

}  // namespace

bool retains_graph() { return t_retain_graph; }

void raise_freed(const std::string& name) {
  throw Error(ErrorKind::kPreconditionNotMet,
              "[backward] a second backward pass through a graph needs retain_graph=True in the "
              "first, got one whose " +
                  name + " was freed");
}

void backward(const std::vector<Tensor>& roots, const std::vector<Tensor>& grads,
              BackwardOptions options) {
  BackwardPass pass(options.retain_graph || options.create_graph, options.create_graph, true);
  for (size_t i = 0; i < roots.size(); ++i) {
    pass.root(roots[i], i < grads.size() ? grads[i] : Tensor());
  }
  const GradMode mode(options.create_graph);
  const AutocastOff plain;
  pass.run();
}

std::vector<Tensor> grad(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                         const std::vector<Tensor>& grads, const GradOptions& options) {
  BackwardPass pass(options.retain_graph, options.create_graph, !options.only_inputs);
  for (const Tensor& x : inputs) {
    if (!x->requires_grad()) {
      throw Error(ErrorKind::kPreconditionNotMet,
                  "[grad] every input must take a gradient, got one with stop_gradient=True of "
                  "shape " +
                      shape_text(x.view()));
    }
    pass.capture(x);
  }
  for (const Tensor& x : options.no_grad) pass.stop_at(x);
  for (size_t i = 0; i < outputs.size(); ++i) {
    pass.root(outputs[i], i < grads.size() ? grads[i] : Tensor());
  }
  {
    const GradMode mode(options.create_graph);
    const AutocastOff plain;
    pass.run();
  }
  std::vector<Tensor> result;
  for (auto& capture : pass.captures()) {
    if (!capture.second && !options.allow_unused) {
      throw Error(ErrorKind::kInvalidArgument,
                  "[grad] expected outputs that depend on every input (allow_unused=True admits "
                  "others), got input " +
                      std::to_string(result.size()) + " unused");
    }
    result.push_back(std::move(capture.second));
  }
  return result;
}

}  // namespace proa
