#pragma once
// What the header of a trace says: the distinct tensors, shapes of accesses, operations and source
// lines that its records refer to by number. docs/nki_trace.md describes the format.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "trainium/tile/program.h"

namespace neuronmm::trace {

// An element's type. What counts for time is its size and whether the Tensor engine takes four
// passes over it (fp32).
struct Dtype {
  std::string_view name;  // "bf16", "fp8e4", "mxfp4x4" (four values packed into one element)
  int64_t bytes = 0;
};
Result<Dtype> find_dtype(std::string_view name);  // the error lists the names

// Tensors that differ in nothing but when they were made. Its elements are numbered row-major; on
// chip, the first dimension is the partition.
struct TensorKind {
  std::string name;
  tile::Memory memory = tile::Memory::kHbm;
  Dtype dtype;
  Shape shape;
  tile::HbmRole role = tile::HbmRole::kNone;
  uint32_t source = 0;
  bool view = false;  // of another tensor's bytes

  // Of the shape. A row is what one partition holds; in HBM, the last dimension.
  int64_t elements = 1, row_elements = 1;

  bool on_chip() const { return memory != tile::Memory::kHbm; }
  int64_t rows() const { return elements / row_elements; }
  int64_t row_bytes() const { return row_elements * dtype.bytes; }
  int64_t bytes() const { return elements * dtype.bytes; }
};

// The shape of an access: element offset + sum of index · stride, outermost axis first. On chip the
// first axis is the partitions'.
struct Axis {
  int64_t stride = 0, count = 1;
};
struct Pattern {
  std::vector<Axis> axes;
  int64_t elements = 1;
  int64_t lowest = 0, highest = 0;  // of the elements touched, counted from the offset
};

enum class EngineName { kTensor, kVector, kScalar, kGpSimd, kSync, kDma, kAny };

// A call of nki.isa with the attributes that its time depends on.
struct Operation {
  std::string name;
  EngineName engine = EngineName::kAny;
  std::vector<std::string> operands;  // by role: "dst", "stationary", ...
  std::vector<bool> writes;           // by operand: those whose role begins with "dst"
  std::vector<bool> anywhere;         // by operand: where it lies, an index says at run time
  bool transpose = false, accumulate = false, zero = false, dynamic = false;
  std::string op, op0, op1, reduce_op, perf_mode, onezero;
  std::optional<std::array<int64_t, 2>> tile_position, tile_size;  // of the Tensor engine's array
  int64_t elements_per_index = 1;                                  // local_gather

  // Along a row into a second result; tensor_reduce, whose result is its only one, does not.
  bool reduces() const { return !reduce_op.empty() || name == "activation_reduce"; }
};

// What the program says of a loop's iterations. A static one was unrolled by Python.
enum class LoopKind { kAffine, kSequential, kStatic, kDynamic };
struct Loop {
  LoopKind kind = LoopKind::kStatic;
  int64_t count = 0;  // iterations
};

struct SourceLine {
  uint32_t file = 0;
  int64_t line = 0;
  std::string function;
};

struct Header {
  std::string kernel, dialect, device;  // "nki" or "neuronxcc"; "trn2"
  std::vector<std::string> files;
  std::vector<SourceLine> sources;
  std::vector<TensorKind> tensors;
  std::vector<Pattern> patterns;
  std::vector<Operation> operations;
  std::vector<Loop> loops;
  int64_t instructions = 0, instances = 0;
  int64_t cores = 1;  // that a kernel of the new dialect was launched on; this is one's trace
  std::optional<double> model_flops;
  std::vector<std::string> notes;  // of the tracer, for the reader of a report

  bool legacy() const { return dialect == "neuronxcc"; }
  std::string place(uint32_t source) const;  // "kernel.py:42"
};

// `source` begins every message.
Result<Header> parse_header(std::string_view json, const std::string& source);

}  // namespace neuronmm::trace
