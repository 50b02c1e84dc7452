// Nodes: their memory, edges and hooks.
#include "proa/train/tape.h"

#include <cstring>
#include <new>

#include "proa/runtime/allocator.h"
#include "proa/runtime/error.h"
#include "proa/runtime/thread_local.h"
#include "proa/train/dispatch.h"
#include "proa/train/watch.h"

namespace proa {

namespace {

std::atomic<uint64_t> next_sequence{1};

constexpr size_t aligned(size_t n) { return (n + 15) & ~size_t{15}; }

// Nodes to destroy, so that a long chain does not recurse.
struct DeadNodes {
  Node* first;
  bool destroying;
};
thread_local DeadNodes t_dead = {};

}  // namespace

Node* Node::allocate_node(int edges, int saved, int outputs, size_t attr_bytes) {
  const size_t at_edges = aligned(sizeof(Node));
  const size_t at_outputs = at_edges + aligned(sizeof(Edge) * static_cast<size_t>(edges));
  const size_t at_saved = at_outputs + aligned(sizeof(OutputMeta) * static_cast<size_t>(outputs));
  const size_t at_attrs = at_saved + aligned(sizeof(Saved) * static_cast<size_t>(saved));
  size_t capacity = 0;
  char* block = static_cast<char*>(allocate(at_attrs + attr_bytes, &capacity));
  Node* node = new (block) Node();
  node->capacity_ = capacity;
  node->edges_ = static_cast<uint16_t>(edges);
  node->saved_ = static_cast<uint16_t>(saved);
  node->outputs_ = static_cast<uint16_t>(outputs);
  node->edge_ = reinterpret_cast<Edge*>(block + at_edges);
  node->output_ = reinterpret_cast<OutputMeta*>(block + at_outputs);
  node->save_ = reinterpret_cast<Saved*>(block + at_saved);
  for (int i = 0; i < edges; ++i) new (&node->edge_[i]) Edge();
  for (int i = 0; i < saved; ++i) new (&node->save_[i]) Saved();
  for (int i = 0; i < outputs; ++i) new (&node->output_[i]) OutputMeta;
  node->attrs_ = attr_bytes > 0 ? block + at_attrs : nullptr;
  node->sequence_ = next_sequence.fetch_add(1, std::memory_order_relaxed);
  if (watching(kWatchFinite)) node->unchecked_ = Unchecked::here();
  if (watching(kWatchLine) && dispatch_hooks.user_line != nullptr) {
    node->created_at_ = std::make_unique<std::string>(dispatch_hooks.user_line());
  }
  return node;
}

Node* Node::create(const OpEntry* op, int edges, int saved, int outputs, const void* attrs) {
  Node* node = allocate_node(edges, saved, outputs, op->info->attr_size);
  node->op_ = op;
  if (op->info->attr_size > 0) std::memcpy(node->attrs_, attrs, op->info->attr_size);
  return node;
}

Node* Node::create_custom(std::unique_ptr<CustomBackward> custom, int edges, int outputs) {
  Node* node = allocate_node(edges, 0, outputs, 0);
  node->custom_ = std::move(custom);
  return node;
}

const std::string& Node::created_at() const {
  static const std::string unknown;
  return created_at_ == nullptr ? unknown : *created_at_;
}

const char* Node::name() const { return op_ != nullptr ? op_->info->name : custom_->name(); }

void Node::destroy_now() {
  for (int i = 0; i < saved_; ++i) save_[i].~Saved();
  for (int i = 0; i < outputs_; ++i) output_[i].~OutputMeta();
  for (int i = 0; i < edges_; ++i) {
    if (edge_[i].node != nullptr) edge_[i].node->drop();
    if (edge_[i].leaf != nullptr) edge_[i].leaf->drop();
  }
  const size_t capacity = capacity_;
  this->~Node();
  release(this, capacity);
}

void Node::destroy(Node* node) {
  DeadNodes& dead = of_this_thread(t_dead);
  node->next_dead_ = dead.first;
  dead.first = node;
  if (dead.destroying) return;
  dead.destroying = true;
  while (dead.first != nullptr) {
    Node* next = dead.first;
    dead.first = next->next_dead_;
    next->destroy_now();
  }
  dead.destroying = false;
}

void Node::connect(int i, TensorImpl* x) {
  if (x == nullptr || !x->requires_grad()) return;
  Edge& edge = edge_[i];
  if (x->grad_fn != nullptr) {
    edge.node = x->grad_fn;
    edge.node->retain();
    edge.index = x->output;
  } else {
    edge.leaf = x;
    x->retain();
  }
}

void Node::adopt(int i, TensorImpl* x) {
  OutputMeta& meta = output_[i];
  std::memcpy(meta.shape, x->view.shape, sizeof meta.shape);
  meta.rank = x->view.rank;
  meta.dtype = x->view.dtype;
  if (x->has(TensorImpl::kSymbolic)) meta.handle = x->extras->handle;
  retain();
  if (x->grad_fn != nullptr) {
    if (x->has(TensorImpl::kRetainGrad)) x->grad_fn->forget_retained(x);
    x->grad_fn->drop();
  }
  x->grad_fn = this;
  x->output = static_cast<uint16_t>(i);
  x->set(TensorImpl::kStopGradient, false);
  if (x->has(TensorImpl::kRetainGrad)) retain_grad(i, x);
}

void Node::free_saved() {
  if (saved_ > 0) freed_ = true;
  for (int i = 0; i < saved_; ++i) save_[i].value = Tensor();
  if (custom_ != nullptr) custom_->free_saved();
}

void Node::add_hook(int output, std::shared_ptr<GradHook> hook) {
  if (hooks_ == nullptr) hooks_ = std::make_unique<std::vector<OutputHook>>();
  hooks_->push_back({output, std::move(hook)});
}

void Node::retain_grad(int output, TensorImpl* tensor) {
  if (retained_ == nullptr) retained_ = std::make_unique<std::vector<Retained>>();
  retained_->push_back({output, tensor});
}

void Node::forget_retained(TensorImpl* tensor) {
  if (retained_ == nullptr) return;
  for (size_t i = 0; i < retained_->size(); ++i) {
    if ((*retained_)[i].tensor != tensor) continue;
    retained_->erase(retained_->begin() + static_cast<std::ptrdiff_t>(i));
    return;
  }
}

}  // namespace proa
