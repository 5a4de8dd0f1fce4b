#include "trainium/tile/printer.h"

#include <string_view>

#include <fmt/format.h>

#include "trainium/tile/accesses.h"

namespace neuronmm::tile {
namespace {

std::string_view memory_name(Memory memory) {
  switch (memory) {
    case Memory::kHbm:
      return "HBM";
    case Memory::kSbuf:
      return "SBUF";
    case Memory::kPsum:
      return "PSUM";
  }
  return "?";
}

std::string_view role_name(HbmRole role) {
  switch (role) {
    case HbmRole::kInput:
      return "input";
    case HbmRole::kOutput:
      return "output";
    case HbmRole::kScratch:
      return "scratch";
    case HbmRole::kNone:
      break;
  }
  return "";
}

// Loop names are not unique in a program, so the text also carries the id: "kt.7".
void collect_names(const std::vector<Node>& body, std::vector<std::string>& names) {
  for (const Node& node : body) {
    const auto* loop = std::get_if<Loop>(&node);
    if (!loop) continue;
    names.at(static_cast<size_t>(loop->id)) = fmt::format("{}.{}", loop->name, loop->id);
    collect_names(loop->body, names);
  }
}

// Writes the text for people and for the tuner's fingerprint, which changes when the text changes.
// No program reads the text back.
class Printer {
 public:
  explicit Printer(const Program& program)
      : program_(program), loops_(static_cast<size_t>(program.num_loops)) {
    collect_names(program.body, loops_);
  }

  std::string program_text() {
    text_ = fmt::format("program {}\n", program_.name);
    for (const Buffer& buffer : program_.buffers) buffer_line(buffer);
    body(program_.body, 0);
    return std::move(text_);
  }

  std::string access(const Access& access) const {
    std::string text = program_.buffer(access.buffer).name + "[";
    for (size_t d = 0; d < access.slices.size(); ++d) {
      const Slice& slice = access.slices[d];
      if (d > 0) text += ", ";
      if (d == 0 && !access.index.empty()) text += this->access(access.index.front()) + " + ";
      text += affine(slice.start);
      if (!slice.index) text += " : " + size(slice.size);
    }
    return text + "]";
  }

 private:
  void buffer_line(const Buffer& buffer) {
    // The bytes of all copies in all partitions.
    int64_t bytes = buffer.free_bytes() * buffer.shape.at(0) * buffer.copies;
    text_ += fmt::format("  {:4} {} {} {}, {} bytes", memory_name(buffer.memory), buffer.name,
                         dtype_name(buffer.dtype), shape_string(buffer.shape), bytes);
    if (buffer.memory != Memory::kHbm) {
      text_ += fmt::format(" in {} {}", buffer.copies, buffer.copies == 1 ? "copy" : "copies");
    } else if (buffer.is_view()) {
      text_ += fmt::format(", {} {}", buffer.row_tiles ? "row tiles of" : "view of",
                           program_.buffer(buffer.view_of).name);
    } else {
      text_ += fmt::format(", {}", role_name(buffer.role));
    }
    text_ += "\n";
  }

  // Writes one line per node, indented by the depth of its loops, as in Python.
  void body(const std::vector<Node>& nodes, int depth) {
    const std::string indent(static_cast<size_t>(2 * depth + 2), ' ');
    for (const Node& node : nodes) {
      if (const auto* loop = std::get_if<Loop>(&node)) {
        text_ += fmt::format("{}{} {} in {}:\n", indent, loop->carried ? "for (carried)" : "for",
                             loops_[static_cast<size_t>(loop->id)], trips(*loop));
        body(loop->body, depth + 1);
      } else if (const auto* allocate = std::get_if<Allocate>(&node)) {
        text_ += fmt::format("{}allocate {}\n", indent, program_.buffer(allocate->buffer).name);
      } else {
        text_ += indent + instruction(std::get<Instruction>(node)) + "\n";
      }
    }
  }

  // A loop with a limit runs over what is left of its dimension.
  std::string trips(const Loop& loop) const {
    if (!loop.limit) return std::to_string(loop.max);
    return fmt::format("min({}, ceil(({}) / {}))", loop.max, remaining(*loop.limit, loop.origin),
                       loop.step);
  }

  // Operands are named by their roles, because their order differs between instructions.
  std::string instruction(const Instruction& instruction) const {
    std::string text;
    for (const Operand& operand : operands_of(instruction.operation)) {
      if (operand.role == "index") continue;  // It is in the text of the access that it belongs to.
      text +=
          (text.empty() ? "" : ", ") + fmt::format("{}={}", operand.role, access(*operand.access));
    }
    if (const auto* matmul = std::get_if<NcMatmul>(&instruction.operation)) {
      for (size_t i = 0; i < matmul->sum_loops.size(); ++i) {
        text += fmt::format("{}{}", i == 0 ? ", sum over " : ", ",
                            loops_[static_cast<size_t>(matmul->sum_loops[i])]);
      }
      if (matmul->always_adds) text += ", adds";
    }
    return fmt::format("{}({})  # {}", operation_name(instruction.operation), text,
                       instruction.label);
  }

  // Returns the expression as in "2 m + k + 1". The terms of the loops come first, and the constant
  // comes last unless it is 0.
  std::string affine(const Affine& affine) const {
    std::string text;
    for (const auto& [loop, coefficient] : affine.terms) {
      if (!text.empty()) text += " + ";
      if (coefficient != 1) text += fmt::format("{} ", coefficient);
      text += loops_[static_cast<size_t>(loop)];
    }
    if (text.empty()) return std::to_string(affine.constant);
    return affine.constant == 0 ? text : fmt::format("{} + {}", text, affine.constant);
  }

  // Returns what is left of a dimension of `limit` elements from `origin` on.
  std::string remaining(int64_t limit, const Affine& origin) const {
    const bool zero = origin.constant == 0 && origin.terms.empty();
    return zero ? std::to_string(limit) : fmt::format("{} - ({})", limit, affine(origin));
  }

  std::string size(const Size& size) const {
    if (!size.limit) return std::to_string(size.max);
    return fmt::format("min({}, {})", size.max, remaining(*size.limit, size.origin));
  }

  const Program& program_;
  std::vector<std::string> loops_;
  std::string text_;
};

}  // namespace

std::string print(const Program& program) { return Printer(program).program_text(); }

std::string print(const Program& program, const Access& access) {
  return Printer(program).access(access);
}

}  // namespace neuronmm::tile
