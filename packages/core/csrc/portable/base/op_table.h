#pragma once
// The properties of every op: the generated tables (proa/gen/) hold these structs.
#include "proa/base/call.h"

namespace proa {

enum class OpKind : uint8_t { kKernel, kView, kComposite };

/// How an output's dtype follows from the call; see `out=` in proa.schema.row.
enum class DTypeRule : uint8_t {
  kSame,
  kBool,
  kI64,
  kI32,
  kI8,
  kF32,
  kAttr,
  kReal,
  kLast,
  kSum,
  kComplex,
  kWide
};

/// What is done with inputs of different dtypes; see `promote=` in proa.schema.row.
enum class Promote : uint8_t { kNone, kCommon, kFloat };

/// Memory order of an op's outputs unless the caller chooses one; see `layout=` in proa.schema.row.
enum class Layout : uint8_t {
  kRowMajor,
  kFollow,       // that of the first input whose sizes it keeps
  kFollowOrder,  // that of the first input, whatever its sizes
  kChannelsLast,
};

constexpr int kMaxOutputs = 8;
constexpr int kVariadic = 255;  // n_in of an op that takes any number of arrays

/// One row of the operator table, as the runtimes read it.
struct OpInfo {
  const char* name;
  uint16_t id;       // index into the tables of this build; not stable across builds
  uint16_t version;  // of the op's meaning; stored in model files
  OpKind kind;
  uint8_t n_in;        // or kVariadic
  uint8_t n_required;  // leading inputs that must be given
  uint8_t n_out;
  uint16_t dtypes;     // bit i set: DType(i) admitted for the first input
  uint16_t attr_size;  // bytes of the attribute struct, 0 if none
  const void* attr_defaults;
  ShapeRule shape;
  DTypeRule out_dtype[kMaxOutputs];
  int16_t dtype_attr;         // byte offset of the attribute that names the dtype (kAttr), else -1
  int8_t alias[kMaxOutputs];  // input whose memory output i may or must share, -1 if none
  /// One character per attribute in row order, so that bytes from a file can be checked before use:
  /// i int, f float, b bool, I ints, s scalar, d dtype; of n choices the character '0' + n. A lone
  /// x is a struct of any length up to attr_size, which the op itself checks.
  const char* attr_kinds = "";
  Promote promote = Promote::kNone;
  int8_t pack_input = -1;    // input that KernelEntry::pack packs, -1 if none
  bool elementwise = false;  // output element i depends on input elements i alone
  uint32_t shape_only = 0;   // bit i set: of input i only shape and dtype are read
  Layout layout = Layout::kRowMajor;
  bool mutates = false;  // changes its inputs (alias) and has no other form: an optimizer's step
  bool random = false;   // draws random numbers by its attributes seed and offset
  /// Input that is added to results of 16 bits element by element when they are finished, so that
  /// they may take over its memory; -1 if none.
  int8_t adds = -1;
};

/// The functions of one instruction set for one op; null where it has none.
struct KernelEntry {
  Kernel run = nullptr;
  SizeRule scratch = nullptr;
  SizeRule pack_size = nullptr;
  Pack pack = nullptr;
};

/// The row of that name, or nullptr. A binary search over the generated table.
const OpInfo* find_op(const char* name);
const OpInfo& op_info(int id);
int op_count();
/// The best entry of this machine for the op, chosen once by select_isa().
const KernelEntry& kernel_of(int id);

/// An op of an extension rather than a row of the table. It must outlive the process's calls.
struct ExtraOp {
  OpInfo info;
  KernelEntry kernel;
  ExtraOp* next = nullptr;
};
/// Assigns the op an id past the table's, for find_op and kernel_of; of two with one name the last
/// registered is found. Not to be called by two threads at once.
void register_op(ExtraOp* op);

enum class Isa : uint8_t { kScalar = 0, kAvx2 = 1, kAvx512 = 2, kNeon = 3, kNeonDot = 4 };
/// Fills the table that kernel_of reads, from the ISAs of this build that `best` includes.
void select_isa(Isa best);
Isa selected_isa();

}  // namespace proa
