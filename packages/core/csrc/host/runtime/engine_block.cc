#include "proa/runtime/engine_block.h"

#include <algorithm>
#include <chrono>
#include <sstream>

#include "proa/runtime/extension.h"

namespace proa {

namespace {

// The message of an extension's operator, added to its status.
std::string with_cause(const std::string& text) {
  const std::string cause = take_extension_failure();
  return cause.empty() ? text : text + "; " + cause;
}

// Advice for an error of a node whose operator is unknown.
const char* hint(const ModelView& model, uint32_t node) {
  if (node == kNoValue) return "";
  const char* name = model.string(model.op(model.node(node).op).name);
  const bool known = find_op(name) != nullptr;
  return known ? "" : "; load the library of a custom operator before the model";
}

int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

int64_t key_stride(const View& v, int axis) { return v.shape[axis] == 1 ? 0 : v.stride[axis]; }

// key == key_of(inputs), without making that.
bool has_key(const std::vector<int64_t>& key, const View* inputs, size_t count) {
  size_t at = 0;
  for (size_t i = 0; i < count; ++i) {
    const View& v = inputs[i];
    if (at + 2 * static_cast<size_t>(v.rank) > key.size()) return false;
    for (int a = 0; a < v.rank; ++a, at += 2) {
      if (key[at] != v.shape[a] || key[at + 1] != key_stride(v, a)) return false;
    }
  }
  return at == key.size();
}

template <class T>
void append(std::string* key, const T* values, size_t count) {
  key->append(reinterpret_cast<const char*>(values), count * sizeof(T));
}

// Everything that determines the packed form of a node's constant: op, attributes, constants, and
// dtype and rank of other inputs.
std::string pack_key(const Prepared& prepared, uint32_t i) {
  const BoundNode& node = prepared.node(i);
  const NodeRecord& record = prepared.model().node(i);
  std::string key;
  append(&key, &node.op->id, 1);
  if (node.op->attr_size > 0) {
    append(&key, static_cast<const char*>(node.attrs), node.op->attr_size);
  }
  for (uint32_t k = 0; k < record.input_count; ++k) {
    const uint32_t id = prepared.model().inputs(record)[k];
    const View v = id == kNoValue ? View() : prepared.value(id);
    append(&key, &v.data, 1);
    append(&key, &v.dtype, 1);
    append(&key, &v.rank, 1);
    if (v.data == nullptr) continue;
    append(&key, v.shape, kMaxRank);
    append(&key, v.stride, kMaxRank);
  }
  return key;
}

}  // namespace

const char* name_of(DType dtype) {
  static constexpr const char* kNames[kDTypeCount] = {
      "bool",    "uint8",    "int8",    "int16",   "int32",     "int64",
      "float16", "bfloat16", "float32", "float64", "complex64", "complex128"};
  return kNames[static_cast<int>(dtype)];
}

std::string shape_text(const int64_t* shape, int rank) {
  std::ostringstream text;
  text << '(';
  for (int i = 0; i < rank; ++i) text << (i > 0 ? ", " : "") << shape[i];
  text << (rank == 1 ? ",)" : ")");
  return text.str();
}

IoSpec spec_of(const ModelView& model, uint32_t id) {
  const View v = model.view(id);
  return {model.name_of(id), v.dtype, std::vector<int64_t>(v.shape, v.shape + v.rank)};
}

std::string node_name(const ModelView& view, uint32_t node) {
  if (node >= view.node_count() || view.node(node).output_count == 0) return {};
  return view.name_of(view.node(node).output_first);
}

std::string node_text(const ModelView& view, uint32_t node) {
  if (node >= view.node_count()) return "the graph";
  const NodeRecord& record = view.node(node);
  std::string text = std::string("op '") + view.string(view.op(record.op).name) + "'";
  if (record.output_count > 0)
    text += std::string(" ('") + view.name_of(record.output_first) + "')";
  return text;
}

std::vector<int64_t> key_of(const View* inputs, size_t count) {
  std::vector<int64_t> key;
  for (size_t i = 0; i < count; ++i) {
    for (int a = 0; a < inputs[i].rank; ++a) {
      key.push_back(inputs[i].shape[a]);
      key.push_back(key_stride(inputs[i], a));
    }
  }
  return key;
}

void check_inputs(const std::vector<IoSpec>& specs, const View* inputs) {
  for (size_t i = 0; i < specs.size(); ++i) {
    const IoSpec& spec = specs[i];
    const View& v = inputs[i];
    bool fits = v.rank == static_cast<int>(spec.shape.size());
    for (int a = 0; fits && a < v.rank; ++a) {
      const int64_t want = spec.shape[static_cast<size_t>(a)];
      fits = want == kUnknown || want == v.shape[a];
    }
    if (!fits) {
      throw EngineError(Status::kInvalidArgument,
                        "[Engine] input '" + spec.name + "' must have shape " +
                            shape_text(spec.shape.data(), static_cast<int>(spec.shape.size())) +
                            ", got " + shape_text(v.shape, v.rank));
    }
    if (v.dtype != spec.dtype) {
      throw EngineError(Status::kInvalidArgument, "[Engine] input '" + spec.name + "' must be " +
                                                      name_of(spec.dtype) + ", got " +
                                                      name_of(v.dtype));
    }
  }
}

void check_output(const IoSpec& spec, const View& want, const View& given) {
  bool fits = given.rank == want.rank && given.dtype == want.dtype;
  for (int a = 0; fits && a < want.rank; ++a) fits = given.shape[a] == want.shape[a];
  if (fits) return;
  throw EngineError(Status::kInvalidArgument,
                    "[Engine] output '" + spec.name + "' must be " + name_of(want.dtype) + " " +
                        shape_text(want.shape, want.rank) + ", got " + name_of(given.dtype) + " " +
                        shape_text(given.shape, given.rank));
}

ComputingBlock::ComputingBlock(const ModelView& model, bool updates, PackedWeights* shared,
                               WeightBytes bytes, const uint8_t* strategies, ModelReader* rest)
    : view(model), tables(Prepared::table_size(model)) {
  Status status = prepared.bind(view, tables.data(), tables.size(), updates, strategies);
  if (status == Status::kOk && shared != nullptr) {
    status = pack_shared(shared);
  } else if (status == Status::kOk) {
    packed = Buffer(prepared.packed_size());
    status = updates           ? prepared.pack(packed.data())
             : rest != nullptr ? pack_read(rest)
                               : pack_own(bytes);
  }
  if (status != Status::kOk) {
    throw EngineError(status,
                      with_cause(std::string("[Engine] expected that ") + prepared.problem() +
                                 ", got " + node_text(view, prepared.problem_node())) +
                          hint(view, prepared.problem_node()),
                      node_name(view, prepared.problem_node()));
  }
  for (uint32_t i = 0; i < view.input_count(); ++i)
    inputs.push_back(spec_of(view, view.input_value(i)));
}

Status ComputingBlock::pack_own(WeightBytes bytes) {
  UnreadConstants constants(prepared, bytes);
  PROA_TRY(prepared.pack(
      packed.data(),
      [](void* context, uint32_t i) { static_cast<UnreadConstants*>(context)->packed(i); },
      &constants));
  unread = constants.ids();
  return Status::kOk;
}

// Whether all that packing reads is there when the node's weight has been read.
bool ComputingBlock::can_pack_early(uint32_t i, const UnreadConstants& constants) const {
  const NodeRecord& node = view.node(i);
  const uint32_t* ids = view.inputs(node);
  const auto packs = static_cast<uint32_t>(prepared.node(i).op->pack_input);
  const uint32_t weight = ids[packs];
  if (weight >= constants.count() || !constants.is_packed_once(weight)) return false;
  if (!ModelReader::is_large(view.value(weight))) return false;
  for (uint32_t k = 0; k < node.input_count; ++k) {
    if (k == packs || ids[k] == kNoValue || prepared.value(ids[k]).data == nullptr) continue;
    // A view of constants may be one of large ones.
    if (ids[k] >= constants.count() || ModelReader::is_large(view.value(ids[k]))) return false;
  }
  return true;
}

// Packs weights as they are read, in the file's order, then those that need more than their own.
Status ComputingBlock::pack_read(ModelReader* rest) {
  struct Early {
    FileRange range;
    uint32_t node, weight;
  };
  const UnreadConstants constants(prepared, {});
  std::vector<Early> early;
  std::vector<uint8_t*> left(prepared.node_count());  // where nodes are still to be packed
  auto* at = static_cast<uint8_t*>(packed.data());
  for (uint32_t i = 0; i < prepared.node_count(); ++i) {
    const size_t size = prepared.pack_size(i);
    if (size == 0) continue;
    left[i] = at;
    at += (size + 63) & ~size_t{63};
    if (!can_pack_early(i, constants)) continue;
    const uint32_t id = view.inputs(view.node(i))[prepared.node(i).op->pack_input];
    const auto bytes = static_cast<size_t>(view.value(id).data_size);
    early.push_back({{rest->offset(prepared.value(id).data), bytes}, i, id});
  }
  std::sort(early.begin(), early.end(),
            [](const Early& a, const Early& b) { return a.range.first < b.range.first; });
  std::vector<FileRange> ranges;
  ranges.reserve(early.size());
  for (const Early& e : early) ranges.push_back(e.range);
  Status status = Status::kOk;
  rest->read_rest(ranges, [&](size_t k, void* data) {
    const Early& e = early[k];
    if (status != Status::kOk) return;
    void* const own = prepared.value(e.weight).data;
    prepared.move_constant(e.weight, data);
    status = prepared.pack_node(e.node, left[e.node]);
    prepared.move_constant(e.weight, own);
    left[e.node] = nullptr;
  });
  for (uint32_t i = 0; i < prepared.node_count() && status == Status::kOk; ++i) {
    if (left[i] != nullptr) status = prepared.pack_node(i, left[i]);
  }
  return status;
}

Status ComputingBlock::pack_shared(PackedWeights* shared) {
  for (uint32_t i = 0; i < prepared.node_count(); ++i) {
    const size_t size = prepared.pack_size(i);
    if (size == 0) continue;
    auto [found, isnew] = shared->try_emplace(pack_key(prepared, i));
    if (!isnew) {
      prepared.use_packed(i, found->second.data());
      continue;
    }
    found->second = Buffer(size);
    PROA_TRY(prepared.pack_node(i, found->second.data()));
  }
  return Status::kOk;
}

CachedPlan& BlockPlans::find(const View* inputs) {
  for (auto it = plans_.begin(); it != plans_.end(); ++it) {
    if (!has_key(it->key, inputs, block_->inputs.size())) continue;
    if (it != plans_.begin()) plans_.splice(plans_.begin(), plans_, it);
    return plans_.front();
  }
  // The least recently used plan is replaced; its tables' memory is reused.
  if (plans_.size() < max_plans_) {
    plans_.emplace_front();
  } else {
    plans_.splice(plans_.begin(), plans_, std::prev(plans_.end()));
  }
  try {
    build(inputs, &plans_.front());
  } catch (...) {
    plans_.pop_front();
    throw;
  }
  drop_excess();
  return plans_.front();
}

void BlockPlans::limit(int max_plans, size_t max_bytes) {
  max_plans_ = max_plans < 1 ? 1 : static_cast<size_t>(max_plans);
  max_bytes_ = max_bytes;
  drop_excess();
}

void BlockPlans::drop_excess() {
  while (plans_.size() > max_plans_) plans_.pop_back();
  while (max_bytes_ > 0 && plans_.size() > 1 && table_bytes() > max_bytes_) plans_.pop_back();
}

void BlockPlans::build(const View* inputs, CachedPlan* cached) {
  const auto chain_count = static_cast<uint32_t>(chains_.size());
  const size_t size = Plan::table_size(block_->prepared, chain_count);
  if (cached->tables.size() != size) cached->tables = Buffer(size);
  cached->arena = nullptr;
  const Status status = cached->plan.build(block_->prepared, inputs, cached->tables.data(), size,
                                           how_, {chains_.data(), chain_count});
  if (status != Status::kOk) {
    std::string shapes;
    for (size_t i = 0; i < block_->inputs.size(); ++i) {
      shapes += (i > 0 ? ", " : "") + shape_text(inputs[i].shape, inputs[i].rank);
    }
    throw EngineError(
        status,
        with_cause("[Engine] expected input shapes that fit " +
                   node_text(block_->view, cached->plan.problem_node()) + ", got " + shapes),
        node_name(block_->view, cached->plan.problem_node()));
  }
  cached->key = key_of(inputs, block_->inputs.size());
}

size_t BlockPlans::table_bytes() const {
  size_t total = 0;
  for (const CachedPlan& p : plans_) total += p.tables.size();
  return total;
}

size_t BlockPlans::largest_arena() const {
  size_t largest = 0;
  for (const CachedPlan& p : plans_) largest = std::max(largest, p.plan.arena_size());
  return largest;
}

void run_plan(const ComputingBlock& block, Plan* plan, const View* inputs, View* outputs,
              const Parallel* parallel, EngineProfile* profile, Part part) {
  Profiler profiler;
  if (profile != nullptr) {
    profiler.now = now;
    profiler.context = profile;
    profiler.step = [](void* context, const char* op, const char* name, int64_t nanoseconds) {
      (*static_cast<EngineProfile*>(context))(op, name, nanoseconds);
    };
  }
  const Status status =
      plan->run(inputs, outputs, parallel, profile != nullptr ? &profiler : nullptr, part);
  if (status == Status::kOk) return;
  throw EngineError(status,
                    with_cause("[Engine] " + node_text(block.view, plan->problem_node()) +
                               " refused the values of its inputs"),
                    node_name(block.view, plan->problem_node()));
}

}  // namespace proa
