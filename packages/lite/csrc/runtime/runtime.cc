// The C functions of proa_lite.h over portable/exec.
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <new>

#include "platform.h"
#include "proa/base/cpu.h"
#include "proa/base/isa_table.h"
#include "proa/base/settings.h"
#include "proa/exec/plan.h"
#include "proa/model/compressed.h"
#include "proa_lite.h"

#define PROA_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

using proa::ModelView;
using proa::Plan;
using proa::Prepared;
using proa::Status;
using proa::View;
namespace platform = proa::platform;

static_assert(PROA_LITE_MAX_RANK == proa::kMaxRank);
static_assert(PROA_LITE_COMPLEX128 == static_cast<int>(proa::DType::kC128));

constexpr int kPlans = 4;  // cached, one for each set of input shapes
constexpr size_t kErrorSize = 320;

char open_error[kErrorSize];

/// A plan and the memory of its tables.
struct CachedPlan {
  Plan plan;
  void* tables = nullptr;
  View* inputs = nullptr;  // the shapes it is for
  uint64_t used = 0;       // when it last ran
};

}  // namespace

struct proa_lite_model {
  void* bytes = nullptr;  // of the file; nullptr if the caller owns them
  ModelView view;
  Prepared prepared;
  void* tables = nullptr;
  void* packed = nullptr;
  void* arena = nullptr;
  size_t table_size = 0, arena_size = 0;
  CachedPlan plans[kPlans];
  uint64_t runs = 0;
  View* inputs = nullptr;  // of the run in progress
  View* outputs = nullptr;
  char error[kErrorSize] = "";
};

