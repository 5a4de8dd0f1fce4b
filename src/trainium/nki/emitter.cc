#include "trainium/nki/emitter.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "trainium/nki/expressions.h"
#include "trainium/nki/fold.h"
#include "trainium/nki/held_memory.h"
#include "trainium/nki/python_text.h"
#include "trainium/tile/accesses.h"
#include "trainium/tile/checker.h"
#include "trainium/tile/counts.h"

namespace neuronmm::nki {

using tile::Buffer;
using tile::BufferId;
using tile::HbmRole;
using tile::Loop;
using tile::Memory;
using tile::Program;

namespace {

std::string_view nl_dtype(DType dtype) {
  return dtype == DType::kBF16 ? "nl.bfloat16" : "nl.float32";
}

// NKI tells outputs (shared_hbm: the caller sees them) from scratch (private_hbm).
std::string_view nl_memory(const Buffer& buffer) {
  if (buffer.memory == Memory::kSbuf) return "nl.sbuf";
  if (buffer.memory == Memory::kPsum) return "nl.psum";
  return buffer.role == HbmRole::kOutput ? "nl.shared_hbm" : "nl.private_hbm";
}

// The arguments of one nisa call as text. NKI's parameter names differ from instruction to
// instruction, which is why they stand here and not in the tile program.
struct Call {
  Expressions& e;

  std::vector<std::string> operator()(const tile::DmaCopy& op) const {
    return of({{"dst", &op.dst}, {"src", &op.src}});
  }
  std::vector<std::string> operator()(const tile::NcMatmul& op) const {
    auto call = of({{"dst", &op.dst}, {"stationary", &op.stationary}, {"moving", &op.moving}});
    call.push_back("accumulate=" + e.not_first(op.first));
    return call;
  }
  std::vector<std::string> operator()(const tile::NcTranspose& op) const {
    return of({{"dst", &op.dst}, {"data", &op.src}});
  }
  std::vector<std::string> operator()(const tile::TensorCopy& op) const {
    auto call = of({{"dst", &op.dst}, {"src", &op.src}});
    if (op.engine == tile::Engine::kVector) call.emplace_back("engine=nisa.engine.vector");
    if (op.engine == tile::Engine::kScalar) call.emplace_back("engine=nisa.engine.scalar");
    if (op.engine == tile::Engine::kGpSimd) call.emplace_back("engine=nisa.engine.gpsimd");
    return call;
  }
  std::vector<std::string> operator()(const tile::TensorTensor& op) const {
    auto call = of({{"dst", &op.dst}, {"data1", &op.a}, {"data2", &op.b}});
    call.emplace_back(op.op == tile::BinaryOp::kAdd ? "op=nl.add" : "op=nl.multiply");
    return call;
  }
  std::vector<std::string> operator()(const tile::Activate& op) const {
    auto call = of({{"dst", &op.dst}, {"data", &op.src}});
    // nki.isa.activation takes its function directly behind dst.
    const bool silu = op.function == tile::Activation::kSilu;
    call.insert(call.begin() + 1, silu ? "op=nl.silu" : "op=nl.copy");
    return call;
  }
  std::vector<std::string> operator()(const tile::Memset& op) const {
    auto call = of({{"dst", &op.dst}});
    const std::string value = fmt::format("{:.9g}", op.value);
    // Python would take "0" for an integer: numbers without a point, an exponent or a letter get
    // one.
    const bool whole = value.find_first_of(".en") == value.npos;
    call.push_back(fmt::format("value={}{}", value, whole ? ".0" : ""));
    return call;
  }

 private:
  std::vector<std::string> of(
      std::initializer_list<std::pair<std::string_view, const tile::Access*>> operands) const {
    std::vector<std::string> call;
    for (const auto& [role, access] : operands) {
      call.push_back(fmt::format("{}={}", role, e.access(*access)));
    }
    return call;
  }
};

class Emitter {
 public:
  Emitter(const Program& program, const Description& description)
      : program_(program),
        description_(description),
        counts_(tile::count(program)),
        e_(program, description),
        // Buffers are let go by name only where the names would otherwise hold more SBUF than there
        // is; elsewhere the source stays free of it.
        releases_(description.sbuf_bytes_per_partition > 0 &&
                  held_sbuf_bytes(program, e_.names().buffers) >
                      description.sbuf_bytes_per_partition) {}

  // A whole module as text: head, constants, kernel.
  std::string module() {
    kernel();  // first: it decides which constants the header needs
    PythonText module;
    header(module);
    module.append(kernel_.text());
    return module.text();
  }

