#include "trainium/simulator/interpreter.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/float16.h"
#include "trainium/simulator/multiply_tile.h"
#include "trainium/simulator/strided.h"
#include "trainium/tile/accesses.h"
#include "trainium/tile/checker.h"
#include "trainium/tile/walk.h"

namespace neuronmm::simulator {
namespace {

using tile::Access;
using tile::Buffer;
using tile::BufferId;
using tile::Instruction;
using tile::Memory;
using tile::Program;
using Values = std::vector<float>;

// The bits of an element that was never written: a NaN that no arithmetic produces.
constexpr uint32_t kUnwrittenBits = 0x7FDEAD00;
const float kUnwritten = std::bit_cast<float>(kUnwrittenBits);

float round_to(DType dtype, float value) {
  return dtype == DType::kBF16 ? bf16::from_float(value).to_float() : value;
}

float silu(float value) { return value / (1.0f + std::exp(-value)); }

class Interpreter {
 public:
  Interpreter(const Program& program, Fault& fault)
      : program_(program),
        fault_(fault),
        memory_(program.buffers.size()),
        in_place_(memory_.size()) {}

  // Runs allocations and instructions in program order on one thread. Every allocation makes a new,
  // empty instance. Kernels that rely on the previous iteration's values are found this way.
  Result<Interpretation> run(const Inputs& inputs) {
    NMM_TRY(fill_hbm(inputs));
    Interpretation result;
    for (tile::Walker walker(program_); walker.next();) {
      loop_values_ = walker.loop_values();
      if (walker.allocate()) {
        allocate(walker.allocate()->buffer);
      } else {
        instruction_ = walker.instruction();
        result.counts.add(program_, *instruction_, loop_values_);
        NMM_TRY(
            std::visit([this](const auto& op) { return execute(op); }, instruction_->operation));
      }
    }
    NMM_TRY(take_outputs(result.outputs));
    return result;
  }

 private:
  const Buffer& buffer(const Access& access) const { return program_.buffer(access.buffer); }
  Values& values(BufferId id) { return memory_[static_cast<size_t>(id)]; }
  // Returns the values of a buffer. An input that is read in place lies in the caller's memory,
  // which is const. A view lies in the memory of its input.
  float* data(BufferId id) {
    const float* const in_place = in_place_[static_cast<size_t>(id)];
    // write() refuses to write there.
    return in_place ? const_cast<float*>(in_place) : values(id).data();
  }

  void allocate(BufferId id) {
    int64_t elements = 1;
    for (const int64_t size : program_.buffer(id).shape) elements *= size;
    values(id).assign(static_cast<size_t>(elements), kUnwritten);
  }

  // Inputs get the caller's values. Outputs and scratch buffers start as unwritten.
  Status fill_hbm(const Inputs& inputs) {
    for (size_t i = 0; i < program_.buffers.size(); ++i) {
      const Buffer& buffer = program_.buffers[i];
      if (buffer.memory != Memory::kHbm || buffer.is_view()) continue;
      if (buffer.role == tile::HbmRole::kInput) {
        NMM_TRY(take_input(static_cast<BufferId>(i), inputs));
      } else {
        allocate(static_cast<BufferId>(i));
      }
    }
    for (size_t i = 0; i < program_.buffers.size(); ++i) {
      const Buffer& buffer = program_.buffers[i];
      if (buffer.is_view()) in_place_[i] = data(buffer.view_of);
    }
    return {};
  }

  // Copies an input into the program's memory, rounded to the buffer's dtype, or notes where the
  // caller's values lie.
  Status take_input(BufferId id, const Inputs& inputs) {
    const Buffer& buffer = program_.buffer(id);
    const auto input = inputs.find(buffer.name);
    if (input == inputs.end()) return fail("input {}: not given", buffer.name);
    const auto& [view, in_place] = input->second;
    int64_t columns = 1;
    for (size_t d = 1; d < buffer.shape.size(); ++d) columns *= buffer.shape[d];
    if (view.rows != buffer.shape[0] || view.columns != columns) {
      return fail("input {}: expected {} x {}, found {} x {}", buffer.name, buffer.shape[0],
                  columns, view.rows, view.columns);
    }
    if (in_place) {
      NMM_CHECK(view.stride == view.columns);
      in_place_[static_cast<size_t>(id)] = view.data;
      return {};
    }
    allocate(id);
    for (int64_t i = 0; i < view.rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) {
        const float value = round_to(buffer.dtype, view.row(i)[j]);
        // An input may hold any NaN, including the one that marks unwritten elements. All NaNs
        // become the ordinary one.
        values(id)[static_cast<size_t>(i * columns + j)] =
            std::isnan(value) ? std::numeric_limits<float>::quiet_NaN() : value;
      }
    }
    return {};
  }

