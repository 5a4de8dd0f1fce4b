#include "trainium/trace/pricing.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace neuronmm::trace {

namespace {

using simulator::DeviceSpec;
using simulator::EngineCost;
using simulator::Job;
using simulator::Kind;
using simulator::OperandKind;
using simulator::Unit;
using tile::Memory;

enum class Family {
  kDma,
  kMatmul,
  kTranspose,
  kCopy,
  kScalarOperand,  // A tensor, and numbers or one number per partition.
  kBinary,
  kActivate,
  kMemset,
  kReduce,
  kPredicated,
  kReciprocal,
  kGather,
  kSearch,     // `rate` elements of src per cycle.
  kFixedRate,  // `rate` elements per cycle.
  kRegister    // A number, not a tensor.
};

enum Engines : uint8_t { kOnVector = 1, kOnScalar = 2, kOnGpSimd = 4 };

struct Rule {
  std::string_view name;
  Family family;
  uint8_t engines = kOnVector;  // The engines that may run it if the call does not choose one.
  double rate = 1;              // Elements per cycle.
  double extra = 0;             // Cycles in addition to the fixed ones.
};

// Engines and rates as the cost tables and docstrings of nki.isa state them (costs: SDK 2.26,
// engines: SDK 2.32).
//
// Assumed for want of a figure: one element per cycle for select_reduce, tensor_scalar_cumulative,
// quantize_mx, nc_n_gather, tensor_partition_reduce, nonzero_with_count, sequence_bounds, and the
// rng family. Assumed: `exponential` processes four per cycle, because its documentation states
// four times the rate of Scalar's exp. The topk instruction takes 4 cycles per element of 16
// partitions (SDK 2.32), which is 64 per element of one partition.
constexpr std::array<Rule, 50> kRules = {{
    {"dma_copy", Family::kDma},
    {"dma_transpose", Family::kDma},
    {"dma_compute", Family::kDma},
    {"sendrecv", Family::kDma},
    {"nc_matmul", Family::kMatmul},
    {"nc_matmul_mx", Family::kMatmul},
    {"nc_transpose", Family::kTranspose},
    {"tensor_copy", Family::kCopy, kOnVector | kOnScalar},
    {"tensor_copy_dynamic_src", Family::kCopy, kOnVector | kOnScalar},
    {"tensor_copy_dynamic_dst", Family::kCopy, kOnVector | kOnScalar},
    {"tensor_scalar", Family::kScalarOperand},
    {"tensor_scalar_reduce", Family::kFixedRate, kOnVector, 1, 64},
    {"tensor_scalar_cumulative", Family::kFixedRate},
    {"tensor_tensor", Family::kBinary},
    {"scalar_tensor_tensor", Family::kBinary},
    {"tensor_tensor_scan", Family::kFixedRate, kOnVector, 0.5},
    {"tensor_reduce", Family::kReduce},
    {"tensor_partition_reduce", Family::kFixedRate, kOnGpSimd},
    {"activation", Family::kActivate, kOnScalar},
    {"activation_reduce", Family::kActivate, kOnScalar},
    {"activate2", Family::kActivate, kOnScalar},
    {"exponential", Family::kFixedRate, kOnVector, 4},
    {"reciprocal", Family::kReciprocal},
    {"memset", Family::kMemset},
    {"iota", Family::kFixedRate, kOnGpSimd},
    {"affine_select", Family::kFixedRate, kOnGpSimd},
    {"range_select", Family::kFixedRate},
    {"select_reduce", Family::kFixedRate},
    {"tensor_copy_predicated", Family::kPredicated},
    {"bn_stats", Family::kFixedRate},
    {"bn_aggr", Family::kFixedRate, kOnVector, 3.0 / 13},
    {"max8", Family::kFixedRate},
    {"nc_find_index8", Family::kFixedRate},
    {"nc_match_replace8", Family::kFixedRate},
    {"nc_stream_shuffle", Family::kFixedRate},
    {"dropout", Family::kFixedRate},
    {"rng", Family::kFixedRate},
    {"rand2", Family::kFixedRate},
    {"set_rng_seed", Family::kFixedRate},
    {"rand_set_state", Family::kFixedRate, kOnGpSimd},
    {"rand_get_state", Family::kFixedRate, kOnGpSimd},
    {"local_gather", Family::kGather, kOnGpSimd},
    {"nc_n_gather", Family::kFixedRate, kOnGpSimd},
    {"nonzero_with_count", Family::kFixedRate, kOnGpSimd},
    {"sequence_bounds", Family::kFixedRate, kOnGpSimd},
    {"topk", Family::kSearch, kOnGpSimd, 1.0 / 64},
    {"quantize_mx", Family::kFixedRate},
    {"core_barrier", Family::kRegister, kOnGpSimd},
    {"register_load", Family::kRegister},
    {"register_store", Family::kRegister},
}};

// The rate of a DMA that transposes data in SBUF, relative to one that loads from HBM. Fitted to
// the prefill attention of nki-library on trn2 (half 0 of docs/measurements/predictions.md). The
// documents limit such transfers to 0.9 of a plain copy's rate and say nothing else. nki-autotune's
// measured kernel does not show the rate, because its transposes load from HBM. Assumed: trn3 has
// the same rate.
constexpr double kTransposeOnChipRate = 5.0 / 9;

const Rule* find_rule(std::string_view name) {
  for (const Rule& rule : kRules) {
    if (rule.name == name) return &rule;
  }
  static constexpr Rule kAnyRegister = {"register_*", Family::kRegister};
  return name.starts_with("register_") ? &kAnyRegister : nullptr;
}

bool double_rows(const Operation& operation) {
  return operation.perf_mode.starts_with("double_row");
}

// Maps a dtype to one that the simulator's costs distinguish: they depend on the size, and on fp32
// for the Tensor engine. NeuronCore-v4 has the fast modes of 16 bits for 8 bits, too.
DType size_class(const Dtype& dtype, const DeviceSpec& device) {
  if (dtype.bytes == 2 || (dtype.bytes == 1 && device.name == "trn3")) return DType::kBF16;
  return dtype.bytes == 1 ? DType::kI8 : dtype.bytes == 8 ? DType::kI64 : DType::kF32;
}

class Pricer {
 public:
  Pricer(const Operation& operation, const std::vector<const Form*>& forms,
         const DeviceSpec& device, Priced& out)
      : op_(operation), forms_(forms), device_(device), rule_(*find_rule(op_.name)), out_(out) {}