 private:
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
        "assumes). NKI 0.6, Neuron SDK 2.32.");
    if (releases_) {
      out.line();
      out.paragraph(
          "SBUF is nearly full: a name that becomes None lets its buffer go, which a compiler sees "
          "for itself and a simulator that runs the source as Python does not.");
    }
    out.line("\"\"\"");
    out.line();
    out.line("import nki");
    out.line("import nki.isa as nisa");
    out.line("import nki.language as nl");
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
    // A step may be a multiple of P or F that no expression names: "BM = 8 * P" needs P too.
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
  }

  // The constants of the steps that are used: "BM = 8 * P  # row tiles of 128 in a block of X". A
  // step that several loops share appears once.
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
  // In tiles, as the parameter counts it: 512-column tiles are F, others P.
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
    // The kernel is for one shape. The assertion turns a wrong call into a message and not into an
    // access outside of an operand.
    for_each_buffer(HbmRole::kInput, [this](BufferId id) {
      kernel_.line(fmt::format("assert {0}.shape == {1} and {0}.dtype == {2}", name(id),
                               e_.shape(id), nl_dtype(program_.buffer(id).dtype)));
    });
    for (size_t b = 0; b < program_.buffers.size(); ++b) {
      const Buffer& buffer = program_.buffers[b];
      const auto id = static_cast<BufferId>(b);
      if (!buffer.is_view()) continue;
      kernel_.line(
          fmt::format("{} = {}.reshape({})", name(id), name(buffer.view_of), e_.shape(id)));
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
                                 buffer.dtype == DType::kBF16 ? "bf16" : "fp32"));
      });
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
    kernel_.line(fmt::format("{} = nl.ndarray({}, dtype={}, buffer={})", name(id), e_.shape(id),
                             nl_dtype(buffer.dtype), nl_memory(buffer)),
                 rotates ? fmt::format("rotates: {}", buffer.copies) : "");
  }

  // A blank line before every loop of the outermost level, and before what follows one, sets the
  // stages of a kernel apart.
  void body(const std::vector<tile::Node>& nodes) {
    const auto done = last_uses(program_, nodes);
    for (size_t i = 0; i < nodes.size(); ++i) {
      const tile::Node& node = nodes[i];
      const bool after_loop = i == 0 || std::holds_alternative<Loop>(nodes[i - 1]);
      if (&nodes == &program_.body && after_loop) kernel_.line();
      if (const auto* inner = std::get_if<Loop>(&node)) {
        loop(*inner);
      } else if (const auto* allocation = std::get_if<tile::Allocate>(&node)) {
        allocate(allocation->buffer);
      } else {
        instruction(std::get<tile::Instruction>(node).operation);
      }
      if (releases_) release(done[i]);
    }
    if (nodes.empty()) kernel_.line("pass");
  }

  void release(const std::vector<BufferId>& buffers) {
    if (buffers.empty()) return;
    std::string names;
    for (const BufferId id : buffers) names += fmt::format("{} = ", name(id));
    kernel_.line(names + "None");
  }

  // A range whose iterations depend on one another is sequential; affine_range lets the compiler
  // reorder and overlap.
  void loop(const Loop& loop) {
    const std::string trips = e_.trips(loop);
    kernel_.line(fmt::format("for {} in nl.{}({}):", e_.names().loops[static_cast<size_t>(loop.id)],
                             loop.carried ? "sequential_range" : "affine_range", trips));
    kernel_.indent();
    for (const std::string& assignment : e_.enter(loop)) kernel_.line(assignment);
    body(loop.body);
    e_.leave();
    kernel_.dedent();
  }

  void instruction(const tile::Operation& operation) {
    kernel_.call(fmt::format("nisa.{}", tile::operation_name(operation)),
                 std::visit(Call{e_}, operation));
  }

  const Program& program_;
  const Description& description_;
  tile::Counts counts_;
  Expressions e_;
  bool releases_;  // names let go of buffers after their last use
  PythonText kernel_;
};

// The description comes from the kernel's catalogue entry and the program from its builder. If they
// disagree, the names in the source would be wrong.
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

}  // namespace

// Loops that run once are folded away first; they would only add names.
Result<std::string> emit(const Program& program, const Description& description) {
  NMM_TRY(tile::check_structure(program));
  NMM_TRY(check_description(program, description));
  const Program folded = fold_single_trips(program);
  return Emitter(folded, description).module();
}

}  // namespace neuronmm::nki
