#include "proa/exec/prepared.h"

#include <string.h>

#include "proa/shapes/infer.h"

namespace proa {

namespace {

size_t aligned(size_t n) { return (n + 63) & ~size_t{63}; }

size_t slots_of(const OpInfo& op, const NodeRecord& record) {
  return op.n_in == kVariadic || record.input_count > op.n_in ? record.input_count : op.n_in;
}

bool known(const View& v) { return v.given() && v.numel() != kUnknown; }

/// Bytes of leading attributes that end at a boundary, at most `size`.
bool is_prefix(const OpInfo& op, size_t size) {
  size_t at = 0;
  if (op.attr_kinds[0] == 'x') return size % 8 == 0;
  for (const char* k = op.attr_kinds; *k != 0 && at < size; ++k) at += attribute_size(*k);
  return at == size;
}

}  // namespace

bool check_attributes(const OpInfo& op, void* attrs) {
  auto* at = static_cast<uint8_t*>(attrs);
  if (op.attr_kinds[0] == 'x') return true;
  for (const char* k = op.attr_kinds; *k != 0; at += attribute_size(*k), ++k) {
    int64_t number;
    memcpy(&number, at, 8);
    if (*k == 'b') {
      number = number != 0 ? 1 : 0;
      memcpy(at, &number, 8);
    } else if (*k == 'd') {
      if (number < 0 || number >= kDTypeCount) return false;
    } else if (*k == 'I') {
      if (number < -1 || number > kMaxRank) return false;
    } else if (*k >= '0' && *k <= '@') {
      if (number < 0 || number >= *k - '0') return false;
    }
  }
  return true;
}

bool repeats_nothing(const Call& view) {
  return view.in[0].numel() == 0 && view.out[0].numel() > 0;
}

size_t Prepared::table_size(const ModelView& model) {
  const BlockRecord& block = model.block(0);
  size_t attrs = 0, slots = 0;
  for (uint32_t i = 0; i < block.node_count; ++i) {
    const NodeRecord& record = model.node(i);
    const OpInfo* op = find_op(model.string(model.op(record.op).name));
    if (op == nullptr) continue;
    attrs += aligned(op->attr_size);
    const size_t wanted = slots_of(*op, record) + op->n_out;
    if (wanted > slots) slots = wanted;
  }
  const size_t values = block.value_first + block.value_count;
  return aligned(block.node_count * sizeof(BoundNode)) + aligned(values * sizeof(View)) +
         aligned(slots * sizeof(View)) + attrs + 64;
}

Status Prepared::fail(Status status, const char* why) {
  problem_ = why;
  return status;
}

Status Prepared::bind(const ModelView& model, void* memory, size_t size, bool updates,
                      const uint8_t* strategies) {
  model_ = model;
  updates_ = updates;
  const BlockRecord& block = model.block(0);
  value_count_ = block.value_first + block.value_count;
  Arena arena(memory, size);
  nodes_ = static_cast<BoundNode*>(arena.take(block.node_count * sizeof(BoundNode)));
  values_ = static_cast<View*>(arena.take(value_count_ * sizeof(View)));
  if (nodes_ == nullptr || values_ == nullptr) {
    return fail(Status::kResourceExhausted, "the memory given suffices");
  }
  static_assert(sizeof(View) >= 4 * sizeof(uint32_t), "the values' memory has room for the names");
  if (block.input_count > 1 && !has_distinct_inputs(model, reinterpret_cast<uint32_t*>(values_))) {
    problem_node_ = kNoValue;
    return fail(Status::kBadModel, "the model's inputs have distinct names");
  }
  for (uint32_t i = 0; i < value_count_; ++i) values_[i] = model.view(i);
  size_t slots = 0;
  for (uint32_t i = 0; i < block.node_count; ++i) {
    problem_node_ = i;
    const uint8_t strategy = strategies != nullptr ? strategies[i] : 0;
    if (strategy >= kStrategies) return fail(Status::kInvalidArgument, "every strategy is known");
    PROA_TRY(bind_node(i, &arena, static_cast<Strategy>(strategy)));
    const size_t wanted = nodes_[i].n_in + nodes_[i].op->n_out;
    if (wanted > slots) slots = wanted;
  }
  scratch_ = static_cast<View*>(arena.take(slots * sizeof(View)));
  if (scratch_ == nullptr) return fail(Status::kResourceExhausted, "the memory given suffices");
  for (uint32_t i = 0; i < block.node_count; ++i) {
    problem_node_ = i;
    PROA_TRY(check_node(i));
    packed_size_ += aligned(pack_size(i));
  }
  problem_node_ = kNoValue;
  return Status::kOk;
}

void Prepared::set_attribute(uint32_t node, size_t at, const void* number) {
  // The struct is this object's own copy: see take_attrs.
  memcpy(static_cast<uint8_t*>(const_cast<void*>(nodes_[node].attrs)) + at, number, 8);
}

Status Prepared::bind_node(uint32_t i, Arena* arena, Strategy strategy) {
  const NodeRecord& record = model_.node(i);
  const OpRecord& name = model_.op(record.op);
  const OpInfo* op = find_op(model_.string(name.name));
  if (op == nullptr) return fail(Status::kUnimplemented, "this build has the op");
  if (name.version != op->version) return fail(Status::kVersion, "this build has the op's version");
  BoundNode& node = nodes_[i];
  node = {op, &kernel_of(op->id), nullptr, nullptr, 0, strategy};
  if (op->kind == OpKind::kComposite || (op->mutates && !updates_) ||
      (op->kind == OpKind::kKernel && node.kernel->run == nullptr)) {
    return fail(Status::kUnimplemented, "this build has a kernel of the op");
  }
  PROA_TRY(check_inputs(record, *op));
  node.n_in = static_cast<uint32_t>(slots_of(*op, record));
  return take_attrs(record, *op, arena, &node);
}

Status Prepared::check_inputs(const NodeRecord& record, const OpInfo& op) {
  const uint32_t count = record.input_count;
  if (count < op.n_required || (op.n_in != kVariadic && count > op.n_in)) {
    return fail(Status::kBadModel, "the node has as many inputs as the op accepts");
  }
  if (record.output_count != op.n_out) {
    return fail(Status::kBadModel, "the node has as many outputs as the op");
  }
  const uint32_t* ids = model_.inputs(record);
  const View* first = nullptr;
  for (uint32_t k = 0; k < count; ++k) {
    if (ids[k] == kNoValue) {
      if (k < op.n_required || op.n_in == kVariadic) {
        return fail(Status::kBadModel, "every required input of the op is given");
      }
      continue;
    }
    const View& v = values_[ids[k]];
    if (k == 0 && !computes(v.dtype) && ((op.dtypes >> static_cast<int>(v.dtype)) & 1) == 0) {
      return fail(Status::kUnimplemented, "this build has kernels of the input's dtype");
    }
    if (k == 0 && ((op.dtypes >> static_cast<int>(v.dtype)) & 1) == 0) {
      return fail(Status::kBadModel, "the op supports the dtype of its first input");
    }
    if (k < 32 && ((op.shape_only >> k) & 1) != 0) continue;
    if (first == nullptr) first = &v;
    if (op.promote != Promote::kNone && v.dtype != first->dtype) {
      return fail(Status::kBadModel, "the inputs of the op have one dtype");
    }
  }
  return Status::kOk;
}

Status Prepared::take_attrs(const NodeRecord& record, const OpInfo& op, Arena* arena,
                            BoundNode* node) {
  if (record.attr_size > op.attr_size) {
    return fail(Status::kVersion, "this build knows all attributes of the op");
  }
  if (!is_prefix(op, record.attr_size)) {
    return fail(Status::kBadModel, "no attribute is truncated");
  }
  if (op.attr_size == 0) return Status::kOk;
  void* attrs = arena->take(op.attr_size);
  if (attrs == nullptr) return fail(Status::kResourceExhausted, "the memory given suffices");
  memcpy(attrs, op.attr_defaults, op.attr_size);
  memcpy(attrs, model_.attrs(record), record.attr_size);
  node->attrs = attrs;
  if (!check_attributes(op, attrs))
    return fail(Status::kBadModel, "every attribute has a valid value");
  if (record.input_count == 0 && op.dtype_attr >= 0) {
    const auto* at = static_cast<const uint8_t*>(attrs) + op.dtype_attr;
    const int64_t dtype = *reinterpret_cast<const int64_t*>(at);
    if (((op.dtypes >> dtype) & 1) == 0) {
      return fail(Status::kBadModel, "the op generates elements of the dtype of its attribute");
    }
  }
  return Status::kOk;
}

void Prepared::fill_call(uint32_t i, View* in, View* out, Call* call) const {
  const NodeRecord& record = model_.node(i);
  const BoundNode& node = nodes_[i];
  const uint32_t* ids = model_.inputs(record);
  for (uint32_t k = 0; k < node.n_in; ++k) {
    in[k] = k < record.input_count && ids[k] != kNoValue ? values_[ids[k]] : View();
  }
  for (uint32_t k = 0; k < record.output_count; ++k) out[k] = values_[record.output_first + k];
  *call = Call();
  call->in = in;
  call->out = out;
  call->n_in = node.n_in;
  call->n_out = static_cast<int>(record.output_count);
  call->attrs = node.attrs;
  call->strategy = node.strategy;
}

/// Runs the shape rule on what is known before a run. A view of constants becomes constant itself.
Status Prepared::check_node(uint32_t i) {
  const BoundNode& node = nodes_[i];
  Call call;
  int64_t offset = 0;
  fill_call(i, scratch_, scratch_ + node.n_in, &call);
  const bool is_view = node.op->kind == OpKind::kView && node.n_in > 0;
  if (is_view) call.view_offset = &offset;
  const Status status = infer(*node.op, call);
  if (status == Status::kNotAView && is_view) return Status::kOk;
  if (status != Status::kOk)
    return fail(status, "the op supports the shapes and dtypes of its inputs");
  bool folds = is_view && call.in[0].data != nullptr && !repeats_nothing(call);
  for (int k = 0; k < call.n_in; ++k) folds &= !call.in[k].given() || known(call.in[k]);
  const uint32_t first = model_.node(i).output_first;
  for (int k = 0; k < call.n_out; ++k) {
    if (call.out[k].dtype != values_[first + k].dtype) {
      return fail(Status::kBadModel, "the dtypes in the file are those that the op infers");
    }
    if (call.out[k].rank != values_[first + k].rank) {
      return fail(Status::kBadModel, "the ranks in the file are those that the op infers");
    }
    // Attributes that were damaged may give arrays of any size.
    for (int a = 0; a < call.out[k].rank; ++a) {
      const int64_t stated = values_[first + k].shape[a], inferred = call.out[k].shape[a];
      if (stated >= 0 && inferred >= 0 && stated != inferred) {
        return fail(Status::kBadModel, "the shapes in the file are those that the op infers");
      }
    }
    if (folds) values_[first + k] = call.out[k];
  }
  return Status::kOk;
}

size_t Prepared::pack_size(uint32_t i) const {
  const BoundNode& node = nodes_[i];
  if (node.kernel->pack_size == nullptr) return 0;
  Call call;
  fill_call(i, scratch_, scratch_ + node.n_in, &call);
  return call.in[node.op->pack_input].data == nullptr ? 0 : node.kernel->pack_size(call);
}

Status Prepared::pack_node(uint32_t i, void* memory) {
  BoundNode& node = nodes_[i];
  problem_node_ = i;
  Call call;
  fill_call(i, scratch_, scratch_ + node.n_in, &call);
  PROA_TRY(node.kernel->pack(call, memory));
  node.packed = memory;
  problem_node_ = kNoValue;
  return Status::kOk;
}

Status Prepared::pack(void* memory, void (*on_packed)(void* context, uint32_t node),
                      void* context) {
  Arena arena(memory, packed_size_);
  for (uint32_t i = 0; i < node_count(); ++i) {
    const size_t size = pack_size(i);
    if (size == 0) continue;
    problem_node_ = i;
    void* packed = arena.take(aligned(size));
    if (packed == nullptr) return fail(Status::kResourceExhausted, "the memory given suffices");
    PROA_TRY(pack_node(i, packed));
    if (on_packed != nullptr) on_packed(context, i);
  }
  problem_node_ = kNoValue;
  return Status::kOk;
}

}  // namespace proa