  Status run() {
    for (size_t i = 0; i < forms_.size(); ++i) {
      const Form& form = *forms_[i];
      out_.job.touches_psum = out_.job.touches_psum || form.memory == Memory::kPsum;
      if (form.memory != Memory::kHbm) out_.streamed = std::max(out_.streamed, form.elements);
    }
    if (rule_.family == Family::kDma) return price_dma();
    if (on_tensor_engine()) {
      count_bytes();
      return rule_.family == Family::kMatmul ? price_matmul() : price_transpose();
    }
    for (size_t i = 0; i < forms_.size(); ++i) {
      // A barrier names a tensor in HBM that the cores share, but moves nothing.
      if (forms_[i]->memory == Memory::kHbm && rule_.family != Family::kRegister) {
        return fail("{}: operand {} lies in HBM, where no engine but DMA reaches", op_.name,
                    op_.operands[i]);
      }
    }
    count_bytes();
    return price_engines();
  }

 private:
  // Returns the operand of a role, or null.
  const Form* operand(std::string_view role) const {
    for (size_t i = 0; i < forms_.size(); ++i) {
      if (op_.operands[i] == role) return forms_[i];
    }
    return nullptr;
  }
  // Returns the index of the first operand whose role begins with `role`.
  int32_t index_of(std::string_view role) const {
    const auto at = std::find_if(op_.operands.begin(), op_.operands.end(),
                                 [&](const std::string& name) { return name.starts_with(role); });
    return static_cast<int32_t>(at - op_.operands.begin());
  }
  // Returns all operands whose role begins with `role`, in order.
  std::vector<const Form*> operands(std::string_view role) const {
    std::vector<const Form*> found;
    for (size_t i = 0; i < forms_.size(); ++i) {
      if (op_.operands[i].starts_with(role)) found.push_back(forms_[i]);
    }
    return found;
  }
  Error lacks(std::string_view role) const {
    return fail("{}: operand {} is missing", op_.name, role);
  }
  OperandKind operand_kind(const Form& form) const {
    return {form.memory, size_class(form.dtype, device_)};
  }

