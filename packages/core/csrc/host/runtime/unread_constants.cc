#include "proa/runtime/unread_constants.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <numeric>

namespace proa {

UnreadConstants::UnreadConstants(const Prepared& prepared, WeightBytes bytes)
    : prepared_(prepared), bytes_(bytes) {
  const ModelView& model = prepared.model();
  for (uint32_t id = 0; id < prepared.value_count(); ++id) {
    const ValueRecord& value = model.value(id);
    if (value.kind < ValueKind::kConstant) break;
    constants_.push_back({static_cast<const uint8_t*>(prepared.value(id).data),
                          static_cast<size_t>(value.data_size)});
  }
  count_readers();
  keep_overlapping();
  drop_gaps();
}

void UnreadConstants::count_readers() {
  const ModelView& model = prepared_.model();
  const auto keep = [this](uint32_t id) {
    if (id < constants_.size()) constants_[id].read_unpacked = true;
  };
  for (uint32_t i = 0; i < prepared_.node_count(); ++i) {
    const NodeRecord& node = model.node(i);
    const uint32_t* ids = model.inputs(node);
    const auto packs = static_cast<uint8_t>(prepared_.node(i).op->pack_input);
    const bool is_packed = prepared_.pack_size(i) > 0;
    for (uint32_t k = 0; k < node.input_count; ++k) {
      if (is_packed && k == packs && ids[k] < constants_.size())
        ++constants_[ids[k]].readers;
      else
        keep(ids[k]);
    }
  }
  for (uint32_t i = 0; i < model.output_count(); ++i) keep(model.output_value(i));
  for (Constant& c : constants_) c.read_unpacked = c.read_unpacked || c.readers == 0;
}

// Constants may share memory: a folded view, or tensors of a file that overlap.
void UnreadConstants::keep_overlapping() {
  std::vector<uint32_t> order(constants_.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [this](uint32_t a, uint32_t b) { return constants_[a].data < constants_[b].data; });
  uint32_t furthest = 0;  // among the previous ones, the one that ends last
  for (size_t i = 1; i < order.size(); ++i) {
    if (i == 1) furthest = order[0];
    Constant &before = constants_[furthest], &c = constants_[order[i]];
    if (c.size > 0 && c.data < before.data + before.size)
      before.read_unpacked = c.read_unpacked = true;
    if (c.data + c.size > before.data + before.size) furthest = order[i];
  }
}

// Releases what no constant occupies: weights that passes replaced, the graph.
void UnreadConstants::drop_gaps() const {
  if (bytes_.size == 0) return;
  const auto* at = static_cast<const uint8_t*>(bytes_.data);
  const uint8_t* const end = at + bytes_.size;
  std::vector<const Constant*> inside;
  for (const Constant& c : constants_)
    if (c.size > 0 && c.data < end && c.data + c.size > at) inside.push_back(&c);
  std::sort(inside.begin(), inside.end(),
            [](const Constant* a, const Constant* b) { return a->data < b->data; });
  for (const Constant* c : inside) {
    if (c->data > at) drop(at, c->data);
    at = std::max(at, c->data + c->size);
  }
  if (at < end) drop(at, end);
}

void UnreadConstants::packed(uint32_t i) {
  const ModelView& model = prepared_.model();
  const uint32_t id = model.inputs(model.node(i))[prepared_.node(i).op->pack_input];
  if (id >= constants_.size()) return;  // a view of constants
  Constant& c = constants_[id];
  if (--c.readers > 0 || c.read_unpacked) return;
  const auto* first = static_cast<const uint8_t*>(bytes_.data);
  if (c.data >= first && c.data + c.size <= first + bytes_.size) drop(c.data, c.data + c.size);
}

// Releases the whole pages in [from, to); a page at either end may hold other data.
void UnreadConstants::drop(const uint8_t* from, const uint8_t* to) const {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t first = (reinterpret_cast<uintptr_t>(from) + page - 1) / page * page;
  const uintptr_t last = reinterpret_cast<uintptr_t>(to) / page * page;
  // Private memory reads as zeros afterwards. Failure is harmless: the memory stays.
  if (last > first) madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
}

std::vector<uint32_t> UnreadConstants::ids() const {
  std::vector<uint32_t> ids;
  for (uint32_t id = 0; id < constants_.size(); ++id)
    if (!constants_[id].read_unpacked) ids.push_back(id);
  return ids;
}

}  // namespace proa