  // Takes the outputs' values. An output with an element that was never written is an error of the
  // program.
  Status take_outputs(std::map<std::string, Matrix>& outputs) {
    for (size_t i = 0; i < program_.buffers.size(); ++i) {
      const Buffer& buffer = program_.buffers[i];
      if (buffer.role != tile::HbmRole::kOutput) continue;
      const Values& from = memory_[i];
      if (has_unwritten(from.data(), static_cast<int64_t>(from.size()), 1)) {
        fault_ = {Fault::Kind::kUnwritten, "", buffer.name};
        return fail("output {}: the program does not write all of it", buffer.name);
      }
      Matrix matrix(buffer.shape[0], static_cast<int64_t>(from.size()) / buffer.shape[0]);
      std::copy(from.begin(), from.end(), matrix.data());
      outputs.emplace(buffer.name, std::move(matrix));
    }
    return {};
  }

  // --- Operands ---

  // Returns an error that names the instruction, the buffer, and the ranges of all operands at
  // these loop values. The ranges suffice to find the wrong index without another run.
  Error at_fault(Fault::Kind kind, const Access& access, std::string_view what) {
    fault_ = {kind, instruction_->label, buffer(access).name};
    std::string operands;
    for (const tile::Operand& operand : tile::operands_of(instruction_->operation)) {
      const tile::Region region = tile::evaluate(*operand.access, loop_values_);
      operands += fmt::format("{}{} {}[", operands.empty() ? "" : ", ", operand.role,
                              buffer(*operand.access).name);
      for (size_t d = 0; d < region.dimensions; ++d) {
        operands += fmt::format("{}{}:{}", d == 0 ? "" : ", ", region.start[d],
                                region.start[d] + region.size[d]);
      }
      operands += "]";
    }
    return fail("\"{}\": {} {} ({})", instruction_->label, buffer(access).name, what, operands);
  }

  // Adds the number that the index of an access holds to the start of the region.
  Status move_by_index(const Access& access, tile::Region& region) {
    const Access& index = access.index.front();
    Strided element;
    NMM_TRY(read(index, element));
    const float number = *element.data;
    const int64_t size = buffer(access).shape[0];
    // A NaN is no place either.
    if (number >= 0 && number < static_cast<float>(size)) {
      region.start[0] += static_cast<int64_t>(number);
      return {};
    }
    return at_fault(Fault::Kind::kOutOfBounds, access,
                    fmt::format("has {} matrices, and {} names number {}, which is out of bounds",
                                size, buffer(index).name, number));
  }

  // Finds the elements that an access covers at these loop values. The bounds are checked first, so
  // every pointer into the view lies inside its buffer.
  Status view_of(const Access& access, Strided& view) {
    tile::Region region = tile::evaluate(access, loop_values_);
    if (!access.index.empty()) NMM_TRY(move_by_index(access, region));
    const Buffer& b = buffer(access);
    for (size_t d = 0; d < region.dimensions; ++d) {
      const int64_t end = region.start[d] + region.size[d];
      if (region.start[d] < 0 || region.size[d] < 1 || end > b.shape[d]) {
        return at_fault(Fault::Kind::kOutOfBounds, access, "is accessed outside its bounds");
      }
    }
    view = strided(access, region, b, data(access.buffer));
    return {};
  }

  // Finds the view that an instruction writes. Fails for an input that is read in place, because
  // the caller owns its values.
  Status write(const Access& access, Strided& view) {
    if (in_place_[static_cast<size_t>(access.buffer)] != nullptr) {
      return at_fault(Fault::Kind::kMalformed, access,
                      "is written, an input that is read in place");
    }
    return view_of(access, view);
  }

  static bool has_unwritten(const float* run, int64_t count, int64_t step) {
    uint32_t found = 0;
    const auto look = [&](int64_t stride) {
      for (int64_t i = 0; i < count; ++i) {
        found |= std::bit_cast<uint32_t>(run[i * stride]) == kUnwrittenBits;
      }
    };
    // A constant stride lets the compiler use vector instructions.
    step == 1 ? look(1) : look(step);
    return found != 0;
  }