  void count_bytes() {
    for (size_t i = 0; i < forms_.size(); ++i) {
      const bool psum = forms_[i]->memory == Memory::kPsum;
      (op_.writes[i] ? (psum ? out_.psum_write : out_.sbuf_write)
                     : (psum ? out_.psum_read : out_.sbuf_read)) += forms_[i]->bytes();
    }
  }

  // Returns whether the Tensor engine runs the instruction. Transposes of at most 32 x 32 may run
  // on Vector, and do if the call does not choose an engine.
  bool on_tensor_engine() const {
    if (rule_.family == Family::kMatmul) return true;
    if (rule_.family != Family::kTranspose || op_.engine == EngineName::kVector) return false;
    const Form* src = operand("src");
    return op_.engine != EngineName::kAny || !src || src->partitions > 32 || src->elements > 32;
  }

  Status price_matmul() {
    const Form* stationary = operand("stationary");
    const Form* moving = operand("moving");
    if (!stationary) return lacks("stationary");
    if (!moving) return lacks("moving");
    const bool fp32 = moving->dtype.name == "fp32" || stationary->dtype.name == "fp32";
    const DType dtype = fp32 ? DType::kF32 : DType::kBF16;
    Job& job = out_.job;
    job.kind = op_.transpose ? Kind::kTranspose : Kind::kMatmul;
    job.fp32 = fp32;
    // A transpose multiplies by an identity. An operand of zeros and ones saves half of the passes
    // of fp32 in the same way.
    job.tensor = op_.transpose || !op_.onezero.empty() ? transpose_cost(device_, dtype)
                                                       : matmul_cost(device_, dtype);
    if (slow_port(*moving)) job.tensor.ns_per_column *= 2;
    out_.tensor = {stationary->partitions, stationary->elements, moving->elements};
    // Double-row mode puts two rows of fp8 in the place of one, which halves the columns and
    // doubles the contraction. MX has four values in an element.
    if (double_rows(op_)) {
      out_.tensor.contraction *= 2;
      out_.tensor.rows = std::max<int64_t>(1, out_.tensor.rows / 2);
      out_.tensor.columns = std::max<int64_t>(1, out_.tensor.columns / 2);
    } else if (op_.name == "nc_matmul_mx") {
      out_.tensor.contraction *= 4;
    }
    if (op_.tile_position && op_.tile_size) job.array_part = array_part();
    return {};
  }

  uint16_t array_part() const {
    const auto& [row, column] = *op_.tile_position;
    const auto& [rows, columns] = *op_.tile_size;
    unsigned part = 0;
    for (int64_t r = row / 32; r < 4 && r * 32 < row + rows; ++r) {
      for (int64_t c = column / 32; c < 4 && c * 32 < column + columns; ++c) {
        part |= 1u << (r * 4 + c);
      }
    }
    return part == 0 ? Job::kWholeArray : static_cast<uint16_t>(part);
  }

  // Prices a transpose on the Tensor engine. The moving operand is the identity, which has as many
  // columns as the data has partitions.
  Status price_transpose() {
    const Form* src = operand("src");
    if (!src) return lacks("src");
    out_.job.kind = Kind::kTranspose;
    out_.job.fp32 = src->dtype.name == "fp32";
    out_.job.tensor = transpose_cost(device_, out_.job.fp32 ? DType::kF32 : DType::kBF16);
    out_.tensor = {src->partitions, src->elements, src->partitions};
    return {};
  }

