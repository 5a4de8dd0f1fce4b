#include "trainium/nki/held_memory.h"

#include <algorithm>
#include <map>

#include "trainium/tile/accesses.h"

namespace neuronmm::nki {

using tile::BufferId;
using tile::Node;
using tile::Program;

namespace {

// Runs the program's allocations as Python would bind its names, without the instructions.
class NameBindings {
 public:
  NameBindings(const Program& program, const std::vector<std::string>& names)
      : program_(program), names_(names) {}

  void run(const std::vector<Node>& body) {
    for (const Node& node : body) {
      if (const auto* allocate = std::get_if<tile::Allocate>(&node)) {
        bind(allocate->buffer);
      } else if (const auto* loop = std::get_if<tile::Loop>(&node)) {
        run(loop->body);
        // In the second iteration the buffers of the first are still bound.
        if (loop->max > 1) run(loop->body);  // All later iterations are like the second.
      }
    }
  }
  int64_t peak() const { return peak_; }

 private:
  // The new buffer exists before its name releases the old one.
  void bind(BufferId id) {
    const tile::Buffer& buffer = program_.buffer(id);
    if (buffer.memory != tile::Memory::kSbuf) return;
    total_ += buffer.free_bytes();
    peak_ = std::max(peak_, total_);
    int64_t& held = bytes_[names_[static_cast<size_t>(id)]];
    total_ -= held;
    held = buffer.free_bytes();
  }

  const Program& program_;
  const std::vector<std::string>& names_;
  std::map<std::string, int64_t> bytes_;
  int64_t total_ = 0, peak_ = 0;
};

// Moves the last use of the buffers in `last` to `position`. Buffers that are not in `last` were
// allocated elsewhere.
void note_uses(const Node& node, size_t position, std::map<BufferId, size_t>& last) {
  if (const auto* loop = std::get_if<tile::Loop>(&node)) {
    for (const Node& inner : loop->body) note_uses(inner, position, last);
  } else if (const auto* instruction = std::get_if<tile::Instruction>(&node)) {
    for (const tile::Operand& operand : tile::operands_of(instruction->operation)) {
      const auto allocated = last.find(operand.access->buffer);
      if (allocated != last.end()) allocated->second = position;
    }
  }
}

}  // namespace

int64_t held_sbuf_bytes(const Program& program, const std::vector<std::string>& names) {
  NameBindings bindings(program, names);
  bindings.run(program.body);
  return bindings.peak();
}

// A buffer that is used inside a loop is in use until that loop, which is a node of `body`, is
// done.
std::vector<std::vector<BufferId>> last_uses(const Program& program,
                                             const std::vector<Node>& body) {
  std::map<BufferId, size_t> last;
  for (size_t i = 0; i < body.size(); ++i) {
    const auto* allocate = std::get_if<tile::Allocate>(&body[i]);
    if (allocate && program.buffer(allocate->buffer).memory == tile::Memory::kSbuf) {
      last[allocate->buffer] = i;
    }
    note_uses(body[i], i, last);
  }
  std::vector<std::vector<BufferId>> at(body.size());
  for (const auto& [buffer, position] : last) at[position].push_back(buffer);
  return at;
}

}  // namespace neuronmm::nki