  // Finds the view that an instruction reads. Fails if an element of it was not written.
  Status read(const Access& access, Strided& view) {
    NMM_TRY(view_of(access, view));
    bool unwritten = false;
    for_each_run<1>({&view}, [&](const auto& run) {
      unwritten |= has_unwritten(run[0], view.run(), view.step());
    });
    if (!unwritten) return {};
    return at_fault(Fault::Kind::kUnwritten, access, "is read where nothing was written");
  }

  // Computes dst = function(src...), rounded to the dtype of dst. All operands must have the same
  // shape.
  template <size_t kSources, typename Function>
  Status map(const Access& dst, const std::array<const Access*, kSources>& sources,
             const Function& function) {
    std::array<Strided, kSources + 1> views;
    NMM_TRY(write(dst, views[0]));
    std::array<const Strided*, kSources + 1> pointers{&views[0]};
    for (size_t i = 0; i < kSources; ++i) {
      NMM_TRY(read(*sources[i], views[i + 1]));
      pointers[i + 1] = &views[i + 1];
      if (!views[i + 1].same_shape(views[0])) {
        return at_fault(Fault::Kind::kShapes, *sources[i], "has another shape than dst");
      }
    }
    // A write rounds to bf16; fp32 needs no rounding.
    const bool narrow = buffer(dst).dtype == DType::kBF16;
    const bool contiguous = std::all_of(views.begin(), views.end(),
                                        [](const Strided& view) { return view.step() == 1; });
    for_each_run(pointers, [&](const auto& run) {
      const auto all = [&](auto step) {  // step(v) is the step of view v.
        for (int64_t i = 0; i < views[0].run(); ++i) {
          const float value = [&]<size_t... kSource>(std::index_sequence<kSource...>) {
            return function(run[kSource + 1][i * step(kSource + 1)]...);
          }
          (std::make_index_sequence<kSources>());
          run[0][i * step(0)] = narrow ? bf16::from_float(value).to_float() : value;
        }
      };
      if (contiguous) {
        // The loop is compiled twice. With a step of 1 that the compiler knows, it uses vector
        // instructions.
        all([](size_t) { return int64_t{1}; });
      } else {
        all([&views](size_t v) { return views[v].step(); });
      }
    });
    return {};
  }

  Status copy(const Access& dst, const Access& src) {
    return map<1>(dst, {&src}, [](float value) { return value; });
  }

  // --- Instructions ---

  Status execute(const tile::DmaCopy& op) {
    return op.transpose ? copy_transposed(op.dst, op.src) : copy(op.dst, op.src);
  }
  Status execute(const tile::NcTranspose& op) { return copy_transposed(op.dst, op.src); }
  Status execute(const tile::TensorCopy& op) { return copy(op.dst, op.src); }

  // Transposes two dimensions. A DMA and the Tensor engine compute the same values and differ only
  // in time.
  Status copy_transposed(const Access& dst, const Access& src) {
    Strided to, from;
    NMM_TRY(write(dst, to));
    NMM_TRY(read(src, from));
    if (from.dimensions != 2 || !from.transposed().same_shape(to)) {
      return at_fault(Fault::Kind::kShapes, src, "is not the transpose of dst in shape");
    }
    const DType dtype = buffer(dst).dtype;
    for (int64_t i = 0; i < to.size[0]; ++i) {
      for (int64_t j = 0; j < to.size[1]; ++j) {
        to.data[i * to.stride[0] + j * to.stride[1]] =
            round_to(dtype, from.data[j * from.stride[0] + i * from.stride[1]]);
      }
    }
    return {};
  }

  Status execute(const tile::TensorTensor& op) {
    const std::array<const Access*, 2> sources = {&op.a, &op.b};
    if (op.op == tile::BinaryOp::kAdd) {
      return map(op.dst, sources, [](float a, float b) { return a + b; });
    }
    return map(op.dst, sources, [](float a, float b) { return a * b; });
  }

  Status execute(const tile::ScaleAdd& op) {
    Strided dst, src, scale, addend;
    NMM_TRY(read(op.src, src));
    NMM_TRY(read(op.scale, scale));
    NMM_TRY(read(op.addend, addend));
    NMM_TRY(write(op.dst, dst));
    if (!src.same_shape(dst) || !addend.same_shape(dst) || dst.dimensions != 2 ||
        scale.elements() != dst.rows()) {
      return at_fault(Fault::Kind::kShapes, op.src, "has another shape than dst, scale or addend");
    }
    const DType dtype = buffer(op.dst).dtype;
    for (int64_t i = 0; i < dst.rows(); ++i) {
      const float factor = scale.data[i * scale.stride[0]];
      for (int64_t j = 0; j < dst.size[1]; ++j) {
        const float product = src.data[i * src.stride[0] + j * src.stride[1]] * factor;
        const float sum = product + addend.data[i * addend.stride[0] + j * addend.stride[1]];
        dst.data[i * dst.stride[0] + j * dst.stride[1]] = round_to(dtype, sum);
      }
    }
    return {};
  }