namespace {

__attribute__((format(printf, 3, 4))) proa_lite_status fail(char* error, proa_lite_status status,
                                                            const char* form, ...) {
  va_list arguments;
  va_start(arguments, form);
  vsnprintf(error, kErrorSize, form, arguments);
  va_end(arguments);
  return status;
}

proa_lite_status status_of(Status s) {
  return s == Status::kNotAView ? PROA_LITE_UNIMPLEMENTED : static_cast<proa_lite_status>(s);
}

const char* reason(Status s) {
  switch (s) {
    case Status::kOutOfRange:
      return "an index in the data is outside its axis";
    case Status::kUnimplemented:
    case Status::kNotAView:
      return "this library has no kernel for the op and dtype";
    case Status::kResourceExhausted:
      return "out of memory";
    default:
      return "shapes or dtypes do not fit the op";
  }
}

/// "(1, ?, 28)" into `text`.
void write_shape(const int64_t* shape, int rank, char* text, size_t size) {
  size_t at = 0;
  const auto put = [&](const char* form, long long v) {
    if (at < size) at += static_cast<size_t>(snprintf(text + at, size - at, form, v));
  };
  put("(", 0);
  for (int i = 0; i < rank; ++i) {
    if (shape[i] < 0) {
      put("?", 0);
    } else {
      put("%lld", static_cast<long long>(shape[i]));
    }
    if (i + 1 < rank || rank == 1) put(i + 1 < rank ? ", " : ",", 0);
  }
  put(")", 0);
}

proa_lite_status out_of_memory(char* error, const char* where) {
  return fail(error, PROA_LITE_RESOURCE_EXHAUSTED, "[%s] out of memory", where);
}

/// The best instruction set of this CPU, or the lower one that PROA_ISA names; and settings.
Status choose_isa() {
  const char* winograd = platform::setting("PROA_WINOGRAD");
  proa::settings().winograd = winograd == nullptr || strcmp(winograd, "0") != 0;
  // Where the CPU does not support the choice, bfloat16 is widened to float.
  if (proa::computes(proa::DType::kBF16))
    proa::choose_bf16(platform::setting("PROA_BF16"), &proa::settings().bf16);
  if (proa::kIsaTables[proa::kIsaTableCount - 1].isa == proa::Isa::kAvx512) {
    const bool granted = proa::cpu_has_amx() && platform::request_amx();
    proa::choose_amx(platform::setting("PROA_AMX"), granted, &proa::settings().amx);
  }
  const char* wish = platform::setting("PROA_ISA");
  const proa::Isa best = proa::cpu_isa();
  if (best < proa::kIsaTables[0].isa) return Status::kUnimplemented;
  for (int i = 0; i <= static_cast<int>(best); ++i) {
    const auto isa = static_cast<proa::Isa>(i);
    const bool named = wish != nullptr && strcmp(wish, proa::isa_name(isa)) == 0;
    if (named || (isa == best && (wish == nullptr || *wish == 0))) {
      proa::select_isa(isa);
      return Status::kOk;
    }
  }
  return Status::kInvalidArgument;
}

proa_lite_status prepare(proa_lite_model* m, const void* bytes, size_t size) {
  constexpr const char* kWhere = "proa_lite_open";
  if (reinterpret_cast<uintptr_t>(bytes) % proa::kModelAlign != 0) {
    return fail(open_error, PROA_LITE_INVALID_ARGUMENT, "[%s] bytes must be aligned to %zu", kWhere,
                proa::kModelAlign);
  }
  Status s = proa::open_model(bytes, size, &m->view);
  if (s != Status::kOk) {
    return fail(open_error, status_of(s), "[%s] %s", kWhere, m->view.problem());
  }
  s = proa::verify_checksum(bytes, size);
  if (s != Status::kOk) {
    return fail(open_error, status_of(s), "[%s] the checksum differs: bytes were changed", kWhere);
  }
  s = choose_isa();
  if (s == Status::kUnimplemented) {
    return fail(open_error, PROA_LITE_UNIMPLEMENTED,
                "[%s] this library needs a CPU with %s, got %s", kWhere,
                proa::isa_name(proa::kIsaTables[0].isa), proa::isa_name(proa::cpu_isa()));
  }
  if (s != Status::kOk) {
    return fail(open_error, PROA_LITE_INVALID_ARGUMENT,
                "[%s] PROA_ISA must name an ISA of this CPU (best: %s)", kWhere,
                proa::isa_name(proa::cpu_isa()));
  }
  m->table_size = Prepared::table_size(m->view);
  const size_t views = m->view.input_count() + m->view.output_count();
  m->tables = platform::allocate(m->table_size);
  m->inputs = static_cast<View*>(platform::allocate(views * sizeof(View)));
  if (m->tables == nullptr || m->inputs == nullptr) return out_of_memory(open_error, kWhere);
  for (size_t i = 0; i < views; ++i) new (&m->inputs[i]) View();
  m->outputs = m->inputs + m->view.input_count();
  s = m->prepared.bind(m->view, m->tables, m->table_size);
  if (s != Status::kOk) {
    const uint32_t node = m->prepared.problem_node();
    const char* op = node == proa::kNoValue
                         ? "the model"
                         : m->view.string(m->view.op(m->view.node(node).op).name);
    return fail(open_error, status_of(s), "[%s] %s: expected that %s", kWhere, op,
                m->prepared.problem());
  }
  if (m->prepared.packed_size() > 0) {
    m->packed = platform::allocate(m->prepared.packed_size());
    if (m->packed == nullptr) return out_of_memory(open_error, kWhere);
    s = m->prepared.pack(m->packed);
    if (s != Status::kOk) return fail(open_error, status_of(s), "[%s] %s", kWhere, reason(s));
  }
  return PROA_LITE_OK;
}

/// Lets `bytes` be the model file in a compressed one, in memory of the model.
proa_lite_status expand(proa_lite_model* m, const void** bytes, size_t* size) {
  constexpr const char* kWhere = "proa_lite_open";
  const uint64_t whole = proa::expanded_model_size(*bytes, *size);
  void* memory = whole > SIZE_MAX ? nullptr : platform::allocate(static_cast<size_t>(whole));
  if (memory == nullptr && whole > 0) return out_of_memory(open_error, kWhere);
  if (whole == 0 || proa::expand_model(*bytes, *size, memory) != Status::kOk) {
    platform::release(memory);
    return fail(open_error, PROA_LITE_BAD_MODEL, "[%s] the compressed bytes are broken", kWhere);
  }
  platform::release(m->bytes);
  m->bytes = memory;
  *bytes = memory;
  *size = static_cast<size_t>(whole);
  return PROA_LITE_OK;
}

/// `owned` is what close() releases, or nullptr.
proa_lite_status open_on(const void* bytes, size_t size, void* owned, proa_lite_model** model) {
  void* memory = platform::allocate(sizeof(proa_lite_model));
  if (memory == nullptr) {
    platform::release(owned);
    return out_of_memory(open_error, "proa_lite_open");
  }
  auto* m = new (memory) proa_lite_model();
  m->bytes = owned;
  proa_lite_status status = PROA_LITE_OK;
  if (proa::is_compressed_model(bytes, size)) status = expand(m, &bytes, &size);
  if (status == PROA_LITE_OK) status = prepare(m, bytes, size);
  if (status == PROA_LITE_OK) {
    *model = m;
  } else {
    proa_lite_close(m);
  }
  return status;
}

/// Checks an input against the model's own statement and describes it as a View.
proa_lite_status accept(proa_lite_model* m, uint32_t i, const proa_lite_array& given, View* v) {
  const View& want = m->prepared.value(m->view.input_value(i));
  const char* name = m->view.name_of(m->view.input_value(i));
  if (given.dtype != static_cast<int>(want.dtype)) {
    return fail(m->error, PROA_LITE_INVALID_ARGUMENT,
                "[proa_lite_run] input '%s' must have dtype %d, got %d", name,
                static_cast<int>(want.dtype), static_cast<int>(given.dtype));
  }
  bool fits = given.rank == want.rank;
  int64_t count = 1;
  for (int a = 0; fits && a < want.rank; ++a) {
    fits = given.shape[a] >= 0 && (want.shape[a] < 0 || want.shape[a] == given.shape[a]);
    // A size that overflows cannot be in memory; the plan's own arithmetic must not see it.
    fits = fits && !__builtin_mul_overflow(count, given.shape[a], &count) && count < (1LL << 40);
  }
  if (!fits) {
    char must[128], got[128];
    const int rank = given.rank < 0 ? 0 : given.rank > proa::kMaxRank ? proa::kMaxRank : given.rank;
    write_shape(want.shape, want.rank, must, sizeof(must));
    write_shape(given.shape, rank, got, sizeof(got));
    return fail(m->error, PROA_LITE_INVALID_ARGUMENT,
                "[proa_lite_run] input '%s' must have shape %s, got %s", name, must, got);
  }
  if (given.data == nullptr && count > 0) {
    return fail(m->error, PROA_LITE_INVALID_ARGUMENT,
                "[proa_lite_run] input '%s' must have data, got NULL", name);
  }
  v->data = given.data;
  v->dtype = want.dtype;
  v->rank = want.rank;
  for (int a = 0; a < want.rank; ++a) v->shape[a] = given.shape[a];
  v->set_contiguous();
  return PROA_LITE_OK;
}

bool same_shapes(const View* a, const View* b, uint32_t n) {
  for (uint32_t i = 0; i < n; ++i) {
    if (memcmp(a[i].shape, b[i].shape, sizeof(int64_t) * static_cast<size_t>(a[i].rank)) != 0) {
      return false;
    }
  }
  return true;
}

void drop(CachedPlan* cached) {
  platform::release(cached->tables);
  platform::release(cached->inputs);
  *cached = CachedPlan{};
}

/// Makes the arena at least `size` bytes large and places the cached plans in it.
bool grow_arena(proa_lite_model* m, size_t size) {
  if (size <= m->arena_size && m->arena != nullptr) return true;
  void* larger = platform::allocate(size);
  if (larger == nullptr) return false;
  platform::release(m->arena);
  m->arena = larger;
  m->arena_size = size;
  for (CachedPlan& cached : m->plans) {
    if (cached.tables != nullptr) cached.plan.place(larger);
  }
  return true;
}

/// The plan for m->inputs: a cached one, or a new one that replaces the least recently used.
proa_lite_status find_plan(proa_lite_model* m, CachedPlan** found) {
  constexpr const char* kWhere = "proa_lite_run";
  const uint32_t n = m->view.input_count();
  CachedPlan* oldest = &m->plans[0];
  for (CachedPlan& cached : m->plans) {
    if (cached.tables != nullptr && same_shapes(cached.inputs, m->inputs, n)) {
      *found = &cached;
      return PROA_LITE_OK;
    }
    if (cached.used < oldest->used) oldest = &cached;
  }
  drop(oldest);
  const size_t size = Plan::table_size(m->prepared);
  oldest->tables = platform::allocate(size);
  oldest->inputs = static_cast<View*>(platform::allocate(n * sizeof(View)));
  if (oldest->tables == nullptr || oldest->inputs == nullptr) {
    drop(oldest);
    return out_of_memory(m->error, kWhere);
  }
  for (uint32_t i = 0; i < n; ++i) new (&oldest->inputs[i]) View(m->inputs[i]);
  const Status s = oldest->plan.build(m->prepared, m->inputs, oldest->tables, size);
  if (s != Status::kOk) {
    const uint32_t node = oldest->plan.problem_node();
    const bool known = node < m->prepared.node_count();
    fail(m->error, status_of(s), "[%s] %s: %s", kWhere,
         known ? m->prepared.node(node).op->name : "the model", reason(s));
    drop(oldest);
    return status_of(s);
  }
  if (!grow_arena(m, oldest->plan.arena_size())) {
    drop(oldest);
    return out_of_memory(m->error, kWhere);
  }
  oldest->plan.place(m->arena);
  *found = oldest;
  return PROA_LITE_OK;
}

/// Checks the caller's memory for output i.
bool output_fits(const proa_lite_array& given, const View& result) {
  bool fits = given.dtype == static_cast<int>(result.dtype) && given.rank == result.rank;
  for (int a = 0; fits && a < result.rank; ++a) fits = given.shape[a] == result.shape[a];
  return fits;
}

void describe(const View& v, proa_lite_array* a) {
  a->data = v.data;
  a->dtype = static_cast<int32_t>(v.dtype);
  a->rank = v.rank;
  for (int i = 0; i < v.rank; ++i) a->shape[i] = v.shape[i];
}

proa_lite_status spec_of(proa_lite_model* m, const char* where, int32_t index, uint32_t count,
                         bool input, proa_lite_array* spec) {
  if (m == nullptr) return PROA_LITE_INVALID_ARGUMENT;
  if (spec == nullptr || index < 0 || static_cast<uint32_t>(index) >= count) {
    return fail(m->error, PROA_LITE_INVALID_ARGUMENT,
                "[%s] index must be in [0, %u) and spec not NULL, got %d", where, count, index);
  }
  const auto i = static_cast<uint32_t>(index);
  *spec = proa_lite_array{};
  describe(m->prepared.value(input ? m->view.input_value(i) : m->view.output_value(i)), spec);
  spec->data = nullptr;
  return PROA_LITE_OK;
}

}  // namespace

