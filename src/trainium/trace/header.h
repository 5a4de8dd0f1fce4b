#pragma once
// Parses the header of a trace: the distinct tensors, patterns of access, operations and source
// lines that its records refer to by number. docs/reference/nki_trace.md describes the format.
// TraceFile (file.h) calls parse_header(), and all passes over a trace read the Header.

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "trainium/tile/program.h"

namespace neuronmm::trace {

// The partitions of SBUF and PSUM. Documented: the architecture guides of all devices.
inline constexpr int64_t kPartitions = 128;

// An element's type. A time depends on its size and on whether the Tensor engine needs four passes
// over it (fp32).
struct Dtype {
  // For example "bf16", "fp8e4", "mxfp4x4" (four values packed into one element).
  std::string_view name;
  int64_t bytes = 0;
};
Result<Dtype> find_dtype(std::string_view name);  // The error lists the names.

// Tensors that differ only in when they were made. Elements are numbered row-major; on chip, the
// first dimension is the partition.
struct TensorKind {
  std::string name;
  tile::Memory memory = tile::Memory::kHbm;
  Dtype dtype;
  Shape shape;
  tile::HbmRole role = tile::HbmRole::kNone;
  uint32_t source = 0;
  bool view = false;  // The bytes belong to another tensor.

  // Sizes that follow from the shape. A row is what one partition holds; in HBM it is the last
  // dimension.
  int64_t elements = 1, row_elements = 1;

  bool on_chip() const { return memory != tile::Memory::kHbm; }
  int64_t rows() const { return elements / row_elements; }
  int64_t row_bytes() const { return row_elements * dtype.bytes; }
  int64_t bytes() const { return elements * dtype.bytes; }
};

// The pattern of an access: element offset + sum of index · stride, with the outermost axis first.
// On chip the first axis goes along the partitions.
struct Axis {
  int64_t stride = 0, count = 1;
};
struct Pattern {
  std::vector<Axis> axes;
  int64_t elements = 1;
  // The lowest and highest element touched, relative to the offset.
  int64_t lowest = 0, highest = 0;
};

enum class EngineName { kTensor, kVector, kScalar, kGpSimd, kSync, kDma, kAny };

// A call of nki.isa with the attributes that its time depends on.
struct Operation {
  std::string name;
  EngineName engine = EngineName::kAny;
  std::vector<std::string> operands;  // Roles: "dst", "stationary", ...
  std::vector<bool> writes;           // By operand: true if its role begins with "dst".
  // By operand: true if an index chooses its place at run time.
  std::vector<bool> has_run_time_index;
  bool transpose = false, accumulate = false, zero = false, dynamic = false;
  std::string op, op0, op1, reduce_op, perf_mode, onezero, dge;
  std::optional<std::array<int64_t, 2>> tile_position, tile_size;  // In the Tensor engine's array.
  int64_t elements_per_index = 1;                                  // For local_gather.

  // Returns whether the operation reduces along a row into a second result. tensor_reduce does not,
  // since its result is the only one.
  bool reduces() const { return !reduce_op.empty() || name == "activation_reduce"; }
};

// The program's declaration of a loop's iterations. Python has unrolled a static loop.
enum class LoopKind { kAffine, kSequential, kStatic, kDynamic };
struct Loop {
  LoopKind kind = LoopKind::kStatic;
  int64_t count = 0;  // Iterations.
};

struct SourceLine {
  uint32_t file = 0;
  int64_t line = 0;
  std::string function;
};

struct Header {
  // dialect: "nki" or "neuronxcc"; device: for example "trn2".
  std::string kernel, dialect, device;
  std::vector<std::string> files;
  std::vector<SourceLine> sources;
  std::vector<TensorKind> tensors;
  std::vector<Pattern> patterns;
  std::vector<Operation> operations;
  std::vector<Loop> loops;
  int64_t instructions = 0, instances = 0;
  // Cores that a kernel of the new dialect was launched on; the trace is that of one core.
  int64_t cores = 1;
  std::optional<double> model_flops;
  // Whether a kernel that overflows SBUF goes to another allocator, as in NKI 0.7 by default.
  bool alloc_fallback = false;
  std::vector<std::string> notes;  // The tracer's notes for the reader of a report.
  // How many copies of a buffer rotate, by the buffer's name, if the kernel states it, as emitted
  // kernels do. Such a kernel is timed in its own order with these copies.
  std::map<std::string, int64_t> rotates;

  bool legacy() const { return dialect == "neuronxcc"; }
  std::string location(uint32_t source) const;  // For example "kernel.py:42".
};

// Parses the header. Fails if the JSON is damaged or a number is out of range; the message begins
// with `source`.
Result<Header> parse_header(std::string_view json, const std::string& source);

}  // namespace neuronmm::trace
