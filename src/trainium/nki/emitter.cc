#include "trainium/nki/emitter.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "trainium/nki/expressions.h"
#include "trainium/nki/fold.h"
#include "trainium/nki/held_memory.h"
#include "trainium/nki/peel.h"
#include "trainium/nki/python_text.h"
#include "trainium/nki/statements.h"
#include "trainium/tile/checker.h"
#include "trainium/tile/counts.h"
#include "trainium/tile/walk.h"

namespace neuronmm::nki {

using tile::Buffer;
using tile::BufferId;
using tile::HbmRole;
using tile::Loop;
using tile::Memory;
using tile::Program;

namespace {

class Emitter {
 public:
  Emitter(const Program& program, const Description& description)
      : program_(program),
        description_(description),
        counts_(tile::count(program)),
        e_(program, description),
        statements_(program, e_, description.release.dialect),
        // The source releases buffers by name only if the names would otherwise hold more SBUF than
        // the device has. Most sources therefore have no such lines.
        releases_(description.release.dialect == Dialect::kNki &&
                  description.sbuf_bytes_per_partition > 0 &&
                  held_sbuf_bytes(program, e_.names().buffers) >
                      description.sbuf_bytes_per_partition),
        holds_sums_(program.buffers.size()) {
    mark_sum_buffers(program.body);
  }

  // Returns a whole module as text: head, constants, kernel.
  std::string module() {
    kernel();  // The kernel comes first, because it decides which constants the head needs.
    PythonText module;
    header(module);
    module.append(kernel_.text());
    return module.text();
  }

 private:
  bool legacy() const { return description_.release.dialect == Dialect::kNeuronxcc; }
  std::string name(BufferId id) const { return e_.names().buffers[static_cast<size_t>(id)]; }

  template <typename Function>
  void for_each_buffer(HbmRole role, const Function& function) const {
    for (size_t b = 0; b < program_.buffers.size(); ++b) {
      if (program_.buffers[b].role == role) function(static_cast<BufferId>(b));
    }
  }
  std::vector<std::string> names_of(HbmRole role) const {
    std::vector<std::string> names;
    for_each_buffer(role, [&](BufferId id) { names.push_back(name(id)); });
    return names;
  }

  // --- the module's head ---

  void header(PythonText& out) const {
    out.line(fmt::format("\"\"\"{}.", description_.summary));
    out.line();
    out.paragraph(description_.provenance);
    out.line();
    out.paragraph(
        "Shape, tiling and dtypes are fixed here: emit the kernel again for others. On chip the "
        "first dimension of a buffer is the partition. A buffer declared in a loop is new in every "
        "iteration; how many copies rotate is up to the compiler (`rotates: n`: what neuronmm "
        "assumes). " +
        (legacy()
             ? fmt::format("The legacy dialect of NKI, Neuron SDK {}.", description_.release.sdk)
             : fmt::format("NKI {}, Neuron SDK {}.", description_.release.nki,
                           description_.release.sdk)));
    if (releases_) {
      out.line();
      out.paragraph(
          "SBUF is nearly full: a name that becomes None lets its buffer go, which a compiler sees "
          "for itself and a simulator that runs the source as Python does not.");
    }
    out.line("\"\"\"");
    out.line();
    const std::string package = legacy() ? "neuronxcc.nki" : "nki";
    out.line(legacy() ? "import neuronxcc.nki as nki" : "import nki");
    out.line(fmt::format("import {}.isa as nisa", package));
    out.line(fmt::format("import {}.language as nl", package));
    out.line();
    constants(out);
    if (e_.used().contains("ceil_div")) {
      out.line();
      out.line();
      out.line("def ceil_div(a, b):");
      out.line("    \"\"\"How many steps of b cover a.\"\"\"");
      out.line("    return (a + b - 1) // b");
    }
  }