  Status execute(const tile::Activate& op) {
    if (op.function == tile::Activation::kCopy) return copy(op.dst, op.src);
    return map<1>(op.dst, {&op.src}, silu);
  }

  Status execute(const tile::Memset& op) {
    return map<0>(op.dst, {}, [&op] { return op.value; });
  }

  // Computes dst = stationary^T x moving, or adds the product to dst if an accumulation continues.
  // `sum_loops` are the loops along the contraction; a new sum begins when all of them are at 0.
  // The product of one tile is first summed in fp32 by itself and then added, as PSUM does.
  Status execute(const tile::NcMatmul& op) {
    const bool begins = std::all_of(op.sum_loops.begin(), op.sum_loops.end(), [this](auto loop) {
      return loop_values_[static_cast<size_t>(loop)] == 0;
    });
    const bool overwrites = begins && !op.always_adds;
    Strided stationary, moving, dst;
    NMM_TRY(read(op.stationary, stationary));
    NMM_TRY(read(op.moving, moving));
    NMM_TRY(write(op.dst, dst));
    if (!overwrites) NMM_TRY(read(op.dst, dst));
    // The contraction runs along the partitions, the first dimension of both operands.
    const int64_t K = stationary.rows(), M = stationary.elements() / K;
    const int64_t N = moving.elements() / moving.rows();
    if (moving.rows() != K || dst.rows() != M || dst.elements() != M * N) {
      return at_fault(Fault::Kind::kShapes, op.dst, "is not stationary^T x moving in shape");
    }
    // Padded columns spare multiply_tile a loop for the remainder. unpack() drops them again.
    const int64_t padded = (N + kColumnPadding - 1) / kColumnPadding * kColumnPadding;
    pack(stationary, M, M, stationary_);
    pack(moving, N, padded, moving_);
    product_.resize(static_cast<size_t>(M * padded));
    multiply_tile(stationary_.data(), moving_.data(), K, M, padded, product_.data());
    unpack(dst, N, padded, overwrites);
    return {};
  }

  // Writes the rows of a view one after the other, `row` values each, and pads each row with zeros
  // to `padded` values.
  static void pack(const Strided& view, int64_t row, int64_t padded, Values& to) {
    to.resize(static_cast<size_t>(view.rows() * padded));
    int64_t packed = 0;  // The number of values so far, without padding.
    for_each_run<1>({&view}, [&](const auto& run) {
      float* const out = to.data() + packed / row * padded + packed % row;
      for (int64_t i = 0; i < view.run(); ++i) out[i] = run[0][i * view.step()];
      packed += view.run();
    });
    if (padded == row) return;
    for (int64_t i = 0; i < view.rows(); ++i) {
      std::fill_n(to.data() + i * padded + row, padded - row, 0.0f);
    }
  }

  // Writes or adds the product to the elements of dst, without the padding.
  void unpack(const Strided& dst, int64_t row, int64_t padded, bool overwrites) const {
    int64_t done = 0;
    for_each_run<1>({&dst}, [&](const auto& run) {
      const float* const from = product_.data() + done / row * padded + done % row;
      for (int64_t i = 0; i < dst.run(); ++i) {
        float& to = run[0][i * dst.step()];
        to = overwrites ? from[i] : to + from[i];
      }
      done += dst.run();
    });
  }

  const Program& program_;
  Fault& fault_;
  std::vector<Values> memory_;  // The newest instance of each buffer, by BufferId.
  // The values of an input that is not in memory_, by BufferId.
  std::vector<const float*> in_place_;
  std::span<const int64_t> loop_values_;
  const Instruction* instruction_ = nullptr;
  Values stationary_, moving_, product_;
};

}  // namespace

// A malformed program is refused before it runs, because the interpreter relies on the rules of
// check_structure.
Result<Interpretation> interpret(const Program& program, const Inputs& inputs, Fault* fault) {
  Fault ignored;
  Fault& found = fault ? *fault : ignored;
  if (const Status structure = tile::check_structure(program); !structure.ok()) {
    found = {Fault::Kind::kMalformed, "", ""};
    return structure.error();
  }
  return Interpreter(program, found).run(inputs);
}

}  // namespace neuronmm::simulator
