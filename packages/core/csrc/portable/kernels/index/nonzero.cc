// Where an array is not zero, by coordinates.
#include "proa/base/expect.h"
#include "proa/kernels/reduce/reducer.h"

namespace proa::PROA_ISA {

Status nonzero(const Call& c) {
  const View &x = c.in[0], &out = c.out[0];
  Nest nest;
  nest.set_shape(x);
  nest.add(x);
  RunReader reader(nest, x.data, x.dtype, DType::kBool);
  reader.start(0, nest.size());
  const void* run;
  const int64_t rows = out.shape[0];
  int64_t row = 0, index = 0;
  // First the number of each in row-major order, as a last coordinate, without branches on x.
  int64_t none = 0;  // of a number there are no coordinates
  int64_t* last = x.rank == 0 ? &none : out.as<int64_t>() + (x.rank - 1) * out.stride[1];
  const int64_t step = x.rank == 0 ? 0 : out.stride[0];
  while (const int64_t n = reader.next(&run)) {
    for (int64_t i = 0; i < n; ++i, ++index) {
      const bool is_nonzero = static_cast<const uint8_t*>(run)[i] != 0;
      if (row == rows) {
        PROA_EXPECT(c, !is_nonzero, "count of the elements that are not 0", named("count", rows));
        continue;
      }
      last[row * step] = index;
      row += is_nonzero;
    }
  }
  PROA_EXPECT(c, row == rows, "count of the elements that are not 0", named("count", rows),
              named("nonzero", row));
  for (row = 0; x.rank > 1 && row < rows; ++row) {
    int64_t* coordinates = out.as<int64_t>() + row * step;
    auto rest = static_cast<uint64_t>(last[row * step]);
    for (int d = x.rank - 1; d >= 0; --d) {
      const auto size = static_cast<uint64_t>(x.shape[d]);
      const bool narrow = (rest | size) >> 32 == 0;  // division of 32 bits is faster
      const uint64_t above =
          narrow ? static_cast<uint32_t>(rest) / static_cast<uint32_t>(size) : rest / size;
      coordinates[d * out.stride[1]] = static_cast<int64_t>(rest - above * size);
      rest = above;
    }
  }
  return Status::kOk;
}

}  // namespace proa::PROA_ISA
