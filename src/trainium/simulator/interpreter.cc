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

// What an element holds that nothing has written: a NaN that no arithmetic gives.
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

  // Allocations and instructions in program order, one thread. Every allocation makes a new
  // instance: that it is empty is what finds kernels that rely on leftovers of the iteration
  // before.
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
  // Inputs that are read in place lie in the caller's memory, which is const, and views in that of
  // their input.
  float* data(BufferId id) {
    const float* const in_place = in_place_[static_cast<size_t>(id)];
    return in_place ? const_cast<float*>(in_place) : values(id).data();  // write() protects it
  }

  void allocate(BufferId id) {
    int64_t elements = 1;
    for (const int64_t size : program_.buffer(id).shape) elements *= size;
    values(id).assign(static_cast<size_t>(elements), kUnwritten);
  }

  // Inputs get the caller's values, outputs and scratch start as not written.
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

  // Copies an input into the program's memory, rounded to the buffer's dtype, or notes where it
  // lies.
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
        // An input may hold any NaN, also the one that marks what was not written. All become the
        // ordinary one.
        values(id)[static_cast<size_t>(i * columns + j)] =
            std::isnan(value) ? std::numeric_limits<float>::quiet_NaN() : value;
      }
    }
    return {};
  }

  // An output of which an element was never written is an error of the program and has no values.
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

  // --- operands ---

  // The error that names the instruction, the buffer, and the ranges that all its operands have at
  // these loop values: enough to find the wrong index without running again.
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

  // The elements that an access means at these loop values. The check of the bounds comes first:
  // every pointer made from here on is inside its buffer.
  Status view_of(const Access& access, Strided& view) {
    const tile::Region region = tile::evaluate(access, loop_values_);
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

  // The view of what an instruction writes. An input that is read in place belongs to the caller.
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
    step == 1 ? look(1) : look(step);  // a constant stride lets the compiler use vectors
    return found != 0;
  }

  // The view of what an instruction reads; every element of it must have been written.
  Status read(const Access& access, Strided& view) {
    NMM_TRY(view_of(access, view));
    bool unwritten = false;
    for_each_run<1>({&view}, [&](const auto& run) {
      unwritten |= has_unwritten(run[0], view.run(), view.step());
    });
    if (!unwritten) return {};
    return at_fault(Fault::Kind::kUnwritten, access, "is read where nothing was written");
  }

  // dst = function(src...), rounded; all of one shape.
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
    // The rounding of a write: to bf16, or none for fp32.
    const bool narrow = buffer(dst).dtype == DType::kBF16;
    const bool contiguous = std::all_of(views.begin(), views.end(),
                                        [](const Strided& view) { return view.step() == 1; });
    for_each_run(pointers, [&](const auto& run) {
      const auto all = [&](auto step) {  // of view v
        for (int64_t i = 0; i < views[0].run(); ++i) {
          const float value = [&]<size_t... kSource>(std::index_sequence<kSource...>) {
            return function(run[kSource + 1][i * step(kSource + 1)]...);
          }
          (std::make_index_sequence<kSources>());
          run[0][i * step(0)] = narrow ? bf16::from_float(value).to_float() : value;
        }
      };
      if (contiguous) {
        // Two instances of one loop: with a step of 1 that the compiler knows, it uses vectors.
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

  // --- instructions ---

  Status execute(const tile::DmaCopy& op) {
    return op.transpose ? copy_transposed(op.dst, op.src) : copy(op.dst, op.src);
  }
  Status execute(const tile::NcTranspose& op) { return copy_transposed(op.dst, op.src); }
  Status execute(const tile::TensorCopy& op) { return copy(op.dst, op.src); }

  // DMA and Tensor engine transpose two dimensions; which of the two does it changes the time and
  // not the values.
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

  Status execute(const tile::Activate& op) {
    if (op.function == tile::Activation::kCopy) return copy(op.dst, op.src);
    return map<1>(op.dst, {&op.src}, silu);
  }

  Status execute(const tile::Memset& op) {
    return map<0>(op.dst, {}, [&op] { return op.value; });
  }

  // dst = stationary^T x moving, or += where an accumulation goes on: `first` are the loops along
  // the contraction, and a new sum begins where all of them are at 0. The product of one tile is
  // summed in fp32 by itself and then added, as PSUM does.
  Status execute(const tile::NcMatmul& op) {
    const bool begins = std::all_of(op.first.begin(), op.first.end(), [this](auto loop) {
      return loop_values_[static_cast<size_t>(loop)] == 0;
    });
    const bool overwrites = begins && !op.adds;
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
    // Padding the columns spares the multiplication its tails. It is cut off again by unpack.
    const int64_t padded = (N + kColumnPadding - 1) / kColumnPadding * kColumnPadding;
    pack(stationary, M, M, stationary_);
    pack(moving, N, padded, moving_);
    product_.resize(static_cast<size_t>(M * padded));
    multiply_tile(stationary_.data(), moving_.data(), K, M, padded, product_.data());
    unpack(dst, N, padded, overwrites);
    return {};
  }

  // The rows of a view one after the other, `row` values each, padded with zeros to `padded`.
  static void pack(const Strided& view, int64_t row, int64_t padded, Values& to) {
    to.resize(static_cast<size_t>(view.rows() * padded));
    int64_t packed = 0;  // values so far, without padding
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

  // Writes or adds the product to the elements of dst, without the columns of padding.
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
  std::vector<Values> memory_;          // by BufferId: the newest instance
  std::vector<const float*> in_place_;  // by BufferId: an input that is not in memory_
  std::span<const int64_t> loop_values_;
  const Instruction* instruction_ = nullptr;
  Values stationary_, moving_, product_;
};

}  // namespace

// A malformed program is refused before it runs: the interpreter relies on what check_structure has
// checked.
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
