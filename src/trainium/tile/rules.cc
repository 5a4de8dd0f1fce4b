#include "trainium/tile/rules.h"

#include <algorithm>

#include <fmt/format.h>

#include "trainium/tile/accesses.h"
#include "trainium/tile/walk.h"

namespace neuronmm::tile {
namespace {

// --- memories, dtypes, engines ---

// Checks operands, with one overload per instruction of nki.isa. The documentation of nki.isa
// states each of these rules, and the message repeats the rule.
class OperandRules {
 public:
  OperandRules(const Program& program, const ReportViolation& report)
      : program_(program), report_(report) {}

  void operator()(const DmaCopy& op) const {
    // DMA reaches HBM and SBUF. An engine has to copy results out of PSUM.
    for (const Access* access : {&op.dst, &op.src}) {
      if (memory(*access) == Memory::kPsum) report_(access->buffer, "DMA does not reach PSUM");
    }
    for (const Access& index : op.src.index) run_time_index(op, index);
    if (program_.buffer(op.dst.buffer).is_view()) {
      report_(op.dst.buffer, "a view of an input is only read");
    }
    if (dtype(op.dst) != dtype(op.src)) {
      report_(op.dst.buffer, "DMA does not convert: its operands have different dtypes");
    }
    // A transposing DMA needs 2-byte elements (nki.isa.dma_transpose).
    if (op.transpose && dtype(op.src) != DType::kBF16) {
      report_(op.src.buffer, "DMA transposes 2-byte elements only");
    }
  }
  // The Tensor engine reads its operands from SBUF and sums in PSUM, in fp32. It multiplies fp32
  // only by fp32.
  void operator()(const NcMatmul& op) const {
    expect(op.stationary, Memory::kSbuf, "the Tensor engine reads SBUF only");
    expect(op.moving, Memory::kSbuf, "the Tensor engine reads SBUF only");
    tensor_result(op.dst);
    if (dtype(op.stationary) != dtype(op.moving)) {
      report_(op.stationary.buffer, "fp32 multiplies fp32 only: stationary and moving differ");
    }
  }
  // A transpose passes elements through the multipliers unchanged, so their dtype stays the same.
  void operator()(const NcTranspose& op) const {
    expect(op.src, Memory::kSbuf, "the Tensor engine reads SBUF only");
    expect(op.dst, Memory::kPsum, "the Tensor engine writes PSUM only");
    if (dtype(op.dst) != dtype(op.src)) {
      report_(op.dst.buffer, "a transpose keeps the dtype of what it transposes");
    }
  }
  // Copies convert between dtypes and move results out of PSUM. GpSimd has no access to PSUM.
  void operator()(const TensorCopy& op) const {
    on_chip(op.dst);
    on_chip(op.src);
    if (op.engine == Engine::kTensor) report_(op.dst.buffer, "the Tensor engine does not copy");
    if (op.engine != Engine::kGpSimd) return;
    for (const Access* access : {&op.dst, &op.src}) {
      if (memory(*access) == Memory::kPsum) report_(access->buffer, "GpSimd does not reach PSUM");
    }
  }
  void operator()(const TensorTensor& op) const {
    on_chip(op.dst);
    on_chip(op.a);
    on_chip(op.b);
    if (memory(op.a) == Memory::kPsum && memory(op.b) == Memory::kPsum) {
      report_(op.b.buffer, "tensor_tensor takes at most one input from PSUM");
    }
  }
  // The factor is read once per partition, in fp32 (nki.isa.scalar_tensor_tensor).
  void operator()(const ScaleAdd& op) const {
    for (const Access* access : {&op.dst, &op.src, &op.scale, &op.addend}) on_chip(*access);
    if (memory(op.src) == Memory::kPsum && memory(op.addend) == Memory::kPsum) {
      report_(op.addend.buffer, "scalar_tensor_tensor takes at most one input from PSUM");
    }
    if (dtype(op.scale) != DType::kF32) report_(op.scale.buffer, "a factor per partition is fp32");
  }
  void operator()(const Activate& op) const {
    on_chip(op.dst);
    on_chip(op.src);
  }
  void operator()(const Memset& op) const { on_chip(op.dst); }

