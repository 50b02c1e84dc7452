#include "proa/kernels/reduce/reducer.h"

#include "proa/base/task_size.h"
#include "proa/kernels/elementwise/convert.h"

namespace proa::PROA_ISA {

namespace {

constexpr int64_t kMaxParts = 8;  // a long reduction is split into at most this many parts

int64_t magnitude(int64_t v) { return v < 0 ? -v : v; }

struct Job {
  const Reducer& r;
  const View &x, &out;
  Split s;
  double count;
};

/// Results of outputs [first, first + n) of the parallel nest (n > 1 only along its last
/// dimension).
void write_results(const Job& job, const Cursor& at, const void* acc, int64_t n) {
  alignas(64) uint8_t results[kReduceColumnBytes * 2], stored[kReduceColumnBytes * 2];
  job.r.finish(acc, results, n, job.count);
  const void* from = results;
  if (job.r.out != job.out.dtype) {
    convert(job.r.out, results, job.out.dtype, stored, n);
    from = stored;
  }
  const int64_t size = static_cast<int64_t>(size_of(job.out.dtype));
  const int64_t stride =
      job.s.parallel.rank > 0 ? job.s.parallel.stride[1][job.s.parallel.rank - 1] : 1;
  scatter_row(size_of(job.out.dtype), from, job.out.as<uint8_t>() + at.offset[1] * size, stride, n);
}

const uint8_t* element(const View& x, int64_t offset) {
  return x.as<const uint8_t>() + offset * static_cast<int64_t>(size_of(x.dtype));
}

/// Reduces elements [begin, end) of one output into acc.
void reduce_run(const Job& job, const uint8_t* x, int64_t begin, int64_t end, void* acc) {
  RunReader reader(job.s.reduced, x, job.x.dtype, job.r.in);
  reader.start(begin, end);
  const void* run;
  while (const int64_t n = reader.next(&run)) job.r.row(acc, run, n);
}

/// One long reduction (or a few): parts of it side by side, put together in order.
void reduce_in_parts(const Call& c, const Job& job, int64_t outputs, int64_t length,
                     int64_t parts) {
  alignas(64) uint8_t acc[kMaxParts * kMaxParts * 16];
  const int64_t size = job.r.accumulator, each = (length + parts - 1) / parts;
  parallel_for(c, outputs * parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      Cursor at;
      at.seek(job.s.parallel, i / parts);
      const int64_t first = i % parts * each;
      const int64_t last = first + each < length ? first + each : length;
      job.r.init(acc + i * size, 1);
      if (first < last) reduce_run(job, element(job.x, at.offset[0]), first, last, acc + i * size);
    }
  });
  for (int64_t o = 0; o < outputs; ++o) {
    uint8_t* first = acc + o * parts * size;
    for (int64_t p = 1; p < parts; ++p) job.r.merge(first, first + p * size, 1);
    Cursor at;
    at.seek(job.s.parallel, o);
    write_results(job, at, first, 1);
  }
}

void reduce_rows(const Call& c, const Job& job, int64_t outputs, int64_t length) {
  if (outputs < kMaxParts && length >= 2 * kReduceTask) {
    const int64_t parts = length / kReduceTask < kMaxParts ? length / kReduceTask : kMaxParts;
    return reduce_in_parts(c, job, outputs, length, parts);
  }
  const bool dense = job.s.reduced.rank <= 1 && job.s.reduced.inner_stride(0) == 1 &&
                     job.x.dtype == job.r.in && length > 0;
  const int64_t grain = length < kReduceTask ? kReduceTask / (length + 1) + 1 : 1;
  parallel_for(c, outputs, grain, [&](int64_t begin, int64_t end) {
    // Several outputs at a time, adjacent along the last parallel dimension.
    constexpr int64_t kGroup = 64;
    alignas(64) uint8_t acc[kGroup * 16];
    const int64_t inner = job.s.parallel.inner(), step = job.s.parallel.inner_stride(0);
    Cursor at;
    at.seek(job.s.parallel, begin);
    for (int64_t o = begin; o < end;) {
      int64_t n = job.s.parallel.rank > 0 ? inner - at.at[job.s.parallel.rank - 1] : 1;
      n = n < end - o ? n : end - o;
      n = n < kGroup ? n : kGroup;
      job.r.init(acc, n);
      for (int64_t i = 0; i < n; ++i) {
        const uint8_t* x = element(job.x, at.offset[0] + i * step);
        uint8_t* to = acc + i * job.r.accumulator;
        if (dense) {
          job.r.row(to, x, length);
        } else {
          reduce_run(job, x, 0, length, to);
        }
      }
      write_results(job, at, acc, n);
      at.advance(job.s.parallel, n);
      o += n;
    }
  });
}