  void constants(PythonText& out) const {
    std::vector<std::string> names, sizes;
    for (const Dimension& dimension : description_.dimensions) {
      names.push_back(dimension.name);
      sizes.push_back(std::to_string(dimension.size));
    }
    if (!names.empty())
      out.line(fmt::format("{} = {}", fmt::join(names, ", "), fmt::join(sizes, ", ")));
    std::vector<std::string> steps;
    collect_steps(program_.body, steps);
    // A step may be a multiple of P or F that no expression names: "BM = 8 * P" also needs P.
    const auto multiple_of = [&steps](std::string_view unit) {
      return std::any_of(steps.begin(), steps.end(),
                         [unit](const std::string& line) { return line.find(unit) != line.npos; });
    };
    if (e_.used().contains("P") || multiple_of(" * P")) {
      out.line("P = 128  # partitions: rows of a contraction tile, columns of a stationary one");
    }
    if (e_.used().contains("F") || multiple_of(" * F")) {
      out.line("F = 512  # columns of a moving tile: one PSUM bank of fp32");
    }
    for (const std::string& line : steps) out.line(line);
    rotations(out);
  }

  // Writes how many copies of each buffer rotate, which `neuronmm nki` reads. The time of the
  // emitted kernel is then that of the tile program.
  void rotations(PythonText& out) const {
    constexpr size_t kWidth = 100;
    std::vector<std::string> lines = {"    "};
    for (size_t b = 0; b < program_.buffers.size(); ++b) {
      const Buffer& buffer = program_.buffers[b];
      if (buffer.memory == Memory::kHbm || buffer.is_view()) continue;
      const std::string entry =
          fmt::format("\"{}\": {}, ", name(static_cast<BufferId>(b)), buffer.copies);
      if (lines.back().size() + entry.size() > kWidth) lines.emplace_back("    ");
      lines.back() += entry;
    }
    out.line("# The copies of each buffer that rotate in the simulation. NKI does not read them.");
    out.line("NEURONMM_ROTATES = {");
    for (std::string& line : lines) {
      line.pop_back();
      out.line(line);
    }
    out.line("}");
  }

  // Collects the constants of the steps that are used: "BM = 8 * P  # row tiles of 128 in a block
  // of X". A step that several loops share appears once.
  void collect_steps(const std::vector<tile::Node>& body, std::vector<std::string>& lines) const {
    for (const tile::Node& node : body) {
      const auto* loop = std::get_if<Loop>(&node);
      if (!loop) continue;
      const std::string name = constant_name(loop->step_name);
      if (!loop->step_name.empty() && e_.used().contains(name)) {
        const auto block =
            std::find_if(description_.blocks.begin(), description_.blocks.end(),
                         [&](const BlockSize& b) { return b.name == loop->step_name; });
        const bool known = block != description_.blocks.end();
        std::string line =
            fmt::format("{} = {}{}", name, multiples(loop->step, known ? block->tiles : 0),
                        known ? "  # " + block->meaning : "");
        if (std::find(lines.begin(), lines.end(), line) == lines.end()) lines.push_back(line);
      }
      collect_steps(loop->body, lines);
    }
  }
  // Returns the size in tiles, as the parameter counts it: tiles of 512 columns are F, all others
  // P.
  static std::string multiples(int64_t elements, int64_t tiles) {
    if (elements == tiles * kF) return fmt::format("{} * F", tiles);
    return elements % kP == 0 ? fmt::format("{} * P", elements / kP) : std::to_string(elements);
  }

  // --- the kernel ---

  void kernel() {
    const std::vector<std::string> outputs = names_of(HbmRole::kOutput);
    kernel_.line();
    kernel_.line();
    kernel_.line("@nki.jit");
    kernel_.line(fmt::format("def {}({}):", identifier(program_.name),
                             fmt::join(names_of(HbmRole::kInput), ", ")));
    kernel_.indent();
    docstring();
    // The kernel is for one shape. The assertion turns a wrong call into a message instead of an
    // access outside of an operand. It does not check the dtype in the legacy dialect, because the
    // names of its tensors' types are not documented.
    for_each_buffer(HbmRole::kInput, [this](BufferId id) {
      const std::string shape = e_.shape(id);
      if (legacy())
        return kernel_.line(fmt::format("assert tuple({}.shape) == {}", name(id), shape));
      kernel_.line(fmt::format("assert {0}.shape == {1} and {0}.dtype == {2}", name(id), shape,
                               nl_dtype(program_.buffer(id).dtype)));
    });
    for (size_t b = 0; b < program_.buffers.size(); ++b) {
      const Buffer& buffer = program_.buffers[b];
      const auto id = static_cast<BufferId>(b);
      if (!buffer.is_view() || (legacy() && buffer.row_tiles)) continue;
      kernel_.line(fmt::format("{} = {}", name(id), e_.view(id)));
    }
    for (const HbmRole role : {HbmRole::kOutput, HbmRole::kScratch}) {
      for_each_buffer(role, [this](BufferId id) { allocate(id); });
    }
    body(program_.body);
    kernel_.line();
    kernel_.line(fmt::format("return {}", fmt::join(outputs, ", ")));
    kernel_.dedent();
  }