 private:
  Memory memory(const Access& access) const { return program_.buffer(access.buffer).memory; }
  DType dtype(const Access& access) const { return program_.buffer(access.buffer).dtype; }
  void expect(const Access& access, Memory expected, const char* rule) const {
    if (memory(access) != expected) report_(access.buffer, rule);
  }
  // A sequencer reads the index from SBUF into a register and adds it to the address of the
  // transfer (nki.isa.register_load, NkiTensor.select).
  void run_time_index(const DmaCopy& op, const Access& index) const {
    if (memory(op.src) != Memory::kHbm || op.transpose) {
      report_(op.src.buffer, "only a plain load from HBM takes its place from an index");
    }
    if (memory(index) != Memory::kSbuf || dtype(index) != DType::kI32) {
      report_(index.buffer, "an index is an int32 in SBUF");
    }
  }
  void tensor_result(const Access& dst) const {
    expect(dst, Memory::kPsum, "the Tensor engine writes PSUM only");
    if (dtype(dst) != DType::kF32) report_(dst.buffer, "the Tensor engine sums in fp32");
  }
  void on_chip(const Access& access) const {
    if (memory(access) == Memory::kHbm) {
      report_(access.buffer, "engines reach SBUF and PSUM; HBM goes by DMA");
    }
  }

  const Program& program_;
  const ReportViolation& report_;
};

// --- shapes, bounds, banks, partitions ---

// Returns the sizes that the instruction sees, without the dimensions that are indexed away. Two
// operands match if these sizes are equal.
std::vector<int64_t> extents(const Access& access, const Region& region) {
  std::vector<int64_t> sizes;
  for (size_t d = 0; d < region.dimensions; ++d) {
    if (!access.slices[d].index) sizes.push_back(region.size[d]);
  }
  return sizes;
}

class ExtentRules {
 public:
  ExtentRules(const Program& program, const Limits& limits, std::span<const int64_t> loop_values,
              const ReportViolation& report)
      : program_(program), limits_(limits), values_(loop_values), report_(report) {}

  // Checks that the access lies inside the buffer and, on chip, inside its partitions. An empty
  // access is an error, too, because no engine has an instruction for zero elements.
  void bounds(const Access& access) const {
    const Buffer& buffer = program_.buffer(access.buffer);
    const Region region = evaluate(access, values_);
    for (size_t d = 0; d < region.dimensions; ++d) {
      const int64_t first = region.start[d], end = first + region.size[d];
      if (region.size[d] < 1 || first < 0 || end > buffer.shape[d]) {
        report_(access.buffer, fmt::format("[{}, {}) is outside dimension {} of {}, which has {}",
                                           first, end, d, buffer.name, buffer.shape[d]));
      }
    }
    if (buffer.memory != Memory::kHbm && region.partitions() > limits_.partitions) {
      report_(access.buffer, fmt::format("{} partitions of {}, at most {}", region.partitions(),
                                         buffer.name, limits_.partitions));
    }
  }

  // Checks where an access by an engine starts. Engines address partitions in quarters of 32. An
  // access to more than 64 partitions starts at partition 0. An access to 33 to 64 partitions
  // starts at 0 or 64, and a smaller one at a multiple of 32 (documented in the architecture
  // guide).
  void start_partition(const Access& access) const {
    const Buffer& buffer = program_.buffer(access.buffer);
    if (buffer.memory == Memory::kHbm) return;
    const Region region = evaluate(access, values_);
    const int64_t multiple = region.partitions() > 64 ? 128 : region.partitions() > 32 ? 64 : 32;
    if (region.start[0] % multiple == 0) return;
    report_(access.buffer,
            fmt::format("{} partitions of {} start at partition {}, expected a multiple of {}",
                        region.partitions(), buffer.name, region.start[0], multiple));
  }