/// Reduces rows [begin, end) of the columns that start at x into acc[0, n).
void reduce_block(const Job& job, const uint8_t* x, int64_t begin, int64_t end, int64_t n,
                  void* acc) {
  const Nest& nest = job.s.reduced;
  Cursor at;
  at.seek(nest, begin);
  const int64_t size = static_cast<int64_t>(size_of(job.x.dtype));
  const int64_t step = nest.rank > 0 ? nest.stride[0][nest.rank - 1] : 0;
  const bool direct = job.x.dtype == job.r.in && job.s.parallel.inner_stride(0) == 1;
  alignas(64) uint8_t raw[kReduceColumnBytes * 2], converted[kReduceColumnBytes * 2];
  for (int64_t i = begin; i < end;) {
    const int64_t left = nest.rank > 0 ? nest.inner() - at.at[nest.rank - 1] : 1;
    int64_t rows = end - i < left ? end - i : left;
    const uint8_t* from = x + at.offset[0] * size;
    if (direct) {
      job.r.columns(acc, from, step, rows, n);
    } else {
      rows = 1;
      gather_row(size_of(job.x.dtype), from, job.s.parallel.inner_stride(0), raw, n);
      const void* dense = raw;
      if (job.x.dtype != job.r.in) {
        convert(job.x.dtype, raw, job.r.in, converted, n);
        dense = converted;
      }
      job.r.columns(acc, dense, 0, 1, n);
    }
    at.advance(nest, rows);
    i += rows;
  }
}

/// Outputs side by side in memory: blocks of columns are accumulated row after row.
void reduce_columns(const Call& c, const Job& job, int64_t outputs, int64_t length) {
  const Nest& parallel = job.s.parallel;
  const int64_t inner = parallel.inner(), max_width = kReduceColumnBytes / job.r.accumulator;
  const int64_t width = inner < max_width ? inner : max_width, blocks = (inner + width - 1) / width;
  const int64_t units = outputs / inner * blocks;
  auto locate = [&](int64_t unit, Cursor* at) {
    const int64_t first = unit % blocks * width;
    at->seek(parallel, unit / blocks * inner + first);
    return inner - first < width ? inner - first : width;
  };
  if (units < 4 && length * width >= 4 * kReduceTask) {
    alignas(64) uint8_t acc[kMaxParts][kReduceColumnBytes];
    const int64_t fit = length * width / kReduceTask;
    const int64_t parts = fit < kMaxParts ? fit : kMaxParts, each = (length + parts - 1) / parts;
    for (int64_t u = 0; u < units; ++u) {
      Cursor at;
      const int64_t n = locate(u, &at);
      parallel_for(c, parts, 1, [&](int64_t begin, int64_t end) {
        for (int64_t p = begin; p < end; ++p) {
          const int64_t first = p * each, last = first + each < length ? first + each : length;
          job.r.init(acc[p], n);
          if (first < last) reduce_block(job, element(job.x, at.offset[0]), first, last, n, acc[p]);
        }
      });
      for (int64_t p = 1; p < parts; ++p) job.r.merge(acc[0], acc[p], n);
      write_results(job, at, acc[0], n);
    }
    return;
  }
  const int64_t cost = length * width;
  parallel_for(c, units, cost < kReduceTask ? kReduceTask / (cost + 1) + 1 : 1,
               [&](int64_t begin, int64_t end) {
                 for (int64_t u = begin; u < end; ++u) {
                   alignas(64) uint8_t acc[kReduceColumnBytes];
                   Cursor at;
                   const int64_t n = locate(u, &at);
                   job.r.init(acc, n);
                   reduce_block(job, element(job.x, at.offset[0]), 0, length, n, acc);
                   write_results(job, at, acc, n);
                 }
               });
}

}  // namespace