PROA_EXPORT int32_t proa_lite_abi(void) { return PROA_LITE_ABI; }

PROA_EXPORT const char* proa_lite_isa(void) {
  if (choose_isa() != Status::kOk) proa::select_isa(proa::cpu_isa());
  return proa::isa_name(proa::selected_isa());
}

PROA_EXPORT proa_lite_status proa_lite_open(const char* path, proa_lite_model** model) {
  if (model == nullptr || path == nullptr) {
    return fail(open_error, PROA_LITE_INVALID_ARGUMENT,
                "[proa_lite_open] path and model must not be NULL");
  }
  *model = nullptr;
  const platform::File file = platform::read_file(path);
  switch (file.problem) {
    case platform::FileProblem::kNone:
      return open_on(file.data, file.size, file.data, model);
    case platform::FileProblem::kNoMemory:
      return out_of_memory(open_error, "proa_lite_open");
    case platform::FileProblem::kChanged:
      return fail(open_error, PROA_LITE_BAD_MODEL,
                  "[proa_lite_open] the file changed during the read: '%.200s'", path);
    default:
      return fail(open_error, PROA_LITE_NOT_FOUND,
                  "[proa_lite_open] path must be a readable, non-empty file, got '%.200s'", path);
  }
}

PROA_EXPORT proa_lite_status proa_lite_open_bytes(const void* bytes, size_t size,
                                                  proa_lite_model** model) {
  if (model == nullptr || bytes == nullptr) {
    return fail(open_error, PROA_LITE_INVALID_ARGUMENT,
                "[proa_lite_open_bytes] bytes and model must not be NULL");
  }
  *model = nullptr;
  return open_on(bytes, size, nullptr, model);
}