  void operator()(const DmaCopy& op) const {
    std::vector<int64_t> dst = extents(op.dst), src = extents(op.src);
    if (op.transpose) {
      if (src.size() != 2) report_(op.src.buffer, "a transposing DMA moves two dimensions");
      std::reverse(src.begin(), src.end());
    }
    if (dst != src) report_mismatch(op.dst, dst, src);
    for (const Access& index : op.src.index) one_element_per_partition(index, 1);
  }
  // The shape of dst is [columns of stationary, columns of moving]. The contraction runs along the
  // partitions of both operands, which are at most 128.
  void operator()(const NcMatmul& op) const {
    const Region s = evaluate(op.stationary, values_), m = evaluate(op.moving, values_);
    const Region d = evaluate(op.dst, values_);
    if (s.partitions() != m.partitions()) {
      report_(op.moving.buffer, fmt::format("stationary has {} partitions, moving {}",
                                            s.partitions(), m.partitions()));
    }
    at_most(op.stationary, "stationary columns", s.free_elements(), limits_.stationary_free);
    at_most(op.moving, "moving columns", m.free_elements(), limits_.moving_free);
    if (d.partitions() != s.free_elements() || d.free_elements() != m.free_elements()) {
      report_(op.dst.buffer,
              fmt::format("dst is {} x {}, expected stationary columns x moving columns = {} x {}",
                          d.partitions(), d.free_elements(), s.free_elements(), m.free_elements()));
    }
    one_bank(op.dst, d);
  }
  void operator()(const NcTranspose& op) const {
    const Region d = evaluate(op.dst, values_), s = evaluate(op.src, values_);
    at_most(op.src, "columns to transpose", s.free_elements(), limits_.partitions);
    if (d.partitions() != s.free_elements() || d.free_elements() != s.partitions()) {
      report_(op.dst.buffer,
              fmt::format("dst is {} x {}, expected the transpose of {} x {}", d.partitions(),
                          d.free_elements(), s.partitions(), s.free_elements()));
    }
    one_bank(op.dst, d);
  }
  void operator()(const TensorCopy& op) const { same(op.dst, op.src); }
  void operator()(const TensorTensor& op) const {
    same(op.dst, op.a);
    same(op.dst, op.b);
  }
  void operator()(const ScaleAdd& op) const {
    same(op.dst, op.src);
    same(op.dst, op.addend);
    one_element_per_partition(op.scale, evaluate(op.dst, values_).partitions());
  }
  void operator()(const Activate& op) const { same(op.dst, op.src); }
  void operator()(const Memset&) const {}

 private:
  std::vector<int64_t> extents(const Access& access) const {
    return tile::extents(access, evaluate(access, values_));
  }
  void report_mismatch(const Access& dst, const std::vector<int64_t>& found,
                       const std::vector<int64_t>& expected) const {
    report_(dst.buffer,
            fmt::format("dst is {}, src is {}", shape_string(found), shape_string(expected)));
  }
  void same(const Access& dst, const Access& src) const {
    const std::vector<int64_t> found = extents(dst), expected = extents(src);
    if (found != expected) report_mismatch(dst, found, expected);
  }
  void one_element_per_partition(const Access& access, int64_t partitions) const {
    const Region region = evaluate(access, values_);
    if (region.partitions() == partitions && region.free_elements() == 1) return;
    report_(access.buffer, fmt::format("{} x {}, expected {} x 1", region.partitions(),
                                       region.free_elements(), partitions));
  }
  void at_most(const Access& access, const char* what, int64_t found, int64_t most) const {
    if (found > most) {
      report_(access.buffer, fmt::format("{} {} of {}, at most {}", found, what,
                                         program_.buffer(access.buffer).name, most));
    }
  }
  // A result must lie inside one PSUM bank, because a matmul cannot write across two. `first` and
  // `last` are byte offsets in a partition.
  void one_bank(const Access& access, const Region& region) const {
    const Buffer& buffer = program_.buffer(access.buffer);
    int64_t first = 0, last = 0, stride = dtype_size_bytes(buffer.dtype);
    for (size_t d = region.dimensions; d-- > 1; stride *= buffer.shape[d]) {
      first += region.start[d] * stride;
      last += (region.start[d] + region.size[d] - 1) * stride;
    }
    if (first / limits_.psum_bank_bytes == last / limits_.psum_bank_bytes) return;
    report_(access.buffer, fmt::format("bytes {} to {} of {} cross a PSUM bank of {} bytes", first,
                                       last + dtype_size_bytes(buffer.dtype), buffer.name,
                                       limits_.psum_bank_bytes));
  }

  const Program& program_;
  const Limits& limits_;
  std::span<const int64_t> values_;
  const ReportViolation& report_;
};

}  // namespace

void check_operands(const Program& program, const Instruction& instruction,
                    const ReportViolation& report) {
  std::visit(OperandRules(program, report), instruction.operation);
}

void check_extents(const Program& program, const Instruction& instruction, const Limits& limits,
                   std::span<const int64_t> loop_values, const ReportViolation& report) {
  const ExtentRules rules(program, limits, loop_values, report);
  const bool engine = !std::holds_alternative<DmaCopy>(instruction.operation);
  for (const Operand& operand : operands_of(instruction.operation)) {
    rules.bounds(*operand.access);
    // DMA addresses partitions one by one, so only engines have to start at a multiple of 32
    // partitions.
    if (engine) rules.start_partition(*operand.access);
  }
  std::visit(rules, instruction.operation);
}

}  // namespace neuronmm::tile