  uint8_t engines() const {
    switch (op_.engine) {
      case EngineName::kVector:
        return kOnVector;
      case EngineName::kScalar:
        return kOnScalar;
      case EngineName::kGpSimd:
        return kOnGpSimd;
      default:
        break;
    }
    // GpSimd fills SBUF, so that Vector is free for evictions. GpSimd cannot reach PSUM.
    if (rule_.family == Family::kMemset) return out_.job.touches_psum ? kOnVector : kOnGpSimd;
    if (rule_.family == Family::kBinary && (op_.op == "power" || op_.op == "pow")) return kOnGpSimd;
    if (rule_.family == Family::kScalarOperand && linear()) return kOnVector | kOnScalar;
    return rule_.engines;
  }

  // Returns whether Scalar can run the instruction: a product, a sum, or a product followed by a
  // sum.
  bool linear() const {
    if (!op_.reduce_op.empty()) return false;
    const bool sum_next = op_.op1.empty() || op_.op1 == "add";
    return (op_.op0 == "multiply" && sum_next) || (op_.op0 == "add" && op_.op1.empty());
  }

  Status price_engines() {
    if (rule_.family == Family::kRegister) return price_register();
    if (!operand("dst") && rule_.family != Family::kFixedRate) return lacks("dst");
    Job& job = out_.job;
    job.kind = rule_.family == Family::kActivate ? Kind::kActivate : Kind::kOther;
    if (job.kind == Kind::kActivate) job.table = table_of(op_.op);
    if (rule_.family == Family::kGather) out_.streamed = operand("dst")->elements;
    if (rule_.family == Family::kSearch && operand("src")) {
      out_.streamed = operand("src")->elements;
    }
    const uint8_t allowed = engines();
    job.on_vector = (allowed & kOnVector) != 0;
    job.on_scalar = (allowed & kOnScalar) != 0;
    job.on_gpsimd = (allowed & kOnGpSimd) != 0;
    job.vector = cost(Unit::kVector);
    job.scalar = cost(Unit::kScalar);
    job.gpsimd = cost(Unit::kGpSimd);
    return {};
  }

  // Prices an operation on registers. Assumed: it occupies an engine as long as the smallest
  // instruction does. On the Sync engine, which no other engine waits for, it takes no time.
  Status price_register() {
    out_.streamed = 1;
    out_.job.kind = Kind::kOther;
    out_.job.on_vector = op_.engine == EngineName::kVector;
    out_.job.on_scalar = op_.engine == EngineName::kScalar;
    out_.job.on_gpsimd = op_.engine == EngineName::kGpSimd;
    out_.takes_no_time = !out_.job.on_vector && !out_.job.on_scalar && !out_.job.on_gpsimd;
    out_.job.vector = engine_cost(device_, Unit::kVector, 1);
    out_.job.scalar = engine_cost(device_, Unit::kScalar, 1);
    out_.job.gpsimd = engine_cost(device_, Unit::kGpSimd, 1);
    return {};
  }

  // Returns a number for the function's table. Assumed: every table has the functions listed here,
  // as it has copies.
  static int32_t table_of(std::string_view function) {
    for (const std::string_view free : {"", "copy", "identity", "relu", "square", "abs"}) {
      if (function == free) return simulator::kNoTable;
    }
    return static_cast<int32_t>(std::hash<std::string_view>()(function) & 0x7fffffff);
  }

  double ghz(Unit unit) const {
    return unit == Unit::kVector   ? device_.vector_ghz
           : unit == Unit::kScalar ? device_.scalar_ghz
                                   : device_.gpsimd_ghz;
  }

  EngineCost cost(Unit unit) const {
    EngineCost cost = base_cost(unit);
    double extra = rule_.extra;
    const bool reduces = op_.reduces();
    const bool may_reduce =
        rule_.family == Family::kActivate || rule_.family == Family::kScalarOperand;
    if (reduces && may_reduce) extra += 64;  // Time to read the accumulator.
    cost.fixed_ns += extra / ghz(unit);
    if (op_.dynamic || op_.name.starts_with("tensor_copy_dynamic")) {
      cost.minimum_ns = std::max(cost.minimum_ns, 600 / ghz(unit));
    }
    for (const Form* form : forms_) {
      // A port delivers an element per lane and cycle of the core's base clock. Operands with a
      // large stride get one every other cycle.
      if (slow_port(*form)) {
        cost.ns_per_element = std::max(cost.ns_per_element, 2 / device_.scalar_ghz.value);
      }
    }
    return cost;
  }