  void docstring() {
    kernel_.line(fmt::format("\"\"\"{}.", description_.summary));
    kernel_.line();
    if (!description_.reference.empty()) {
      kernel_.line(fmt::format("    {} = {}", fmt::join(names_of(HbmRole::kOutput), ", "),
                               description_.reference));
      kernel_.line();
    }
    for (const auto& [role, title] :
         {std::pair{HbmRole::kInput, "Args"}, std::pair{HbmRole::kOutput, "Returns"}}) {
      kernel_.line(fmt::format("{}:", title));
      for_each_buffer(role, [this](BufferId id) {
        const Buffer& buffer = program_.buffer(id);
        kernel_.line(fmt::format("    {}: {} {}", name(id), e_.shape(id),
                                 buffer.dtype == DType::kI32    ? "i32"
                                 : buffer.dtype == DType::kBF16 ? "bf16"
                                                                : "fp32"));
      });
      kernel_.line();
    }
    if (description_.cores > 1) {
      kernel_.line(
          fmt::format("Launched on {0} cores: {1}[{0}](...). Each makes its share of rows.",
                      description_.cores, identifier(program_.name)));
      kernel_.line();
    }
    kernel_.line(fmt::format("{} bytes from HBM, {} to HBM, {} nc_matmul.", counts_.hbm_read_bytes,
                             counts_.hbm_write_bytes, counts_.nc_matmuls));
    kernel_.line("\"\"\"");
  }

  void allocate(BufferId id) {
    const Buffer& buffer = program_.buffer(id);
    // HBM is not rotated, and one copy needs no remark.
    const bool rotates = buffer.memory != Memory::kHbm && buffer.copies > 1;
    kernel_.line(statements_.allocation(id, holds_sums_[static_cast<size_t>(id)]),
                 rotates ? fmt::format("rotates: {}", buffer.copies) : "");
  }

  // A blank line separates the stages of a kernel. It stands before the first node of the outermost
  // level, and before every node that follows a loop.
  void body(const std::vector<tile::Node>& nodes) {
    const auto done = last_uses(program_, nodes);
    for (size_t i = 0; i < nodes.size(); ++i) {
      const tile::Node& node = nodes[i];
      const bool after_loop = i == 0 || std::holds_alternative<Loop>(nodes[i - 1]);
      if (is_outermost(nodes) && after_loop) kernel_.line();
      if (const auto* inner = std::get_if<Loop>(&node)) {
        inner->cores ? core(*inner) : loop(*inner);
      } else if (const auto* allocation = std::get_if<tile::Allocate>(&node)) {
        allocate(allocation->buffer);
      } else {
        statements_.write(std::get<tile::Instruction>(node).operation, kernel_);
      }
      if (releases_) release(done[i]);
    }
    if (nodes.empty()) kernel_.line("pass");
  }

  bool is_outermost(const std::vector<tile::Node>& nodes) const {
    if (&nodes == &program_.body) return true;
    const auto* first = std::get_if<Loop>(&program_.body.front());
    return first && first->cores && &nodes == &first->body;
  }

  void release(const std::vector<BufferId>& buffers) {
    if (buffers.empty()) return;
    std::string names;
    for (const BufferId id : buffers) names += fmt::format("{} = ", name(id));
    kernel_.line(names + "None");
  }