PROA_EXPORT void proa_lite_close(proa_lite_model* m) {
  if (m == nullptr) return;
  for (CachedPlan& cached : m->plans) drop(&cached);
  platform::release(m->arena);
  platform::release(m->packed);
  platform::release(m->tables);
  platform::release(m->inputs);
  platform::release(m->bytes);
  m->~proa_lite_model();
  platform::release(m);
}

PROA_EXPORT const char* proa_lite_error(const proa_lite_model* m) {
  return m == nullptr ? open_error : m->error;
}

PROA_EXPORT int32_t proa_lite_input_count(const proa_lite_model* m) {
  return m == nullptr ? 0 : static_cast<int32_t>(m->view.input_count());
}

PROA_EXPORT int32_t proa_lite_output_count(const proa_lite_model* m) {
  return m == nullptr ? 0 : static_cast<int32_t>(m->view.output_count());
}

PROA_EXPORT const char* proa_lite_input_name(const proa_lite_model* m, int32_t i) {
  if (i < 0 || i >= proa_lite_input_count(m)) return nullptr;
  return m->view.name_of(m->view.input_value(static_cast<uint32_t>(i)));
}

PROA_EXPORT const char* proa_lite_output_name(const proa_lite_model* m, int32_t i) {
  if (i < 0 || i >= proa_lite_output_count(m)) return nullptr;
  return m->view.name_of(m->view.output_value(static_cast<uint32_t>(i)));
}

