#include "proa/model/model_view.h"

#include <string.h>

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "model files are little-endian");

namespace proa {

namespace {

constexpr uint32_t kHeaderBytes = 104;
constexpr uint32_t kTableAt = 40;

static_assert(sizeof(OpRecord) == 8 && sizeof(ValueRecord) == 88, "records are the file's");
static_assert(sizeof(NodeRecord) == 32 && sizeof(BlockRecord) == 32, "records are the file's");

template <class T>
T read(const uint8_t* at) {
  T value;
  memcpy(&value, at, sizeof(T));
  return value;
}

/// Whether the bytes are UTF-8 as RFC 3629 has it: no overlong forms, surrogates or NUL.
bool is_text(const uint8_t* p, uint64_t size) {
  for (const uint8_t* end = p + size; p < end;) {
    const uint8_t first = *p++;
    if (first == 0) return false;
    if (first < 0x80) continue;
    const int more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : 1;
    if (first < 0xc2 || first > 0xf4 || end - p < more) return false;
    // The second byte's range excludes what the first one alone does not.
    const uint8_t low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    const uint8_t high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    if (*p < low || *p > high) return false;
    for (int i = 1; i < more; ++i) {
      if ((p[i] & 0xc0) != 0x80) return false;
    }
    p += more;
  }
  return true;
}

}  // namespace

const char* ModelView::string(uint32_t id) const {
  return reinterpret_cast<const char*>(graph_) + at<uint32_t>(strings_)[2 * id];
}

const char* ModelView::metadata(const char* key) const {
  for (uint32_t i = 0; i < metadata_count(); ++i) {
    if (strcmp(metadata_key(i), key) == 0) return metadata_value(i);
  }
  return nullptr;
}

View ModelView::view(uint32_t value_id) const {
  const ValueRecord& r = value(value_id);
  View v;
  v.dtype = r.dtype;
  v.rank = r.rank;
  for (int i = 0; i < r.rank; ++i) v.shape[i] = r.shape[i];
  v.set_contiguous();
  if (r.kind >= ValueKind::kConstant) {
    const void* data = weights_ != nullptr ? weights_[value_id] : graph_ + r.data_offset;
    v.data = const_cast<void*>(data);
  }
  return v;
}

/// Runs the checks in an order in which each may rely on those before.
struct ModelChecker {
  ModelView* m;
  uint64_t graph_size = 0;

  Status fail(const char* why, Status status = Status::kBadModel) {
    m->problem_ = why;
    return status;
  }

  Status header(const uint8_t* bytes, size_t size) {
    if (reinterpret_cast<uintptr_t>(bytes) % kModelAlign != 0) {
      return fail("the bytes must be aligned to 16", Status::kInvalidArgument);
    }
    if (size < 8) return fail("the file is shorter than its first field");
    const uint64_t json = read<uint64_t>(bytes);
    if (json > size - 8 || (json + 8) % 64 != 0) return fail("no safetensors header of a model");
    const uint64_t start = json + 8;
    m->graph_ = bytes + start;
    m->data_size_ = size - start;
    if (m->data_size_ < kHeaderBytes) return fail("the file ends inside the graph's header");
    if (memcmp(m->graph_, "PROAGRPH", 8) != 0) return fail("the first tensor is not a graph");
    if (read<uint32_t>(m->graph_ + 8) != kModelFormat) {
      return fail("the file has another format version", Status::kVersion);
    }
    const uint32_t header_size = read<uint32_t>(m->graph_ + 12);
    graph_size = read<uint64_t>(m->graph_ + 16);
    if (read<uint64_t>(m->graph_ + 24) != m->data_size_)
      return fail("the file's size differs from the size in its header");
    if (graph_size > m->data_size_) return fail("the graph ends outside the file");
    if (graph_size > kMaxGraphBytes) {
      return fail("the graph has more than 4 GiB", Status::kResourceExhausted);
    }
    if (header_size < kHeaderBytes || header_size > graph_size)
      return fail("the graph's header size is wrong");
    return Status::kOk;
  }

  Status table(int index, uint32_t record, ModelView::Table* t) {
    const uint8_t* at = m->graph_ + kTableAt + 8 * index;
    t->offset = read<uint32_t>(at);
    t->count = read<uint32_t>(at + 4);
    if (t->offset % 8 != 0 || t->offset > graph_size ||
        uint64_t{t->count} * record > graph_size - t->offset) {
      return fail("a table is outside the graph");
    }
    return Status::kOk;
  }

