// Chains: elementwise steps of one shape that a plan runs together, a block of elements at a time,
// each by its op's own kernel. A block's intermediate results are in buffers on the thread's stack
// that stay in cache, not in the arena. Output elements depend on the same input elements alone, so
// results equal those of the steps one by one.
#include "proa/base/arith.h"
#include "proa/base/task_size.h"
#include "proa/exec/plan.h"
#include "proa/exec/same_layout.h"

namespace proa {

namespace {

// Sizes of arrays on the stack: results of a chain that are in no array, and views of its steps.
constexpr uint32_t kBuffers = 4;
constexpr uint32_t kSlots = 48;

/// The view's step along axis a of a space of `rank` axes that it is broadcast to.
int64_t step_along(const View& v, int rank, int a) {
  const int own = a - (rank - v.rank);
  return own >= 0 && v.shape[own] != 1 ? v.stride[own] : 0;
}

bool same_shape(const View& a, const View& b) {
  if (a.rank != b.rank) return false;
  for (int i = 0; i < a.rank; ++i) {
    if (a.shape[i] != b.shape[i]) return false;
  }
  return true;
}

bool broadcasts_to(const View& v, const View& space) {
  if (v.rank > space.rank) return false;
  for (int i = 0; i < v.rank; ++i) {
    if (v.shape[i] != 1 && v.shape[i] != space.shape[space.rank - v.rank + i]) return false;
  }
  return true;
}

}  // namespace

/// Blocks split one axis of the space; they are whole along the axes after it and of size 1 along
/// those before it.
struct Plan::Chain {
  uint32_t first, count;  // steps
  uint32_t slot, slots;
  int rank, axis;
  int64_t shape[kMaxRank];
  int64_t width;  // of a block along `axis`
  int64_t splits, blocks, grain;
};

size_t Plan::chain_table_size(uint32_t chain_count) { return chain_count * sizeof(Chain); }

void Plan::note_chain(uint32_t first_step, uint32_t nodes) {
  if (step_count_ - first_step != nodes || nodes < 2) return;
  const Step &first = steps_[first_step], &last = steps_[step_count_ - 1];
  const uint32_t slots = last.slot + last.n_in + last.n_out - first.slot;
  Chain& chain = chains_[chain_count_];
  chain = Chain{};
  chain.first = first_step;
  chain.count = nodes;
  chain.slot = first.slot;
  chain.slots = slots;
  if (slots <= kSlots) ++chain_count_;
}

bool Plan::is_shape_only(const Step& step, uint32_t slot) const {
  const uint32_t k = slot - step.slot;
  return k < 32 && ((prepared_->node(step.node).op->shape_only >> k) & 1) != 0;
}

/// Results of the chain itself must be read elementwise, in their own layout.
bool Plan::fits_input(const Chain& chain, uint32_t step, uint32_t slot) const {
  const View& in = slots_[slot];
  if (!broadcasts_to(in, slots_[steps_[chain.first].slot + steps_[chain.first].n_in])) return false;
  for (uint32_t s = chain.first; s < step; ++s) {
    const uint32_t out = steps_[s].slot + steps_[s].n_in;
    if (refs_[out].root != refs_[slot].root) continue;
    return same_layout(in, slots_[out]) && refs_[slot].offset == 0;
  }
  return true;
}

bool Plan::fits_chain(const Chain& chain) const {
  const View& space = slots_[chain.slot + steps_[chain.first].n_in];
  size_t widest = 1;
  for (uint32_t s = chain.first; s < chain.first + chain.count; ++s) {
    const Step& step = steps_[s];
    if (step.node == kNone || step.n_out != 1 || step.scratch != kNone) return false;
    if (!prepared_->node(step.node).op->elementwise) return false;
    const uint32_t out = step.slot + step.n_in;
    const Root& produced = roots_[refs_[out].root];
    if (produced.kind != RootKind::kArena && produced.kind != RootKind::kOutput) return false;
    if (produced.first != s || refs_[out].offset != 0 || !same_shape(slots_[out], space))
      return false;
    for (uint32_t k = step.slot; k < out; ++k) {
      if (!slots_[k].given() || is_shape_only(step, k)) continue;
      if (!fits_input(chain, s, k)) return false;
      if (size_of(slots_[k].dtype) > widest) widest = size_of(slots_[k].dtype);
    }
    if (size_of(slots_[out].dtype) > widest) widest = size_of(slots_[out].dtype);
  }
  return space.numel() >= static_cast<int64_t>(kMinChainBytes / widest);
}

/// Assigns a block's buffer to results that only the chain reads, if possible that of an input that
/// is not read again; if none is left, the result stays in the arena.
void Plan::choose_buffers(const Chain& chain) {
  uint32_t until[kBuffers] = {};  // the last step that reads the buffer, and 1
  DType held[kBuffers] = {};
  for (uint32_t s = chain.first; s < chain.first + chain.count; ++s) {
    const uint32_t out = steps_[s].slot + steps_[s].n_in;
    const DType dtype = slots_[out].dtype;
    Root& produced = roots_[refs_[out].root];
    if (produced.kind != RootKind::kArena || produced.last >= chain.first + chain.count) continue;
    uint32_t best = kBuffers;
    for (uint32_t b = 0; b < kBuffers; ++b) {
      if (until[b] == s + 1 && held[b] == dtype) best = b;
    }
    for (uint32_t b = 0; b < kBuffers && best == kBuffers; ++b) {
      if (until[b] <= s) best = b;
    }
    if (best == kBuffers) continue;
    until[best] = produced.last + 1;
    held[best] = dtype;
    produced.kind = RootKind::kBlock;
    produced.index = best;
  }
}

/// Orders the axes by the strides of the chain's first result in memory, drops those of size 1 and
/// merges adjacent axes where every array's strides allow. The chain's views take that form.
void Plan::flatten(Chain* chain) {
  uint32_t lead = steps_[chain->first].slot + steps_[chain->first].n_in;
  for (uint32_t s = chain->first; s < chain->first + chain->count; ++s) {
    const uint32_t out = steps_[s].slot + steps_[s].n_in;
    if (roots_[refs_[out].root].kind == RootKind::kBlock) continue;
    lead = out;
    break;
  }
  const View space = slots_[lead];
  int order[kMaxRank] = {}, count = 0;
  for (int a = 0; a < space.rank; ++a) {
    if (space.shape[a] == 1) continue;
    int at = count++;
    for (; at > 0 && space.stride[order[at - 1]] < space.stride[a]; --at) order[at] = order[at - 1];
    order[at] = a;
  }
  for (int i = 0; i < count; ++i) {
    const int a = order[i], before = i > 0 ? order[i - 1] : -1;
    bool joins = i > 0;
    for (uint32_t k = chain->slot; joins && k < chain->slot + chain->slots; ++k) {
      if (!slots_[k].given() || !broadcasts_to(slots_[k], space)) continue;
      if (roots_[refs_[k].root].kind == RootKind::kBlock) continue;
      joins = step_along(slots_[k], space.rank, before) ==
              step_along(slots_[k], space.rank, a) * space.shape[a];
    }
    if (!joins) chain->shape[chain->rank++] = 1;
    chain->shape[chain->rank - 1] *= space.shape[a];
    order[chain->rank - 1] = a;  // the innermost of those merged
  }
  for (uint32_t k = chain->slot; k < chain->slot + chain->slots; ++k) {
    View& v = slots_[k];
    if (!v.given() || !broadcasts_to(v, space)) continue;  // of that only the shape is read
    const View old = v;
    const bool one = old.numel() == 1;
    v.rank = static_cast<int8_t>(chain->rank);
    for (int d = 0; d < chain->rank; ++d) {
      v.shape[d] = one ? 1 : chain->shape[d];
      v.stride[d] = one ? 0 : step_along(old, space.rank, order[d]);
    }
  }
}

/// Chooses the blocks. They depend on shapes alone.
void Plan::split(Chain* chain) {
  size_t widest = 1;
  for (uint32_t k = chain->slot; k < chain->slot + chain->slots; ++k) {
    if (slots_[k].given() && size_of(slots_[k].dtype) > widest) widest = size_of(slots_[k].dtype);
  }
  const int64_t block_elements = static_cast<int64_t>(kChainBlockBytes / widest);
  int64_t inner = 1;
  chain->axis = chain->rank - 1;
  while (chain->axis > 0 && inner * chain->shape[chain->axis] <= block_elements) {
    inner *= chain->shape[chain->axis--];
  }
  const int64_t length = chain->shape[chain->axis];
  chain->width = max(block_elements / inner, 1);
  chain->splits = ceil_div(length, chain->width);
  chain->width = ceil_div(length, chain->splits);  // blocks of nearly equal width
  chain->splits = ceil_div(length, chain->width);
  chain->grain = ceil_div(kElementTask, chain->width * inner);
  chain->blocks = chain->splits;
  for (int d = 0; d < chain->axis; ++d) chain->blocks *= chain->shape[d];
  for (uint32_t k = chain->slot; k < chain->slot + chain->slots; ++k) {
    View& v = slots_[k];
    if (!v.given() || v.rank != chain->rank) continue;
    for (int d = 0; d < chain->axis; ++d) v.shape[d] = 1;
    if (roots_[refs_[k].root].kind != RootKind::kBlock) continue;
    int64_t stride = 1;
    for (int d = chain->rank - 1; d >= 0; --d) {
      v.stride[d] = d < chain->axis ? 0 : stride;
      stride *= d == chain->axis ? chain->width : chain->shape[d];
    }
  }
}

/// Drops the chains that cannot run block by block and assigns buffers to the others' results.
void Plan::form_chains() {
  uint32_t count = 0;
  for (uint32_t i = 0; i < chain_count_; ++i) {
    if (!fits_chain(chains_[i])) continue;
    chains_[count] = chains_[i];
    choose_buffers(chains_[count++]);
  }
  chain_count_ = count;
}

/// The first chain that begins after the step.
uint32_t Plan::chain_after(uint32_t step) const {
  uint32_t low = 0, high = chain_count_;
  while (low < high) {
    const uint32_t middle = (low + high) / 2;
    if (chains_[middle].first <= step) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

/// The chain of a step that is its first.
const Plan::Chain* Plan::chain_at(uint32_t step) const {
  const uint32_t after = chain_after(step);
  return after > 0 && chains_[after - 1].first == step ? &chains_[after - 1] : nullptr;
}

/// True if the step's chain, if any, lets its output overwrite this buffer: other steps of the
/// chain, which run between this one's blocks, must access the same elements of it in each block.
bool Plan::may_overwrite_in_chain(uint32_t step, uint32_t root, const View& out) const {
  const uint32_t after = chain_after(step);
  if (after == 0) return true;
  const Chain& chain = chains_[after - 1];
  if (step >= chain.first + chain.count) return true;
  for (uint32_t k = chain.slot; k < chain.slot + chain.slots; ++k) {
    if (!slots_[k].given() || resolve(refs_[k].root) != root) continue;
    if (refs_[k].offset != 0 || !same_layout(slots_[k], out)) return false;
  }
  return true;
}

/// Extends lifetimes: a chain's inputs live until it ends, its results from its first step on. Then
/// its views take the shape of its blocks.
void Plan::extend_chain_lifetimes() {
  for (uint32_t i = 0; i < chain_count_; ++i) {
    Chain& chain = chains_[i];
    const uint32_t last = chain.first + chain.count - 1;
    for (uint32_t k = chain.slot; k < chain.slot + chain.slots; ++k) {
      if (!slots_[k].given()) continue;
      Root& root = roots_[resolve(refs_[k].root)];
      if (root.first > chain.first && root.first <= last) root.first = chain.first;
      if (root.last >= chain.first && root.last < last) root.last = last;
    }
    flatten(&chain);
    split(&chain);
  }
}

Status Plan::run_blocks(const Chain& chain, int64_t begin, int64_t end, uint32_t* failed) const {
  alignas(64) uint8_t buffers[kBuffers][kChainBlockBytes];
  View views[kSlots];
  for (uint32_t k = 0; k < chain.slots; ++k) {
    views[k] = slots_[chain.slot + k];
    const Root& root = roots_[refs_[chain.slot + k].root];
    if (views[k].given() && root.kind == RootKind::kBlock) views[k].data = buffers[root.index];
  }
  for (int64_t b = begin; b < end; ++b) {
    int64_t at[kMaxRank];
    int64_t outer = b / chain.splits;
    at[chain.axis] = b % chain.splits * chain.width;
    for (int d = chain.axis - 1; d >= 0; --d) {
      at[d] = outer % chain.shape[d];
      outer /= chain.shape[d];
    }
    const int64_t left = chain.shape[chain.axis] - at[chain.axis];
    for (uint32_t k = 0; k < chain.slots; ++k) {
      View& v = views[k];
      const View& whole = slots_[chain.slot + k];
      if (v.rank != chain.rank) continue;
      if (whole.shape[chain.axis] != 1)
        v.shape[chain.axis] = left < chain.width ? left : chain.width;
      if (roots_[refs_[chain.slot + k].root].kind == RootKind::kBlock) continue;
      int64_t offset = 0;
      for (int d = 0; d <= chain.axis; ++d) offset += at[d] * v.stride[d];
      v.data = whole.as<uint8_t>() + offset * static_cast<int64_t>(size_of(v.dtype));
    }
    for (uint32_t s = chain.first; s < chain.first + chain.count; ++s) {
      const Step& step = steps_[s];
      const BoundNode& node = prepared_->node(step.node);
      Call call;
      call.in = views + (step.slot - chain.slot);
      call.out = views + (step.slot - chain.slot) + step.n_in;
      call.n_in = step.n_in;
      call.n_out = 1;
      call.attrs = node.attrs;
      if (Status status = node.kernel->run(call); status != Status::kOk) {
        *failed = s;
        return status;
      }
    }
  }
  return Status::kOk;
}

Status Plan::run_chain(const Chain& chain, const Parallel* parallel, uint32_t* steps) {
  *steps = chain.count;
  Call call;
  call.parallel = parallel;
  // A kernel refuses every block or none, so whichever thread writes last writes the same.
  uint32_t failed = kNone, why = 0;
  parallel_for(call, chain.blocks, chain.grain, [&](int64_t begin, int64_t end) {
    uint32_t step = kNone;
    const Status status = run_blocks(chain, begin, end, &step);
    if (status == Status::kOk) return;
    __atomic_store_n(&failed, step, __ATOMIC_RELAXED);
    __atomic_store_n(&why, static_cast<uint32_t>(status), __ATOMIC_RELAXED);
  });
  if (failed == kNone) return Status::kOk;
  problem_node_ = steps_[failed].node;
  return static_cast<Status>(why);
}

}  // namespace proa