  // Returns whether neighbours are more than 16 bytes apart (architecture guide).
  static bool slow_port(const Form& form) { return form.inner_stride_bytes > 16; }

  bool packed() const {
    return std::all_of(forms_.begin(), forms_.end(), [](const Form* form) {
      return form->inner_stride_bytes <= form->dtype.bytes;
    });
  }

  EngineCost base_cost(Unit unit) const {
    const std::vector<const Form*> sources = operands("src");
    const auto at_rate = [&](double rate) { return engine_cost(device_, unit, rate); };
    if (rule_.family == Family::kFixedRate) return at_rate(fixed_rate(sources.size()));
    const Form& dst = *operand("dst");
    switch (rule_.family) {
      case Family::kScalarOperand:
        if (!op_.reduce_op.empty()) return at_rate(1);
        [[fallthrough]];
      case Family::kCopy:
        return sources.empty() ? at_rate(1) : streamed_copy(unit, dst, *sources[0]);
      case Family::kBinary:
        return binary(unit, dst, sources);
      case Family::kActivate:
        return unit == Unit::kScalar ? activation_cost(device_) : at_rate(1);
      case Family::kMemset:
        return memset_cost(device_, unit, operand_kind(dst), op_.zero);
      case Family::kReduce: {
        const bool fast = !sources.empty() && dst.dtype.bytes == 2 &&
                          sources[0]->dtype.bytes == 2 &&
                          (op_.op == "add" || op_.op == "max" || op_.op == "maximum");
        return at_rate(fast && unit == Unit::kVector ? 2 : 1);
      }
      case Family::kPredicated: {
        const Form* mask = operand("mask");
        const Form* src = sources.empty() ? operand("on_true") : sources[0];
        const bool different_memories = mask && src && mask->memory != src->memory;
        return at_rate(different_memories ? 1 : 0.5);
      }
      case Family::kReciprocal:
        return at_rate(unit == Unit::kVector ? 0.125 : 1);
      case Family::kGather:
        return at_rate(gather_rate());
      default:
        return at_rate(rule_.rate);
    }
  }

  // Returns the rate of an operation of the family kFixedRate. Assumed: a scan with one tensor
  // reads one stream and runs at full rate.
  double fixed_rate(size_t sources) const {
    return op_.name == "tensor_tensor_scan" && sources < 2 ? 1 : rule_.rate;
  }

  // Returns the cost of a copy. The fourfold mode requires neighbouring elements; other copies have
  // the twofold mode.
  EngineCost streamed_copy(Unit unit, const Form& dst, const Form& src) const {
    EngineCost cost = copy_cost(device_, unit, operand_kind(dst), operand_kind(src));
    if (unit != Unit::kVector || packed()) return cost;
    const EngineCost strided = engine_cost(device_, unit, device_.vector_fast_psum);
    cost.ns_per_element = std::max(cost.ns_per_element, strided.ns_per_element);
    return cost;
  }

  // Returns the cost of an operation on two tensors, or on a tensor and a number. The fast mode
  // requires neighbouring elements. The tables do not cover GpSimd. Assumed: it takes two cycles
  // per element.
  EngineCost binary(Unit unit, const Form& dst, const std::vector<const Form*>& sources) const {
    if (sources.size() < 2) return engine_cost(device_, unit, 1);
    if (unit != Unit::kVector) return engine_cost(device_, unit, 0.5);
    const Form &a = *sources[0], &b = *sources[1];
    if (a.memory == b.memory && !packed()) return engine_cost(device_, unit, 0.5);
    return binary_cost(device_, operand_kind(dst), operand_kind(a), operand_kind(b));
  }