  Status tables() {
    PROA_TRY(table(0, 8, &m->strings_));
    PROA_TRY(table(1, sizeof(OpRecord), &m->ops_));
    PROA_TRY(table(2, sizeof(ValueRecord), &m->values_));
    PROA_TRY(table(3, sizeof(NodeRecord), &m->nodes_));
    PROA_TRY(table(4, sizeof(BlockRecord), &m->blocks_));
    PROA_TRY(table(5, 4, &m->ids_));
    PROA_TRY(table(6, 8, &m->metadata_));
    return table(7, 1, &m->attributes_);
  }

  bool is_string(uint32_t id) const { return id < m->strings_.count; }

  Status names() {
    for (uint32_t i = 0; i < m->strings_.count; ++i) {
      const uint32_t* s = m->at<uint32_t>(m->strings_) + 2 * i;
      const uint64_t end = uint64_t{s[0]} + s[1];
      if (end >= graph_size || m->graph_[end] != 0) return fail("a string is outside the graph");
      if (!is_text(m->graph_ + s[0], s[1])) return fail("a string is not UTF-8");
    }
    for (uint32_t i = 0; i < m->ops_.count; ++i) {
      if (!is_string(m->op(i).name)) return fail("an op has no name");
    }
    for (uint32_t i = 0; i < 2 * m->metadata_.count; ++i) {
      if (!is_string(m->at<uint32_t>(m->metadata_)[i]))
        return fail("a metadata string does not exist");
    }
    return Status::kOk;
  }

  Status value(uint32_t id) {
    const ValueRecord& v = m->value(id);
    if (!is_string(v.name)) return fail("a value has no name");
    if (static_cast<int>(v.dtype) >= kDTypeCount) return fail("a value has an unknown dtype");
    if (v.rank < 0 || v.rank > kMaxRank) return fail("a value's rank is not in 0..8");
    if (v.kind > ValueKind::kParameter) return fail("a value has an unknown kind");
    const bool constant = v.kind >= ValueKind::kConstant;
    uint64_t bytes = size_of(v.dtype);
    bool empty = false;
    for (int i = 0; i < v.rank; ++i) {
      const int64_t d = v.shape[i];
      if (d < (constant ? 0 : kUnknown)) return fail("a value has a negative dimension");
      empty |= d == 0;
      if (d > 0) {
        if (bytes > (uint64_t{1} << 62) / static_cast<uint64_t>(d))
          return fail("a value is too large");
        bytes *= static_cast<uint64_t>(d);
      }
    }
    if (!constant) return Status::kOk;
    if (empty) bytes = 0;
    if (v.data_size != bytes) return fail("the size of a constant's data does not match its shape");
    if (v.data_offset > m->data_size_ || bytes > m->data_size_ - v.data_offset) {
      return fail("a constant's data is outside the file");
    }
    if (v.data_offset % 64 != 0) return fail("a constant's data is not aligned to 64");
    if (bytes > 0 && v.data_offset < graph_size) return fail("a constant's data is in the graph");
    return Status::kOk;
  }

  bool has_ids(uint32_t first, uint32_t count) const {
    return uint64_t{first} + count <= m->ids_.count;
  }

  Status node(const NodeRecord& n, uint32_t block_first, uint32_t constants, uint32_t* next) {
    if (n.op >= m->ops_.count) return fail("a node has an unknown op");
    if (!has_ids(n.input_first, n.input_count))
      return fail("a node's inputs are outside the table of ids");
    if (n.output_first != *next || n.output_count > m->values_.count - *next) {
      return fail("a node's outputs are out of order");
    }
    const uint32_t* ids = m->inputs(n);
    for (uint32_t i = 0; i < n.input_count; ++i) {
      const bool sound =
          ids[i] == kNoValue || ids[i] < constants || (ids[i] >= block_first && ids[i] < *next);
      if (!sound) return fail("a node reads a value that is not defined before it");
    }
    if (n.attr_size != 0 && (n.attr_offset % 8 != 0 || n.attr_offset < m->attributes_.offset ||
                             uint64_t{n.attr_offset} + n.attr_size >
                                 uint64_t{m->attributes_.offset} + m->attributes_.count)) {
      return fail("a node's attributes are outside their table");
    }
    for (uint32_t i = 0; i < n.output_count; ++i) {
      if (m->value((*next)++).kind != ValueKind::kNode)
        return fail("a value's kind does not match its position");
    }
    return Status::kOk;
  }

