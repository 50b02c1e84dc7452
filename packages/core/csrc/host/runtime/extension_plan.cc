// The bridge from the kernel contract (outputs are given, errors are a Status) to operators that
// make their outputs and throw. Row functions know their operator by their number: there are as
// many of them as operators can be registered.
#include "proa/runtime/extension_plan.h"

#include <array>
#include <cstring>
#include <utility>

#include "proa/gen/op_ids.h"
#include "proa/runtime/error.h"

namespace proa {

namespace {

constexpr int kSlots = 512;
constexpr uint16_t kStructBytes = 4096;

const ExtensionOp* g_slots[kSlots];
int g_used = 0;

thread_local std::string t_failure;

struct Offer {
  void* data;
  size_t bytes;
};
thread_local std::vector<Offer> t_offers;

struct OfferScope {
  std::vector<Offer> before;
  explicit OfferScope(const Call& call) : before(std::move(t_offers)) {
    t_offers.clear();
    for (int i = 0; i < call.n_out; ++i) {
      const View& v = call.out[i];
      if (!v.contiguous()) continue;
      t_offers.push_back({v.data, static_cast<size_t>(v.numel()) * size_of(v.dtype)});
    }
  }
  ~OfferScope() { t_offers = std::move(before); }
};

// The attribute struct of a node, checked.
struct Unpacked {
  std::vector<int64_t> counts;
  std::vector<uint8_t> attributes;
  bool sound = false;