  // Returns the rate from the formula of nki.isa.local_gather, with its t = 4.
  double gather_rate() const {
    const std::vector<const Form*> sources = operands("src");
    const auto per_index = static_cast<double>(op_.elements_per_index);
    const auto bytes = static_cast<double>(sources.empty() ? 2 : sources[0]->dtype.bytes);
    const double scale = (28 + 4 * per_index) / (4 * per_index);
    return scale / std::min(4 / bytes, per_index);
  }

  // Prices a DMA, of which one side, both or none is in HBM. The on-chip side decides which DMA
  // engines take part. A descriptor moves elements that are contiguous on both sides.
  // Hardware generates the descriptors of copies (documented: nki.isa.dge_mode). Those of additions
  // are assumed to exist, because a published kernel that loads with dma_compute takes 517 us where
  // its dma_copy takes 960 (chipboost, h1 and c5a). The other calls are assumed to be alike.
  Status price_dma() {
    const std::vector<const Form*> sources = operands("src"), targets = operands("dst");
    if (sources.empty()) return lacks("src");
    if (targets.empty()) return lacks("dst");
    const Form &src = *sources[0], &dst = *targets[0];
    Job& job = out_.job;
    job.kind = Kind::kDma;
    job.loads = std::any_of(sources.begin(), sources.end(),
                            [](const Form* form) { return form->memory == Memory::kHbm; });
    job.stores = dst.memory == Memory::kHbm;
    job.spans_partitions = !(job.loads && job.stores);
    const Form& chip = job.stores ? src : dst;
    const int64_t bytes = (job.loads ? src : dst).dtype.bytes;
    // A copy inside HBM is spread over all partitions, which keeps every DMA engine busy.
    const bool inside = chip.memory == Memory::kHbm;
    const int64_t row = inside ? (chip.elements + kPartitions - 1) / kPartitions : chip.elements;
    const bool transposes = op_.transpose || op_.name == "dma_transpose";
    const int64_t run = transposes ? row : std::min({row, src.contiguous, dst.contiguous});
    // Every further source, and a destination that is added to, is read as well.
    const auto streams = static_cast<int64_t>(sources.size()) + (op_.accumulate ? 1 : 0);
    out_.transfer = {
        .partitions = inside ? kPartitions : chip.partitions,
        .bytes_per_partition = row * bytes * streams,
        .chunk_bytes = run * bytes,
        .transposes = transposes,
        .software = std::any_of(op_.has_run_time_index.begin(), op_.has_run_time_index.end(),
                                [](bool has_run_time_index) { return has_run_time_index; })};
    out_.transfer.described = op_.dge == "none" || transposes || op_.name != "dma_copy";
    const bool on_chip = !job.loads && !job.stores;
    if (transposes && on_chip && device_.name != "trn1") out_.transfer.rate = kTransposeOnChipRate;
    if (!inside) out_.on_chip = index_of(job.stores ? "src" : "dst");
    return {};
  }

  const Operation& op_;
  const std::vector<const Form*>& forms_;
  const DeviceSpec& device_;
  const Rule& rule_;
  Priced& out_;
};

}  // namespace

Status check_operation(const Operation& operation, const DeviceSpec& device) {
  if (!find_rule(operation.name)) {
    return fail("operation {}: not one of nki.isa that is modelled", operation.name);
  }
  const std::string& mode = operation.perf_mode;
  if (!mode.empty() && mode != "none" && !double_rows(operation)) {
    return fail("operation {}: perf_mode {}: expected double_row or none", operation.name, mode);
  }
  if (double_rows(operation) && device.name == "trn1") {
    return fail("operation {}: perf_mode {}: {} has none", operation.name, mode, device.name);
  }
  if (operation.name == "nc_matmul_mx" && device.name != "trn3") {
    return fail("operation {}: {} has none", operation.name, device.name);
  }
  return {};
}

Result<Priced> price(const Operation& operation, const std::vector<const Form*>& forms,
                     const DeviceSpec& device) {
  Priced out;
  NMM_TRY(Pricer(operation, forms, device, out).run());
  return out;
}

}  // namespace neuronmm::trace