  // The current dialect has Python's loops. The legacy dialect is told whether iterations depend on
  // one another. If they do not, its compiler reorders and overlaps them.
  std::string iterator(const Loop& loop) const {
    if (!legacy()) return "range";
    return loop.carried ? "nl.sequential_range" : "nl.affine_range";
  }

  void loop(const Loop& loop) {
    const std::string trips = e_.trips(loop);
    kernel_.line(fmt::format("for {} in {}({}):", e_.names().loops[static_cast<size_t>(loop.id)],
                             iterator(loop), trips));
    kernel_.indent();
    for (const std::string& assignment : e_.enter(loop)) kernel_.line(assignment);
    body(loop.body);
    e_.leave();
    kernel_.dedent();
  }

  // Every core runs the kernel and executes one iteration of the loop over cores.
  void core(const Loop& loop) {
    kernel_.line(fmt::format("assert nl.num_programs(0) == {}", loop.max));
    kernel_.line(
        fmt::format("{} = nl.program_id(0)", e_.names().loops[static_cast<size_t>(loop.id)]));
    for (const std::string& assignment : e_.enter(loop)) kernel_.line(assignment);
    body(loop.body);
    e_.leave();
  }

  void mark_sum_buffers(const std::vector<tile::Node>& nodes) {
    for (const tile::Node& node : nodes) {
      if (const auto* loop = std::get_if<Loop>(&node)) {
        mark_sum_buffers(loop->body);
      } else if (const auto* instruction = std::get_if<tile::Instruction>(&node)) {
        const auto* matmul = std::get_if<tile::NcMatmul>(&instruction->operation);
        if (matmul) holds_sums_[static_cast<size_t>(matmul->dst.buffer)] = true;
      }
    }
  }

  const Program& program_;
  const Description& description_;
  tile::Counts counts_;
  Expressions e_;
  Statements statements_;
  bool releases_;                 // True if names release buffers after their last use.
  std::vector<bool> holds_sums_;  // True for buffers that matmuls write, by BufferId.
  PythonText kernel_;
};

// Checks that the description fits the program. The description comes from the kernel's catalogue
// entry, and the program from its builder. If they disagree, the names in the source would be
// wrong.
Status check_description(const Program& program, const Description& description) {
  for (const Operand& operand : description.operands) {
    const auto buffer =
        std::find_if(program.buffers.begin(), program.buffers.end(),
                     [&operand](const Buffer& b) { return b.name == operand.name; });
    if (buffer == program.buffers.end()) {
      return fail("{}: has no buffer {}, which its description names", program.name, operand.name);
    }
    if (buffer->shape.size() != operand.dimensions.size()) {
      return fail("{}: {} has {} dimensions, its description {}", program.name, operand.name,
                  buffer->shape.size(), operand.dimensions.size());
    }
  }
  return {};
}

// The legacy dialect writes positions that depend on loops. Its documentation does not say how a
// load takes a position from a register.
Status check_indices(const Program& program) {
  Status status;
  tile::for_each_distinct(
      program, [&](const tile::Instruction& instruction, std::span<const int64_t>, int64_t) {
        const auto* load = std::get_if<tile::DmaCopy>(&instruction.operation);
        if (!load || load->src.index.empty() || !status.ok()) return;
        status = fail(
            "{}: \"{}\" finds its place by a number in the data, which the dialect neuronxcc "
            "does not take: pass --sdk 2.29 or a later one, and a --device other than trn1",
            program.name, instruction.label);
      });
  return status;
}

}  // namespace

// Loops that run once are removed first, because they would only add names.
Result<std::string> emit(const Program& program, const Description& description) {
  NMM_TRY(tile::check_structure(program));
  NMM_TRY(check_description(program, description));
  const Program folded = fold_single_trips(program);
  if (description.release.dialect == Dialect::kNki) return Emitter(folded, description).module();
  if (description.cores > 1) {
    return fail("{}: rows are split over cores in the dialect nki alone", program.name);
  }
  NMM_TRY(check_indices(folded));
  NMM_TRY(check_sums(folded));
  NMM_ASSIGN(const Program peeled, peel_ragged_loops(folded));
  return Emitter(peeled, description).module();
}

}  // namespace neuronmm::nki