  Unpacked(const ExtensionOp& op, const Call& call) {
    const auto* raw = static_cast<const uint8_t*>(call.attrs);
    uint32_t head[2];
    std::memcpy(head, raw, sizeof head);
    if (head[1] != op.inputs.size() || head[0] > kStructBytes || head[0] < 8 + 8 * head[1]) return;
    counts.resize(head[1]);
    if (!counts.empty()) std::memcpy(counts.data(), raw + 8, 8 * counts.size());
    attributes.assign(raw + 8 + 8 * counts.size(), raw + head[0]);
    int64_t total = 0;
    for (size_t i = 0; i < counts.size(); ++i) {
      const bool one = op.inputs[i].kind == ExtensionInput::kOne;
      if (counts[i] < 0 || counts[i] > call.n_in || (one && counts[i] != 1)) return;
      total += counts[i];
    }
    sound = total == call.n_in;
  }
};

void copy(const View& from, View to, const Parallel* parallel) {
  static const Kernel assign = kernel_of(static_cast<int>(OpId::assign)).run;
  Call call;
  call.in = &from;
  call.out = &to;
  call.n_in = call.n_out = 1;
  call.parallel = parallel;
  assign(call);
}

// Row-major copies, let go at the end.
struct Copies {
  std::vector<Storage*> held;
  View of(const View& from, const Parallel* parallel) {
    View to = from;
    to.set_contiguous();
    held.push_back(Storage::create(static_cast<size_t>(from.numel()) * size_of(from.dtype)));
    to.data = held.back()->data();
    copy(from, to, parallel);
    return to;
  }
  ~Copies() {
    for (Storage* storage : held) storage->drop();
  }
};

ProaTensor raw(const View& view) {
  ProaTensor t = {};
  std::memcpy(&t.view, &view, sizeof view);
  return t;
}
View view_of(const ProaTensor& t) {
  View view;
  std::memcpy(static_cast<void*>(&view), &t.view, sizeof view);
  return view;
}

bool same_kind(const View& a, const View& b) {
  return a.dtype == b.dtype && a.rank == b.rank &&
         std::memcmp(a.shape, b.shape, sizeof(int64_t) * static_cast<size_t>(a.rank)) == 0;
}

void deliver(const ExtensionOp& op, const Call& call, const ExtensionResults& results) {
  Copies copies;
  std::vector<View> views;
  for (int i = 0; i < call.n_out; ++i) {
    View v = view_of(results.tensors[static_cast<size_t>(i)]);
    if (!same_kind(v, call.out[i])) {
      throw Error(ErrorKind::kInvalidArgument,
                  "[" + op.name + "] the kernel must return what was inferred for output " +
                      op.outputs[static_cast<size_t>(i)].name);
    }
    // In the memory of another output, which is about to be written.
    for (int k = 0; k < call.n_out; ++k) {
      if (k != i && v.data == call.out[k].data) v = copies.of(v, call.parallel);
    }
    views.push_back(v);
  }
  for (int i = 0; i < call.n_out; ++i) {
    const View& v = views[static_cast<size_t>(i)];
    if (v.data != call.out[i].data || !call.out[i].contiguous()) {
      copy(v, call.out[i], call.parallel);
    }
  }
}

template <class Body>
Status guarded(const Body& body) {
  try {
    body();
    return Status::kOk;
  } catch (const std::exception& error) {
    t_failure = error.what();
    return Status::kInvalidArgument;
  }
}

Status run_slot(int slot, const Call& call) {
  const ExtensionOp& op = *g_slots[slot];
  const Unpacked given(op, call);
  if (!given.sound) return Status::kInvalidArgument;
  return guarded([&] {
    Copies copies;
    std::vector<ProaTensor> tensors;
    for (int i = 0; i < call.n_in; ++i) {
      const View& v = call.in[i];
      tensors.push_back(raw(v.contiguous() ? v : copies.of(v, call.parallel)));
    }
    const OfferScope offers(call);
    deliver(op, call, call_extension(op, tensors.data(), given.counts, given.attributes, false));
  });
}

Status infer_slot(int slot, const Call& call) {
  const ExtensionOp& op = *g_slots[slot];
  const Unpacked given(op, call);
  if (!given.sound) return Status::kInvalidArgument;
  return guarded([&] {
    std::vector<ProaTensor> tensors;
    for (int i = 0; i < call.n_in; ++i) {
      View v = call.in[i];
      v.data = nullptr;
      tensors.push_back(raw(v));
    }
    const auto results = call_extension(op, tensors.data(), given.counts, given.attributes, true);
    for (int i = 0; i < call.n_out; ++i) {
      const View v = view_of(results.tensors[static_cast<size_t>(i)]);
      call.out[i].rank = v.rank;
      call.out[i].dtype = v.dtype;
      std::memcpy(call.out[i].shape, v.shape, sizeof v.shape);
    }
  });
}

template <int I>
Status run_nth(const Call& call) {
  return run_slot(I, call);
}
template <int I>
Status infer_nth(const Call& call) {
  return infer_slot(I, call);
}
template <int... I>
constexpr std::array<Kernel, sizeof...(I)> run_functions(std::integer_sequence<int, I...>) {
  return {run_nth<I>...};
}
template <int... I>
constexpr std::array<ShapeRule, sizeof...(I)> infer_functions(std::integer_sequence<int, I...>) {
  return {infer_nth<I>...};
}
constexpr auto kRun = run_functions(std::make_integer_sequence<int, kSlots>());
constexpr auto kInfer = infer_functions(std::make_integer_sequence<int, kSlots>());

}  // namespace

void make_plannable(ExtensionOp* op) {
  if (op->outputs.size() > kMaxOutputs) return;
  for (const ExtensionInput& output : op->outputs) {
    if (output.kind != ExtensionInput::kOne) return;
  }
  if (g_used == kSlots) {
    throw Error(ErrorKind::kResourceExhausted,
                "[load_extension] at most " + std::to_string(kSlots) +
                    " operators of extensions can be loaded, got " + op->name + " beyond");
  }
  static const std::vector<uint8_t> defaults(kStructBytes);
  g_slots[g_used] = op;
  op->plannable = true;
  OpInfo& info = op->row.info;
  info.name = op->name.c_str();
  info.version = 1;
  info.kind = OpKind::kKernel;
  info.n_in = kVariadic;
  info.n_required = 0;
  info.n_out = static_cast<uint8_t>(op->outputs.size());
  info.dtypes = (1u << kDTypeCount) - 1;
  info.attr_size = kStructBytes;
  info.attr_defaults = defaults.data();
  info.attr_kinds = "x";
  info.shape = kInfer[static_cast<size_t>(g_used)];
  for (DTypeRule& rule : info.out_dtype) rule = DTypeRule::kSame;  // inference says otherwise
  info.dtype_attr = -1;
  for (int8_t& alias : info.alias) alias = -1;
  op->row.kernel.run = kRun[static_cast<size_t>(g_used)];
  ++g_used;
  register_op(&op->row);
}

Storage* take_offer(size_t bytes) {
  for (Offer& offer : t_offers) {
    if (offer.data == nullptr || offer.bytes != bytes || bytes == 0) continue;
    Storage* storage = Storage::borrow(offer.data, bytes, [](void*) {}, nullptr);
    offer.data = nullptr;
    return storage;
  }
  return nullptr;
}

std::string take_extension_failure() { return std::exchange(t_failure, std::string()); }

}  // namespace proa
