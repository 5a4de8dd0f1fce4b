#include "trainium/kernels/cores.h"

#include <optional>

#include "trainium/tile/accesses.h"

namespace neuronmm::kernels {

using tile::Affine;
using tile::Buffer;
using tile::Loop;
using tile::LoopId;
using tile::Node;
using tile::Program;

namespace {

// The number of the loop over cores. Loops are numbered from the outside in, so this loop comes
// first.
constexpr LoopId kCoreLoop = 0;

// Puts a program of one core into a loop over cores. All loop numbers move up by one.
class SpreadOverCores {
 public:
  SpreadOverCores(const Kernel& kernel, const KernelOptions& options, Program& program,
                  int64_t rows, int64_t cores)
      : program_(program), rows_(rows), cores_(cores), token_dimension_(program.buffers.size()) {
    for (size_t b = 0; b < program.buffers.size(); ++b) {
      const Buffer& buffer = program.buffers[b];
      const Buffer& named = buffer.is_view() ? program.buffer(buffer.view_of) : buffer;
      for (const OperandDescription& operand : kernel.operands) {
        if (operand.name != named.name) continue;
        const MatrixLayout layout = layout_of(kernel, operand, options);
        if (layout.rows == 'M') token_dimension_[b] = 0;
        if (layout.columns == 'M') token_dimension_[b] = 1;
      }
    }
  }

  // Fails for a view of an operand with tokens as columns, because the tokens have no dimension of
  // their own there.
  Status run() {
    for (size_t b = 0; b < program_.buffers.size(); ++b) {
      if (!token_dimension_[b]) continue;
      Buffer& buffer = program_.buffers[b];
      int64_t& size = buffer.shape[*token_dimension_[b]];
      if (size != rows_) return fail("{}: {} cannot be split by rows", program_.name, buffer.name);
      size *= cores_;
    }
    rewrite_body(program_.body);
    Loop core;
    core.id = kCoreLoop;
    core.name = "core";
    core.max = cores_;
    core.step = rows_;
    core.step_name = "CM";
    core.cores = true;
    core.body = std::move(program_.body);
    program_.body.clear();
    program_.body.emplace_back(std::move(core));
    ++program_.num_loops;
    return {};
  }

 private:
  static void renumber_loops(Affine& affine) {
    for (auto& term : affine.terms) ++term.first;
  }

  void rewrite_body(std::vector<Node>& nodes) {
    for (Node& node : nodes) {
      if (auto* loop = std::get_if<Loop>(&node)) {
        ++loop->id;
        renumber_loops(loop->origin);
        rewrite_body(loop->body);
      } else if (auto* instruction = std::get_if<tile::Instruction>(&node)) {
        tile::rewrite_accesses(instruction->operation,
                               [this](tile::Access& access) { rewrite_access(access); });
        if (auto* matmul = std::get_if<tile::NcMatmul>(&instruction->operation)) {
          for (LoopId& id : matmul->sum_loops) ++id;
        }
      }
    }
  }

  void rewrite_access(tile::Access& access) {
    for (tile::Slice& slice : access.slices) {
      renumber_loops(slice.start);
      renumber_loops(slice.size.origin);
    }
    const std::optional<size_t>& tokens = token_dimension_[static_cast<size_t>(access.buffer)];
    if (!tokens) return;
    Affine core;
    core.terms = {{kCoreLoop, rows_}};
    access.slices[*tokens].start = access.slices[*tokens].start + core;
  }

  Program& program_;
  int64_t rows_, cores_;
  // The dimension of tokens of each buffer, if it has one.
  std::vector<std::optional<size_t>> token_dimension_;
};

}  // namespace

Result<KernelShape> share_of_core(const KernelShape& whole, int64_t cores) {
  if (whole.M % cores != 0) {
    return fail("--cores {}: expected M to be a multiple of {}, found {}", cores, cores, whole.M);
  }
  KernelShape share = whole;
  share.M /= cores;
  return share;
}

Result<Program> make_program_on_cores(const Kernel& kernel, const KernelShape& whole,
                                      const Tiling& tiling, const KernelOptions& options,
                                      int64_t cores) {
  NMM_ASSIGN(const KernelShape share, share_of_core(whole, cores));
  NMM_ASSIGN(Program program, make_program(kernel, share, tiling, options));
  if (cores == 1) return program;
  NMM_TRY(SpreadOverCores(kernel, options, program, share.M, cores).run());
  return program;
}

}  // namespace neuronmm::kernels