const Reducer* Reducers::of(DType t) const {
  if (t == DType::kF64) return f64;
  if (is_floating(t)) return f32;
  return is_complex(t) ? c128 : i64;
}

uint32_t axes_of(const Ints& axes, int rank) {
  if (axes.count <= 0) return (1u << rank) - 1;
  uint32_t mask = 0;
  for (int i = 0; i < axes.count && rank > 0; ++i) mask |= 1u << normalize_axis(axes[i], rank);
  return mask;
}

Split split_axes(const View& x, uint32_t mask, const View& out) {
  Split s;
  int64_t parallel_strides[kMaxRank];
  int reduced = 0, parallel = 0;
  for (int d = 0; d < x.rank; ++d) reduced += mask >> d & 1;
  const bool keepdim = out.rank == x.rank;
  s.parallel.arrays = 2;
  s.reduced.arrays = 1;
  reduced = 0;
  for (int d = 0; d < x.rank; ++d) {
    if (mask >> d & 1) {
      s.reduced.shape[reduced] = x.shape[d];
      s.reduced.stride[0][reduced++] = x.stride[d];
    } else {
      parallel_strides[parallel] = out.stride[keepdim ? d : parallel];
      s.parallel.shape[parallel] = x.shape[d];
      s.parallel.stride[0][parallel] = x.stride[d];
      s.parallel.stride[1][parallel] = parallel_strides[parallel];
      ++parallel;
    }
  }
  s.parallel.rank = parallel;
  s.reduced.rank = reduced;
  return s;
}

Status reduce(const Call& c, const Reducer* reducer, const View& x, uint32_t mask,
              const View& out) {
  if (reducer == nullptr) return Status::kUnimplemented;
  Job job = {*reducer, x, out, split_axes(x, mask, out), 0};
  const int64_t outputs = job.s.parallel.size(), length = job.s.reduced.size();
  if (outputs == 0) return Status::kOk;
  job.count = static_cast<double>(length);
  job.s.parallel.simplify();
  job.s.reduced.simplify();
  const bool along_rows = job.s.parallel.rank == 0 || job.s.parallel.inner() < kReduceFewColumns ||
                          (job.s.reduced.rank > 0 && magnitude(job.s.reduced.inner_stride(0)) <=
                                                         magnitude(job.s.parallel.inner_stride(0)));
  if (along_rows) {
    reduce_rows(c, job, outputs, length);
  } else {
    reduce_columns(c, job, outputs, length);
  }
  return Status::kOk;
}

void RunReader::start(int64_t begin, int64_t end_) {
  position = begin;
  end = end_;
  at.seek(nest, begin);
}

int64_t RunReader::next(const void** run) {
  if (position >= end) return 0;
  const int64_t size = static_cast<int64_t>(size_of(stored));
  const int64_t left = nest.rank > 0 ? nest.inner() - at.at[nest.rank - 1] : 1;
  int64_t n = end - position < left ? end - position : left;
  const uint8_t* from = x + at.offset[0] * size;
  if (nest.inner_stride(0) == 1 && stored == as) {
    *run = from;
  } else {
    const int64_t as_size = static_cast<int64_t>(size_of(as));
    const int64_t fit = kReduceRunBytes / (size > as_size ? size : as_size);
    int64_t filled = 0;
    while (filled < fit && position + filled < end) {
      const int64_t rest = nest.rank > 0 ? nest.inner() - at.at[nest.rank - 1] : 1;
      int64_t m = rest < fit - filled ? rest : fit - filled;
      if (m > end - position - filled) m = end - position - filled;
      gather_row(size_of(stored), x + at.offset[0] * size, nest.inner_stride(0),
                 buffer[0] + filled * size, m);
      at.advance(nest, m);
      filled += m;
    }
    position += filled;
    *run = buffer[0];
    if (stored != as) {
      convert(stored, buffer[0], as, buffer[1], filled);
      *run = buffer[1];
    }
    return filled;
  }
  at.advance(nest, n);
  position += n;
  return n;
}

}  // namespace proa::PROA_ISA