PROA_EXPORT proa_lite_status proa_lite_input_spec(proa_lite_model* m, int32_t index,
                                                  proa_lite_array* spec) {
  const uint32_t count = m == nullptr ? 0 : m->view.input_count();
  return spec_of(m, "proa_lite_input_spec", index, count, true, spec);
}

PROA_EXPORT proa_lite_status proa_lite_output_spec(proa_lite_model* m, int32_t index,
                                                   proa_lite_array* spec) {
  const uint32_t count = m == nullptr ? 0 : m->view.output_count();
  return spec_of(m, "proa_lite_output_spec", index, count, false, spec);
}

PROA_EXPORT proa_lite_status proa_lite_run(proa_lite_model* m, const proa_lite_array* inputs,
                                           proa_lite_array* outputs) {
  if (m == nullptr) return PROA_LITE_INVALID_ARGUMENT;
  const uint32_t n_in = m->view.input_count(), n_out = m->view.output_count();
  if ((inputs == nullptr && n_in > 0) || (outputs == nullptr && n_out > 0)) {
    return fail(m->error, PROA_LITE_INVALID_ARGUMENT,
                "[proa_lite_run] inputs and outputs must not be NULL");
  }
  for (uint32_t i = 0; i < n_in; ++i) {
    const proa_lite_status status = accept(m, i, inputs[i], &m->inputs[i]);
    if (status != PROA_LITE_OK) return status;
  }
  CachedPlan* cached = nullptr;
  const proa_lite_status status = find_plan(m, &cached);
  if (status != PROA_LITE_OK) return status;
  cached->used = ++m->runs;
  for (uint32_t i = 0; i < n_out; ++i) {
    m->outputs[i] = cached->plan.output(i);
    m->outputs[i].data = outputs[i].data;
    if (outputs[i].data != nullptr && !output_fits(outputs[i], m->outputs[i])) {
      return fail(m->error, PROA_LITE_INVALID_ARGUMENT,
                  "[proa_lite_run] output '%s' must have the result's dtype and shape",
                  proa_lite_output_name(m, static_cast<int32_t>(i)));
    }
  }
  const Status s = cached->plan.run(m->inputs, m->outputs, nullptr);
  if (s != Status::kOk) {
    const uint32_t node = cached->plan.problem_node();
    const bool known = node < m->prepared.node_count();
    return fail(m->error, status_of(s), "[proa_lite_run] %s: %s",
                known ? m->prepared.node(node).op->name : "the model", reason(s));
  }
  for (uint32_t i = 0; i < n_out; ++i) describe(m->outputs[i], &outputs[i]);
  return PROA_LITE_OK;
}

PROA_EXPORT size_t proa_lite_memory(const proa_lite_model* m) {
  if (m == nullptr) return 0;
  size_t bytes = sizeof(*m) + m->table_size + m->prepared.packed_size() + m->arena_size;
  for (const CachedPlan& cached : m->plans) {
    if (cached.tables != nullptr) bytes += Plan::table_size(m->prepared);
  }
  return bytes;
}
