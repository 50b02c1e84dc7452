#include "proa/runtime/extension.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>

#include "proa/runtime/allocator.h"
#include "proa/runtime/error.h"
#include "proa/runtime/extension_plan.h"
#include "proa/runtime/pool.h"

namespace proa {

static_assert(sizeof(ProaView) == sizeof(View), "both describe the same thing");
static_assert(offsetof(ProaView, shape) == offsetof(View, shape) &&
                  offsetof(ProaView, stride) == offsetof(View, stride) &&
                  offsetof(ProaView, rank) == offsetof(View, rank) &&
                  offsetof(ProaView, dtype) == offsetof(View, dtype),
              "in the same places");

namespace {

struct Registry {
  std::mutex mutex;
  std::map<std::string, const ExtensionOp*> ops;
  std::map<std::string, std::vector<const ExtensionOp*>> loaded;  // by path
};
Registry& registry() {
  static auto* instance = new Registry();
  return *instance;
}

struct Sink {
  ExtensionResults results;
  std::string message;
};

// -- what extensions call -------------------------------------------------------------------

void* host_allocate(size_t bytes, void** data) {
  try {
    Storage* storage = take_offer(bytes);
    if (storage == nullptr) storage = Storage::create(bytes);
    *data = storage->data();
    return storage;
  } catch (const std::exception&) {
    return nullptr;
  }
}
void host_retain(void* memory) { static_cast<Storage*>(memory)->retain(); }
void host_drop(void* memory) { static_cast<Storage*>(memory)->drop(); }

void host_parallel(int64_t n, int64_t grain, void (*body)(void*, int64_t, int64_t), void* arg) {
  if (n > 0) ThreadPool::global().run(n, grain > 0 ? grain : 1, body, arg);
}

void host_result(void* sink, const ProaTensor* tensor) {
  auto& results = static_cast<Sink*>(sink)->results.tensors;
  if (tensor->memory != nullptr) host_retain(tensor->memory);
  results.push_back(*tensor);
}
void host_fail(void* sink, const char* message) { static_cast<Sink*>(sink)->message = message; }

constexpr ProaHost kHost = {PROA_EXTENSION_ABI, sizeof(ProaHost), host_allocate, host_retain,
                            host_drop,          host_parallel,    host_result,   host_fail};

// -- declarations ---------------------------------------------------------------------------

[[noreturn]] void fail(const std::string& where, const std::string& what) {
  throw Error(ErrorKind::kInvalidArgument, "[" + where + "] " + what);
}

// "X", "X@VECTOR", "X@OPTIONAL", with @GRAD anywhere.
ExtensionInput parse_input(std::string text) {
  ExtensionInput input;
  using Mark = std::pair<const char*, ExtensionInput::Kind>;
  for (const auto& [mark, kind] :
       {Mark{"@VECTOR", ExtensionInput::kVector}, Mark{"@OPTIONAL", ExtensionInput::kOptional}}) {
    const size_t at = text.find(mark);
    if (at == std::string::npos) continue;
    text.erase(at, std::strlen(mark));
    input.kind = kind;
  }
  input.name = text;
  return input;
}

ExtensionAttribute parse_attribute(const std::string& op, const std::string& text) {
  struct Known {
    const char* text;
    const char* type;
    int kind;
    bool list;
  };
  static constexpr Known kKnown[] = {
      {"bool", "bool", PROA_ATTRIBUTE_INTS, false},
      {"int", "int", PROA_ATTRIBUTE_INTS, false},
      {"int64_t", "int", PROA_ATTRIBUTE_INTS, false},
      {"float", "float", PROA_ATTRIBUTE_FLOATS, false},
      {"double", "float", PROA_ATTRIBUTE_FLOATS, false},
      {"std::string", "text", PROA_ATTRIBUTE_TEXTS, false},
      {"std::vector<int>", "list of int", PROA_ATTRIBUTE_INTS, true},
      {"std::vector<int64_t>", "list of int", PROA_ATTRIBUTE_INTS, true},
      {"std::vector<float>", "list of float", PROA_ATTRIBUTE_FLOATS, true},
      {"std::vector<double>", "list of float", PROA_ATTRIBUTE_FLOATS, true},
      {"std::vector<std::string>", "list of text", PROA_ATTRIBUTE_TEXTS, true},
  };
  std::string plain;
  for (const char c : text) {
    if (c != ' ') plain += c;
  }
  const size_t colon = plain.find(':');
  if (colon != std::string::npos && colon > 0) {
    for (const Known& known : kKnown) {
      if (plain.substr(colon + 1) != known.text) continue;
      return {plain.substr(0, colon), known.type, known.kind, known.list};
    }
  }
  fail(op,
       "an attribute must read 'name: type' with a type of bool, int, int64_t, float, double, "
       "std::string or a std::vector of one, got '" +
           text + "'");
}

std::unique_ptr<ExtensionOp> parse_operator(const ProaOperator& from) {
  auto op = std::make_unique<ExtensionOp>();
  op->abi = &from;
  op->name = from.name;
  for (int i = 0; i < from.input_count; ++i) op->inputs.push_back(parse_input(from.inputs[i]));
  for (int i = 0; i < from.output_count; ++i) op->outputs.push_back(parse_input(from.outputs[i]));
  for (int i = 0; i < from.attribute_count; ++i) {
    op->attributes.push_back(parse_attribute(op->name, from.attributes[i]));
  }
  if (op->outputs.empty()) fail(op->name, "an operator must have an output, got none");
  const OpInfo* row = find_op(op->name.c_str());
  if (row != nullptr && row->id < op_count()) {
    fail(op->name, "expected a name that no operator of Proa has");
  }
  return op;
}

}  // namespace

ExtensionResults::~ExtensionResults() {
  for (const ProaTensor& t : tensors) {
    if (t.memory != nullptr) static_cast<Storage*>(t.memory)->drop();
  }
}

const ExtensionOp* ExtensionOp::grad() const { return find_extension_op(name + "_grad"); }

const ExtensionOp* find_extension_op(const std::string& name) {
  Registry& r = registry();
  const std::lock_guard<std::mutex> lock(r.mutex);
  const auto found = r.ops.find(name);
  return found == r.ops.end() ? nullptr : found->second;
}

const ProaHost& extension_host() { return kHost; }

const ExtensionOp* register_operator(const ProaOperator& declared) {
  Registry& r = registry();
  const std::lock_guard<std::mutex> lock(r.mutex);
  std::unique_ptr<ExtensionOp> op = parse_operator(declared);
  make_plannable(op.get());
  r.ops[op->name] = op.get();
  return op.release();  // for ever: plans and nodes point to it
}

std::vector<const ExtensionOp*> load_extension(const std::string& path) {
  Registry& r = registry();
  const std::lock_guard<std::mutex> lock(r.mutex);
  const auto known = r.loaded.find(path);
  if (known != r.loaded.end()) return known->second;
  const auto unavailable = [&path](const std::string& what) {
    throw Error(ErrorKind::kUnavailable, "[load_extension] " + path + " is not " + what);
  };
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    unavailable(std::string("a library that can be opened, got ") + dlerror());
  const auto entry = reinterpret_cast<ProaExtensionEntry>(dlsym(library, PROA_EXTENSION_ENTRY));
  if (entry == nullptr) unavailable("an extension (include proa/extension.h), got another library");
  const ProaExtension* extension = entry(&kHost);
  if (extension == nullptr || extension->abi != PROA_EXTENSION_ABI) {
    unavailable("built for extensions of version " + std::to_string(PROA_EXTENSION_ABI) + ", got " +
                (extension == nullptr ? "another" : std::to_string(extension->abi)) +
                "; build it again");
  }
  std::vector<std::unique_ptr<ExtensionOp>> parsed;
  parsed.reserve(static_cast<size_t>(std::max(extension->operator_count, 0)));
  for (int i = 0; i < extension->operator_count; ++i) {
    parsed.push_back(parse_operator(extension->operators[i]));
  }
  std::vector<const ExtensionOp*> ops;
  for (auto& op : parsed) {
    make_plannable(op.get());
    r.ops[op->name] = op.get();
    ops.push_back(op.release());  // for ever: plans and nodes point to it
  }
  r.loaded[path] = ops;
  return ops;
}

ExtensionResults call_extension(const ExtensionOp& op, const ProaTensor* tensors,
                                const std::vector<int64_t>& counts,
                                const std::vector<uint8_t>& attributes, bool infer) {
  Sink sink;
  ProaArguments arguments = {};
  arguments.tensors = tensors;
  arguments.counts = counts.data();
  arguments.input_count = static_cast<int32_t>(counts.size());
  arguments.infers = infer ? 1 : 0;
  arguments.attributes = attributes.data();
  arguments.attribute_bytes = attributes.size();
  arguments.sink = &sink;
  const int failed = infer ? op.abi->infer(op.abi, &arguments) : op.abi->run(op.abi, &arguments);
  if (failed != 0) fail(op.name, sink.message);
  for (const ProaTensor& t : sink.results.tensors) {
    const bool sound = t.view.rank >= 0 && t.view.rank <= kMaxRank && t.view.dtype < kDTypeCount;
    if (!sound || (!infer && t.view.data == nullptr)) {
      fail(op.name, "expected results with memory, got one without");
    }
  }
  const bool lists = !op.plannable;
  const size_t given = sink.results.tensors.size();
  if (lists ? given < op.outputs.size() : given != op.outputs.size()) {
    fail(op.name, "expected " + std::to_string(op.outputs.size()) + " results, got " +
                      std::to_string(given));
  }
  return std::move(sink.results);
}

std::vector<uint8_t> pack_values(const std::vector<ExtensionValue>& values) {
  std::vector<uint8_t> bytes;
  const auto put = [&bytes](const void* data, size_t size) {
    const auto* from = static_cast<const uint8_t*>(data);
    bytes.insert(bytes.end(), from, from + size);
  };
  for (const ExtensionValue& v : values) {
    const size_t count = v.kind == PROA_ATTRIBUTE_INTS     ? v.ints.size()
                         : v.kind == PROA_ATTRIBUTE_FLOATS ? v.floats.size()
                                                           : v.texts.size();
    const uint32_t head[2] = {static_cast<uint32_t>(v.kind), static_cast<uint32_t>(count)};
    put(head, sizeof head);
    put(v.ints.data(), v.ints.size() * 8);
    put(v.floats.data(), v.floats.size() * 8);
    for (const std::string& text : v.texts) {
      const auto length = static_cast<int64_t>(text.size());
      put(&length, 8);
      put(text.data(), text.size());
      bytes.resize((bytes.size() + 7) / 8 * 8);
    }
  }
  return bytes;
}

std::vector<uint8_t> pack_struct(const std::vector<int64_t>& counts,
                                 const std::vector<uint8_t>& attributes) {
  std::vector<uint8_t> bytes(8 + counts.size() * 8);
  const uint32_t head[2] = {static_cast<uint32_t>(bytes.size() + attributes.size()),
                            static_cast<uint32_t>(counts.size())};
  std::memcpy(bytes.data(), head, sizeof head);
  if (!counts.empty()) std::memcpy(bytes.data() + 8, counts.data(), counts.size() * 8);
  bytes.insert(bytes.end(), attributes.begin(), attributes.end());
  return bytes;
}

}  // namespace proa