  Status block(const BlockRecord& b, uint32_t constants, uint32_t* next_node,
               uint32_t* next_value) {
    if (b.node_first != *next_node || b.node_count > m->nodes_.count - *next_node ||
        b.value_first != *next_value || b.value_count > m->values_.count - *next_value) {
      return fail("blocks are out of order");
    }
    if (b.input_count > b.value_count) return fail("a block has more inputs than values");
    for (uint32_t i = 0; i < b.input_count; ++i) {
      if (m->value((*next_value)++).kind != ValueKind::kInput)
        return fail("a value's kind does not match its position");
    }
    for (uint32_t i = 0; i < b.node_count; ++i) {
      PROA_TRY(node(m->node((*next_node)++), b.value_first, constants, next_value));
    }
    if (*next_value != b.value_first + b.value_count)
      return fail("a block's values are not its nodes' outputs");
    if (!has_ids(b.output_first, b.output_count))
      return fail("a block's outputs are outside the table of ids");
    const uint32_t* outputs = m->at<uint32_t>(m->ids_) + b.output_first;
    for (uint32_t i = 0; i < b.output_count; ++i) {
      if (!(outputs[i] < constants || (outputs[i] >= b.value_first && outputs[i] < *next_value))) {
        return fail("a block's output does not exist");
      }
    }
    return Status::kOk;
  }

  Status graph() {
    for (uint32_t i = 0; i < m->values_.count; ++i) PROA_TRY(value(i));
    uint32_t constants = 0;
    while (constants < m->values_.count && m->value(constants).kind >= ValueKind::kConstant)
      ++constants;
    if (m->blocks_.count == 0) return fail("the model has no block");
    uint32_t next_node = 0, next_value = constants;
    for (uint32_t i = 0; i < m->blocks_.count; ++i) {
      PROA_TRY(block(m->block(i), constants, &next_node, &next_value));
    }
    if (next_node != m->nodes_.count || next_value != m->values_.count) {
      return fail("a node or value belongs to no block");
    }
    return Status::kOk;
  }
};

Status open_model(const void* bytes, size_t size, ModelView* model) {
  *model = ModelView();
  ModelChecker check{model};
  PROA_TRY(check.header(static_cast<const uint8_t*>(bytes), size));
  PROA_TRY(check.tables());
  PROA_TRY(check.names());
  return check.graph();
}

bool has_distinct_inputs(const ModelView& model, uint32_t* table) {
  const uint32_t count = model.input_count(), slots = name_table_slots(count);
  for (uint32_t k = 0; k < slots; ++k) table[k] = kNoValue;
  for (uint32_t i = 0; i < count; ++i) {
    const char* name = model.name_of(model.input_value(i));
    uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a
    for (const char* c = name; *c != 0; ++c) {
      hash = (hash ^ static_cast<uint8_t>(*c)) * 0x100000001b3u;
    }
    uint32_t k = static_cast<uint32_t>(hash ^ (hash >> 32)) & (slots - 1);
    for (; table[k] != kNoValue; k = (k + 1) & (slots - 1)) {
      if (strcmp(name, model.name_of(model.input_value(table[k]))) == 0) return false;
    }
    table[k] = i;
  }
  return true;
}

Crc32::Crc32() {
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t c = i;
    for (int k = 0; k < 8; ++k) c = (c & 1) != 0 ? (c >> 1) ^ 0xedb88320u : c >> 1;
    table_[0][i] = c;
  }
  for (int k = 1; k < 4; ++k) {
    for (uint32_t i = 0; i < 256; ++i) {
      table_[k][i] = (table_[k - 1][i] >> 8) ^ table_[0][table_[k - 1][i] & 255];
    }
  }
}

uint32_t Crc32::update(uint32_t crc, const uint8_t* p, size_t n) const {
  for (; n >= 4; n -= 4, p += 4) {
    crc ^= read<uint32_t>(p);
    crc = table_[3][crc & 255] ^ table_[2][(crc >> 8) & 255] ^ table_[1][(crc >> 16) & 255] ^
          table_[0][crc >> 24];
  }
  for (; n > 0; --n, ++p) crc = (crc >> 8) ^ table_[0][(crc ^ *p) & 255];
  return crc;
}

Status verify_checksum(const void* bytes, size_t size) {
  const auto* p = static_cast<const uint8_t*>(bytes);
  const size_t at = static_cast<size_t>(read<uint64_t>(p)) + 8 + kChecksumAt;
  const uint8_t zero[4] = {};
  const Crc32 crc32;
  uint32_t crc = crc32.update(0xffffffffu, p, at);
  crc = crc32.update(crc, zero, 4);
  crc = ~crc32.update(crc, p + at + 4, size - at - 4);
  return crc == read<uint32_t>(p + at) ? Status::kOk : Status::kBadModel;
}

}  // namespace proa
