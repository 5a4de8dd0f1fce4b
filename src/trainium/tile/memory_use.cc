#include "trainium/tile/memory_use.h"

#include <algorithm>
#include <functional>

#include "trainium/tile/accesses.h"

namespace neuronmm::tile {
namespace {

// Returns true if the node, or anything inside it, reads or writes the buffer.
bool mentions(const Node& node, BufferId buffer) {
  if (const auto* loop = std::get_if<Loop>(&node)) {
    return std::any_of(loop->body.begin(), loop->body.end(),
                       [buffer](const Node& inner) { return mentions(inner, buffer); });
  }
  const auto* instruction = std::get_if<Instruction>(&node);
  if (!instruction) return false;
  const std::vector<Operand> operands = operands_of(instruction->operation);
  return std::any_of(operands.begin(), operands.end(),
                     [buffer](const Operand& operand) { return operand.access->buffer == buffer; });
}

// Walks the text of the program once and keeps the list of live buffers. All iterations of a loop
// have the same live buffers, so each loop is entered once.
class LiveBufferScan {
 public:
  LiveBufferScan(const Program& program, Memory memory, std::function<int64_t(BufferId)> amount)
      : program_(program), memory_(memory), amount_(std::move(amount)) {}

  MemoryUse run() {
    body(program_.body);
    std::stable_sort(peak_.live.begin(), peak_.live.end(),
                     [](const auto& a, const auto& b) { return a.amount > b.amount; });
    return peak_;
  }

 private:
  struct Live {
    MemoryShare share;
    size_t last;  // The index of the last node of its body that uses the buffer.
  };

  void body(const std::vector<Node>& nodes) {
    const size_t outer = live_.size();
    for (size_t i = 0; i < nodes.size(); ++i) {
      // Buffers whose last use lies before this node share their memory with buffers that are
      // allocated from this node on.
      live_.erase(std::remove_if(live_.begin() + static_cast<std::ptrdiff_t>(outer), live_.end(),
                                 [i](const Live& live) { return live.last < i; }),
                  live_.end());
      if (const auto* loop = std::get_if<Loop>(&nodes[i])) {
        body(loop->body);
      } else if (const auto* allocate = std::get_if<Allocate>(&nodes[i])) {
        add(allocate->buffer, nodes, i);
      }
    }
    // Buffers that a loop body has allocated end with the body.
    live_.resize(std::min(live_.size(), outer));
  }

  void add(BufferId id, const std::vector<Node>& nodes, size_t i) {
    const Buffer& buffer = program_.buffer(id);
    // A second Allocate of a live buffer adds nothing, because both instances rotate in the same
    // memory.
    const bool known = std::any_of(live_.begin(), live_.end(),
                                   [id](const Live& live) { return live.share.buffer == id; });
    if (buffer.memory != memory_ || known) return;
    // A buffer with one copy ends at its last use in this body. With more copies, the instance of
    // the next iteration is brought in before this one is done, so all copies are held to the end
    // of the body.
    size_t last = nodes.size();
    if (buffer.copies == 1) {
      while (--last > i && !mentions(nodes[last], id)) continue;
    }
    live_.push_back({{id, amount_(id) * buffer.copies}, last});
    int64_t total = 0;
    for (const Live& live : live_) total += live.share.amount;
    if (total <= peak_.peak) return;
    peak_.peak = total;
    peak_.live.clear();
    for (const Live& live : live_) peak_.live.push_back(live.share);
  }

  const Program& program_;
  Memory memory_;
  std::function<int64_t(BufferId)> amount_;
  std::vector<Live> live_;
  MemoryUse peak_;
};

}  // namespace

MemoryUse sbuf_use(const Program& program, std::span<const int64_t> free_bytes) {
  return LiveBufferScan(program, Memory::kSbuf,
                        [&](BufferId id) {
                          return free_bytes.empty() ? program.buffer(id).free_bytes()
                                                    : free_bytes[static_cast<size_t>(id)];
                        })
      .run();
}

// A buffer takes whole banks, because two matmul results never share one.
MemoryUse psum_use(const Program& program, int64_t bank_bytes) {
  return LiveBufferScan(program, Memory::kPsum,
                        [&](BufferId id) {
                          return (program.buffer(id).free_bytes() + bank_bytes - 1) / bank_bytes;
                        })
      .run();
}

}  // namespace neuronmm::tile
