#include "proa/exec/plan.h"

#include "proa/exec/copy.h"
#include "proa/exec/free_list.h"
#include "proa/exec/same_layout.h"
#include "proa/shapes/infer.h"
#include "proa/shapes/layout.h"

namespace proa {

namespace {

// Up to this many buffers, each is compared with all that were placed before.
constexpr size_t kMaxBySize = 1024;

size_t aligned(size_t n) { return (n + 63) & ~size_t{63}; }

/// Bytes of a dense array of the view's shape; false if they do not fit an address.
bool bytes_of(const View& v, size_t* bytes) {
  uint64_t n = size_of(v.dtype);
  bool empty = false;
  for (int i = 0; i < v.rank; ++i) {
    if (v.shape[i] < 0) return false;
    empty |= v.shape[i] == 0;
    const uint64_t d = v.shape[i] > 0 ? static_cast<uint64_t>(v.shape[i]) : 1;
    if (n > SIZE_MAX / 2 / d) return false;
    n *= d;
  }
  *bytes = empty ? 0 : static_cast<size_t>(n);
  return true;
}

}  // namespace

Plan::Sizes Plan::Sizes::of(const Prepared& p) {
  const size_t nodes = p.node_count(), outputs = p.model().output_count();
  Sizes s;
  s.values = p.value_count();
  s.outputs = outputs;
  s.steps = 2 * (nodes + outputs);
  s.slots = 2 * nodes + 4 * outputs;
  for (uint32_t i = 0; i < nodes; ++i) s.slots += p.node(i).n_in + p.node(i).op->n_out;
  s.roots = s.values + 2 * (nodes + outputs) + 1;
  s.free_list = 0;
  if (kHasLarge && s.roots > kMaxBySize) {
    s.free_list = FreeList::table_size(s.roots) + (2 * (s.steps + 1) + s.roots) * 4;
  }
  return s;
}

size_t Plan::table_size(const Prepared& prepared, uint32_t chain_count) {
  const Sizes s = Sizes::of(prepared);
  return aligned(s.values * sizeof(View)) + aligned(s.values * sizeof(Ref)) +
         aligned(s.slots * sizeof(View)) + aligned(s.slots * sizeof(Ref)) + aligned(s.slots * 4) +
         aligned(s.roots * sizeof(Root)) + aligned(s.roots * 8) + aligned(s.steps * sizeof(Step)) +
         aligned(s.outputs * sizeof(Output)) + aligned(s.outputs * sizeof(void*)) +
         aligned(s.free_list) + (kHasChains ? aligned(chain_table_size(chain_count)) : 0) + 64;
}

Status Plan::build(const Prepared& prepared, const View* inputs, void* memory, size_t size,
                   const PlanOptions& options, NodeSpans chains) {
  *this = Plan();
  prepared_ = &prepared;
  options_ = options;
  const Sizes s = Sizes::of(prepared);
  if (size < table_size(prepared, chains.count)) return Status::kResourceExhausted;
  Arena arena(memory, size);
  values_ = static_cast<View*>(arena.take(s.values * sizeof(View)));
  value_refs_ = static_cast<Ref*>(arena.take(s.values * sizeof(Ref)));
  slots_ = static_cast<View*>(arena.take(s.slots * sizeof(View)));
  refs_ = static_cast<Ref*>(arena.take(s.slots * sizeof(Ref)));
  external_ = static_cast<uint32_t*>(arena.take(s.slots * 4));
  roots_ = static_cast<Root*>(arena.take(s.roots * sizeof(Root)));
  order_ = static_cast<uint32_t*>(arena.take(s.roots * 8));
  steps_ = static_cast<Step*>(arena.take(s.steps * sizeof(Step)));
  outputs_ = static_cast<Output*>(arena.take(s.outputs * sizeof(Output)));
  output_data_ = static_cast<void**>(arena.take(s.outputs * sizeof(void*)));
  if (s.free_list > 0) free_list_ = arena.take(s.free_list);
  if (kHasChains) chains_ = static_cast<Chain*>(arena.take(chain_table_size(chains.count)));

  const ModelView& model = prepared.model();
  add_root(RootKind::kConstant, 0, 0);
  for (uint32_t i = 0; i < s.values; ++i) {
    values_[i] = prepared.value(i);
    value_refs_[i] = {kConstantRoot, 0};
  }
  for (uint32_t i = 0; i < model.input_count(); ++i) {
    const uint32_t id = model.input_value(i);
    const View& declared = prepared.value(id);
    if (inputs[i].rank != declared.rank || inputs[i].dtype != declared.dtype) {
      return Status::kInvalidArgument;
    }
    for (int a = 0; a < declared.rank; ++a) {
      const bool fits = declared.shape[a] == kUnknown || declared.shape[a] == inputs[i].shape[a];
      if (!fits || inputs[i].shape[a] < 0) return Status::kInvalidArgument;
    }
    values_[id] = inputs[i];
    values_[id].data = nullptr;
    value_refs_[id] = {add_root(RootKind::kInput, 0, i), 0};
  }
  for (uint32_t i = 0; i < model.output_count(); ++i) {
    if (store_of(i) != kNoValue) {
      roots_[value_refs_[model.input_value(store_of(i))].root].stored = true;
    }
  }
  PROA_TRY(add_nodes(chains));
  if (kHasChains) form_chains();
  merge_in_place();
  if (kHasChains) extend_chain_lifetimes();
  PROA_TRY(assign_offsets());
  for (uint32_t i = 0; i < slot_count_; ++i) {
    refs_[i].root = resolve(refs_[i].root);
    const RootKind kind = roots_[refs_[i].root].kind;
    if (slots_[i].given() && (kind == RootKind::kInput || kind == RootKind::kOutput)) {
      external_[external_count_++] = i;
    }
  }
  return Status::kOk;
}

/// The steps of all nodes, and the outputs of the parts.
Status Plan::add_nodes(NodeSpans chains) {
  uint32_t added = 0;  // outputs
  uint32_t chain = 0, begun = 0;
  for (uint32_t i = 0; i < prepared_->node_count(); ++i) {
    problem_node_ = i;
    if (i == options_.first_nodes) {
      PROA_TRY(add_outputs(0, added = options_.first_outputs));
      first_steps_ = step_count_;
    }
    const NodeSpan* span = kHasChains && chain < chains.count ? &chains.at[chain] : nullptr;
    if (span != nullptr && i == span->first) begun = step_count_;
    PROA_TRY(add_node(i));
    if (span == nullptr || i + 1 != span->first + span->count) continue;
    note_chain(begun, span->count);
    ++chain;
  }
  problem_node_ = kNone;
  return add_outputs(added, prepared_->model().output_count());
}

uint32_t Plan::add_root(RootKind kind, size_t size, uint32_t index) {
  roots_[root_count_] = {size, 0, step_count_, step_count_, kNone, index, kind, false, false};
  return root_count_++;
}

/// A new arena buffer for a view whose shape and dense strides are set.
Status Plan::add_buffer(View* view, Ref* ref) {
  size_t bytes;
  if (!bytes_of(*view, &bytes)) return Status::kResourceExhausted;
  view->data = nullptr;
  *ref = {add_root(RootKind::kArena, bytes, 0), 0};
  return Status::kOk;
}

/// Records that `step` uses the slots' buffers.
void Plan::record_use(uint32_t slot, uint32_t n, uint32_t step) {
  for (uint32_t i = slot; i < slot + n; ++i) {
    if (!slots_[i].given()) continue;
    Root& root = roots_[refs_[i].root];
    if (root.kind == RootKind::kConstant) continue;
    root.last = step;
  }
}

void Plan::add_copy(uint32_t value, const View& from, const Ref& from_ref, const View& to,
                    const Ref& to_ref) {
  slots_[slot_count_] = from;
  refs_[slot_count_] = from_ref;
  slots_[slot_count_ + 1] = to;
  refs_[slot_count_ + 1] = to_ref;
  record_use(slot_count_, 2, step_count_);
  steps_[step_count_++] = {kNone, value, slot_count_, 1, 1, kNone};
  slot_count_ += 2;
}

Status Plan::add_node(uint32_t i) {
  const BoundNode& node = prepared_->node(i);
  const NodeRecord& record = prepared_->model().node(i);
  if (node.op->kind == OpKind::kView && values_[record.output_first].data != nullptr) {
    return Status::kOk;  // a view of constants, resolved when the model was bound
  }
  const uint32_t* ids = prepared_->model().inputs(record);
  const uint32_t slot = slot_count_;
  for (uint32_t k = 0; k < node.n_in; ++k) {
    const bool given = k < record.input_count && ids[k] != kNoValue;
    slots_[slot + k] = given ? values_[ids[k]] : View();
    refs_[slot + k] = given ? value_refs_[ids[k]] : Ref{0, 0};
  }
  for (uint32_t k = 0; k < record.output_count; ++k) {
    slots_[slot + node.n_in + k] = View();
    refs_[slot + node.n_in + k] = {0, 0};
  }
  Call call;
  call.in = slots_ + slot;
  call.out = slots_ + slot + node.n_in;
  call.n_in = node.n_in;
  call.n_out = static_cast<int>(record.output_count);
  call.attrs = node.attrs;
  call.packed = node.packed;
  call.strategy = node.strategy;
  return node.op->kind == OpKind::kView ? add_view(i, &call, slot) : add_kernel(i, &call, slot);
}

/// Views take no step; where strides admit none, the input is copied first.
Status Plan::add_view(uint32_t i, Call* call, uint32_t slot) {
  const OpInfo& op = *prepared_->node(i).op;
  const uint32_t first = prepared_->model().node(i).output_first;
  if (call->n_in == 0 || !call->in[0].given()) return Status::kInvalidArgument;
  Ref ref = refs_[slot];
  int64_t offset = 0;  // in elements
  call->view_offset = &offset;
  Status status = infer(op, *call);
  if (status == Status::kNotAView) {
    const View from = slots_[slot];
    View to = from;
    to.set_contiguous();
    const Ref from_ref = ref;
    PROA_TRY(add_buffer(&to, &ref));
    slot_count_ = slot + static_cast<uint32_t>(call->n_in + call->n_out);
    slots_[slot] = to;
    status = infer(op, *call);
    add_copy(first, from, from_ref, to, ref);
  }
  PROA_TRY(status);
  if (repeats_nothing(*call)) {
    static constexpr uint64_t kZero[2] = {};  // an element of any dtype
    call->out[0].data = const_cast<uint64_t*>(kZero);
    ref = {kConstantRoot, 0};
    offset = 0;
  }
  ref.offset += offset * static_cast<int64_t>(size_of(call->in[0].dtype));
  values_[first] = call->out[0];  // a view op has one output
  value_refs_[first] = ref;
  return Status::kOk;
}

Status Plan::add_kernel(uint32_t i, Call* call, uint32_t slot) {
  const BoundNode& node = prepared_->node(i);
  const uint32_t first = prepared_->model().node(i).output_first;
  PROA_TRY(infer(*node.op, *call));
  for (int k = 0; k < call->n_out; ++k) {
    View& out = call->out[k];
    Ref ref;
    const int target = node.op->mutates ? node.op->alias[k] : -1;
    if (target >= 0) {
      ref = refs_[slot + static_cast<uint32_t>(target)];
      const Root& changed = roots_[ref.root];
      if (!changed.stored && changed.kind != RootKind::kArena) return Status::kUnimplemented;
      out = call->in[target];
    } else {
      choose_strides(*node.op, *call, &out);
      PROA_TRY(add_buffer(&out, &ref));
    }
    refs_[slot + node.n_in + static_cast<uint32_t>(k)] = ref;
    values_[first + static_cast<uint32_t>(k)] = out;
    value_refs_[first + static_cast<uint32_t>(k)] = ref;
  }
  uint32_t scratch = kNone;
  const size_t wanted = node.kernel->scratch != nullptr ? node.kernel->scratch(*call) : 0;
  if (wanted > 0) {
    scratch = add_root(RootKind::kArena, wanted, 0);
    roots_[scratch].scratch = true;
  }
  const auto n_out = static_cast<uint32_t>(call->n_out);
  slot_count_ = slot + node.n_in + n_out;
  record_use(slot, node.n_in + n_out, step_count_);
  steps_[step_count_++] = {i, first, slot, node.n_in, n_out, scratch};
  return Status::kOk;
}

/// An output that fills a buffer of its own, in the layout that the caller expects, is computed
/// there; others are copied.
Status Plan::add_output(uint32_t i) {
  const uint32_t id = prepared_->model().output_value(i);
  const View& view = values_[id];
  Output& output = outputs_[i];
  output.view = view;
  const bool keeps_strides = options_.given_outputs && is_dense(view);
  if (!keeps_strides) output.view.set_contiguous();
  Ref ref = value_refs_[id];
  size_t bytes;
  if (!bytes_of(view, &bytes)) return Status::kResourceExhausted;
  const Root& root = roots_[ref.root];
  const bool whole = root.kind == RootKind::kArena && (keeps_strides || view.contiguous()) &&
                     root.size == bytes && ref.offset == 0;
  if (!whole) {
    PROA_TRY(add_buffer(&output.view, &ref));
    add_copy(id, view, value_refs_[id], output.view, ref);
  }
  output.root = ref.root;
  roots_[output.root].kind = RootKind::kOutput;
  roots_[output.root].index = i;
  return Status::kOk;
}

/// An output that overwrites an input: nothing is left to do if it was computed there. One that is
/// in the memory of another input, which may itself be overwritten, is saved first.
Status Plan::stage_store(uint32_t i) {
  const ModelView& model = prepared_->model();
  const uint32_t id = model.output_value(i), input = model.input_value(store_of(i));
  Output& output = outputs_[i];
  output.root = kNone;
  output.view = values_[id];
  if (output.view.rank != values_[input].rank || output.view.dtype != values_[input].dtype) {
    return Status::kInvalidArgument;
  }
  for (int a = 0; a < output.view.rank; ++a) {
    if (output.view.shape[a] != values_[input].shape[a]) return Status::kInvalidArgument;
  }
  const uint32_t root = value_refs_[id].root;
  if (root == value_refs_[input].root || roots_[root].kind != RootKind::kInput) return Status::kOk;
  View saved = values_[id];
  saved.set_contiguous();
  Ref saved_ref;
  PROA_TRY(add_buffer(&saved, &saved_ref));
  add_copy(id, values_[id], value_refs_[id], saved, saved_ref);
  values_[id] = saved;
  value_refs_[id] = saved_ref;
  return Status::kOk;
}

Status Plan::add_outputs(uint32_t first, uint32_t last) {
  const ModelView& model = prepared_->model();
  for (uint32_t i = first; i < last; ++i) {
    if (store_of(i) == kNoValue) PROA_TRY(add_output(i));
  }
  for (uint32_t i = first; i < last; ++i) {
    if (store_of(i) != kNoValue) PROA_TRY(stage_store(i));
  }
  for (uint32_t i = first; i < last; ++i) {
    if (store_of(i) == kNoValue) continue;
    const uint32_t id = model.output_value(i), input = model.input_value(store_of(i));
    const bool in_place = value_refs_[id].root == value_refs_[input].root &&
                          value_refs_[id].offset == value_refs_[input].offset &&
                          same_layout(values_[id], values_[input]);
    if (!in_place) add_copy(id, values_[id], value_refs_[id], values_[input], value_refs_[input]);
  }
  for (uint32_t i = first; i < last; ++i) {
    if (outputs_[i].root != kNone) roots_[outputs_[i].root].last = step_count_;
  }
  return Status::kOk;
}

uint32_t Plan::resolve(uint32_t root) const {
  while (roots_[root].merged != kNone) root = roots_[root].merged;
  return root;
}

/// True if the step's output may overwrite its input: no later step reads that buffer, and every
/// other input in it has exactly the output's layout.
bool Plan::may_overwrite(const Step& step, uint32_t input) const {
  const uint32_t out = step.slot + step.n_in, in = step.slot + input;
  if (!slots_[in].given() || !same_layout(slots_[in], slots_[out])) return false;
  const uint32_t root = resolve(refs_[in].root);
  const Root& from = roots_[root];
  const uint32_t index = static_cast<uint32_t>(&step - steps_);
  if (kHasChains && !may_overwrite_in_chain(index, root, slots_[out])) return false;
  if (from.kind != RootKind::kArena || from.last != index || refs_[in].offset != 0 ||
      from.size != roots_[refs_[out].root].size) {
    return false;
  }
  for (uint32_t k = step.slot; k < out; ++k) {
    if (!slots_[k].given() || resolve(refs_[k].root) != root) continue;
    if (refs_[k].offset != 0 || !same_layout(slots_[k], slots_[out])) return false;
  }
  return true;
}

/// True if the step's output may be computed in the memory of that input, which the op adds last to
/// results of 16 bits (their sums are elsewhere). No other input may be in it.
bool Plan::adds_in_place(const Step& step, uint32_t input) const {
  const uint32_t in = step.slot + input, out = step.slot + step.n_in;
  if (!slots_[in].given() || size_of(slots_[out].dtype) != 2) return false;
  for (uint32_t k = step.slot; k < out; ++k) {
    if (k != in && slots_[k].given() && resolve(refs_[k].root) == resolve(refs_[in].root))
      return false;
  }
  return may_overwrite(step, input);
}

void Plan::merge_in_place() {
  for (uint32_t s = 0; s < step_count_; ++s) {
    const Step& step = steps_[s];
    if (step.node == kNone || step.n_out != 1) continue;
    const OpInfo& op = *prepared_->node(step.node).op;
    const uint32_t out = refs_[step.slot + step.n_in].root;
    if (roots_[out].kind != RootKind::kArena) continue;
    for (uint32_t k = 0; k < step.n_in; ++k) {
      const bool adds = kHasLarge && static_cast<int>(k) == op.adds && adds_in_place(step, k);
      if (!adds && !(op.elementwise && may_overwrite(step, k))) continue;
      const uint32_t in = resolve(refs_[step.slot + k].root);
      roots_[out].merged = in;
      if (roots_[out].last > roots_[in].last) roots_[in].last = roots_[out].last;
      break;
    }
  }
}

bool Plan::in_arena(const Root& root) const {
  const bool ours =
      root.kind == RootKind::kArena || (root.kind == RootKind::kOutput && !options_.given_outputs);
  return ours && root.merged == kNone;
}

Status Plan::assign_offsets() {
  uint32_t count = 0;
  for (uint32_t r = 0; r < root_count_; ++r) count += in_arena(roots_[r]) ? 1 : 0;
  return kHasLarge && count > kMaxBySize ? assign_by_time() : assign_by_size();
}

/// In the order of the steps, each into one of the smallest free blocks that hold it. For plans of
/// too many buffers to compare each with all others.
Status Plan::assign_by_time() {
  FreeList free;
  free.init(free_list_);
  const uint32_t steps = step_count_ + 1;
  // Lists of the roots that begin and of those that end at each step.
  auto* begins = reinterpret_cast<uint32_t*>(static_cast<uint8_t*>(free_list_) +
                                             FreeList::table_size(root_count_));
  uint32_t *ends = begins + steps, *blocks = ends + steps;
  uint32_t *next_begin = order_, *next_end = order_ + root_count_;
  for (uint32_t t = 0; t < 2 * steps; ++t) begins[t] = kNone;
  for (uint32_t r = root_count_; r-- > 0;) {
    const Root& root = roots_[r];
    if (!in_arena(root) || root.size == 0) continue;
    next_begin[r] = begins[root.first];
    begins[root.first] = r;
    const uint32_t last = root.last > root.first ? root.last : root.first;
    next_end[r] = ends[last];
    ends[last] = r;
  }
  for (uint32_t t = 0; t < steps; ++t) {
    for (uint32_t r = begins[t]; r != kNone; r = next_begin[r]) {
      const size_t size = aligned(roots_[r].size);
      if (size > SIZE_MAX / 2 || arena_size_ > SIZE_MAX / 2 - size) {
        return Status::kResourceExhausted;
      }
      blocks[r] = free.allocate(size);
      roots_[r].offset = free.offset(blocks[r]);
      if (roots_[r].offset + size > arena_size_) arena_size_ = roots_[r].offset + size;
    }
    for (uint32_t r = ends[t]; r != kNone; r = next_end[r]) free.release(blocks[r]);
  }
  return Status::kOk;
}

/// Largest buffer first, each into the smallest gap that is free during its lifetime.
Status Plan::assign_by_size() {
  uint32_t* by_size = order_;
  uint32_t* placed = order_ + root_count_;
  uint32_t n = 0, placed_count = 0;
  for (uint32_t r = 0; r < root_count_; ++r) {
    if (!in_arena(roots_[r])) continue;
    uint32_t at = n++;
    for (; at > 0 && roots_[by_size[at - 1]].size < roots_[r].size; --at)
      by_size[at] = by_size[at - 1];
    by_size[at] = r;
  }
  for (uint32_t i = 0; i < n; ++i) {
    Root& root = roots_[by_size[i]];
    const size_t size = aligned(root.size);
    size_t end = 0, best = 0, best_gap = SIZE_MAX;
    for (uint32_t k = 0; k < placed_count; ++k) {
      const Root& other = roots_[placed[k]];
      if (other.last < root.first || other.first > root.last) continue;
      if (other.offset > end && other.offset - end >= size && other.offset - end < best_gap) {
        best = end;
        best_gap = other.offset - end;
      }
      const size_t other_end = other.offset + aligned(other.size);
      if (other_end > end) end = other_end;
    }
    root.offset = best_gap != SIZE_MAX ? best : end;
    if (size > SIZE_MAX / 2 || root.offset > SIZE_MAX / 2 - size) return Status::kResourceExhausted;
    if (root.offset + size > arena_size_) arena_size_ = root.offset + size;
    uint32_t at = placed_count++;
    for (; at > 0 && roots_[placed[at - 1]].offset > root.offset; --at) placed[at] = placed[at - 1];
    placed[at] = by_size[i];
  }
  return Status::kOk;
}

void Plan::place(void* arena) {
  arena_ = static_cast<uint8_t*>(arena);
  for (uint32_t i = 0; i < slot_count_; ++i) {
    const Root& root = roots_[refs_[i].root];
    if (slots_[i].given() && root.kind == RootKind::kArena) {
      slots_[i].data = arena_ + root.offset + refs_[i].offset;
    }
  }
  if (options_.given_outputs) return;
  for (uint32_t i = 0; i < prepared_->model().output_count(); ++i) {
    if (outputs_[i].root == kNone) continue;
    outputs_[i].view.data = arena_ + roots_[outputs_[i].root].offset;
  }
}

Status Plan::run(const View* inputs, View* outputs, const Parallel* parallel,
                 const Profiler* profiler, Part part) {
  const uint32_t n_outputs = prepared_->model().output_count();
  for (uint32_t i = 0; i < n_outputs; ++i) {
    const bool direct = outputs[i].data != nullptr && same_layout(outputs[i], outputs_[i].view);
    output_data_[i] = direct ? outputs[i].data : outputs_[i].view.data;
  }
  for (uint32_t e = 0; e < external_count_; ++e) {
    const Ref& ref = refs_[external_[e]];
    const Root& root = roots_[ref.root];
    void* base = root.kind == RootKind::kInput ? inputs[root.index].data : output_data_[root.index];
    if (base != nullptr) slots_[external_[e]].data = static_cast<uint8_t*>(base) + ref.offset;
  }
  const uint32_t begin = part == Part::kSecond ? first_steps_ : 0;
  const uint32_t end = part == Part::kFirst ? first_steps_ : step_count_;
  for (uint32_t s = begin, count; s < end; s += count) {
    const Step& step = steps_[s];
    count = 1;
    const int64_t start = profiler != nullptr ? profiler->now() : 0;
    const char* name = "copy";
    const Chain* chain = kHasChains && chain_count_ > 0 ? chain_at(s) : nullptr;
    if (chain != nullptr) {
      PROA_TRY(run_chain(*chain, parallel, &count));
      name = "chain";
    } else if (step.node == kNone) {
      copy_elements(slots_[step.slot], slots_[step.slot + 1]);
    } else {
      const BoundNode& node = prepared_->node(step.node);
      Call call;
      call.in = slots_ + step.slot;
      call.out = slots_ + step.slot + step.n_in;
      call.n_in = step.n_in;
      call.n_out = step.n_out;
      call.attrs = node.attrs;
      call.packed = node.packed;
      call.strategy = node.strategy;
      call.parallel = parallel;
      if (step.scratch != kNone) call.scratch = arena_ + roots_[step.scratch].offset;
      name = node.op->name;
      if (Status status = node.kernel->run(call); status != Status::kOk) {
        problem_node_ = step.node;
        return status;
      }
    }
    if (profiler != nullptr) {
      profiler->step(profiler->context, name, prepared_->model().name_of(step.value),
                     profiler->now() - start);
    }
  }
  if (options_.given_outputs) return Status::kOk;
  for (uint32_t i = 0; i < n_outputs; ++i) {
    if (outputs[i].data == nullptr) {
      outputs[i] = outputs_[i].view;
    } else if (output_data_[i] != outputs[i].data) {
      copy_elements(outputs_[i].view, outputs[i]);
    }
  }
  return Status::kOk;
}

}  // namespace proa
