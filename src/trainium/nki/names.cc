#include "trainium/nki/names.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "trainium/tile/accesses.h"

namespace neuronmm::nki {

using tile::BufferId;
using tile::Node;

namespace {

// Where a buffer is in use, in positions of the program's text: every node counts one, and a loop
// has a begin and an end.
struct Extent {
  int64_t first = -1, last = -1;
  std::vector<int64_t> loop_ends;  // of the loops around the first allocation
};

// Two passes: the first numbers the ends of loops, the second notes the uses. A use inside a loop
// that does not allocate the buffer repeats until that loop ends, and the buffer must not be given
// up before.
class Extents {
 public:
  explicit Extents(const tile::Program& program) : extents_(program.buffers.size()) {
    // An operand keeps its name for the whole of the function.
    for (size_t b = 0; b < extents_.size(); ++b) {
      if (program.buffers[b].memory == tile::Memory::kHbm) extents_[b].first = 0;
    }
    count(program.body);
    at_ = 0;
    scan(program.body);
    for (size_t b = 0; b < extents_.size(); ++b) {
      if (program.buffers[b].memory == tile::Memory::kHbm) extents_[b].last = at_;
    }
  }
  const Extent& of(size_t buffer) const { return extents_[buffer]; }

 private:
  int64_t count(const std::vector<Node>& body) {
    for (const Node& node : body) {
      ++at_;
      if (const auto* loop = std::get_if<tile::Loop>(&node)) {
        const size_t slot = ends_.size();
        ends_.push_back(0);
        ends_[slot] = count(loop->body);
      }
    }
    return at_;
  }

  void scan(const std::vector<Node>& body) {
    for (const Node& node : body) {
      ++at_;
      if (const auto* loop = std::get_if<tile::Loop>(&node)) {
        around_.push_back(ends_[next_loop_++]);
        scan(loop->body);
        around_.pop_back();
      } else if (const auto* allocate = std::get_if<tile::Allocate>(&node)) {
        use(allocate->buffer);
      } else {
        const auto& operation = std::get<tile::Instruction>(node).operation;
        for (const tile::Operand& operand : tile::operands_of(operation)) {
          use(operand.access->buffer);
        }
      }
    }
  }

  // The loops that were around the first use (its allocation) are left together with the buffer. Of
  // those around this use, the outermost that is not among them decides how long it is needed.
  void use(BufferId buffer) {
    Extent& extent = extents_[static_cast<size_t>(buffer)];
    if (extent.first < 0) extent = {at_, at_, around_};
    size_t shared = 0;
    while (shared < around_.size() && shared < extent.loop_ends.size() &&
           around_[shared] == extent.loop_ends[shared]) {
      ++shared;
    }
    const int64_t until = shared < around_.size() ? around_[shared] : at_;
    extent.last = std::max(extent.last, until);
  }

  std::vector<Extent> extents_;
  std::vector<int64_t> ends_;    // of every loop, in the order of their begins
  std::vector<int64_t> around_;  // ends of the loops around
  size_t next_loop_ = 0;
  int64_t at_ = 0;
};

// A loop variable may reuse the name of a loop that it does not stand in: two "m" loops one after
// the other are both called m.
void name_loops(const std::vector<Node>& body, const std::set<std::string>& taken,
                std::vector<std::string>& loops) {
  for (const Node& node : body) {
    const auto* loop = std::get_if<tile::Loop>(&node);
    if (!loop) continue;
    const std::string wanted = identifier(loop->name);
    std::string name = wanted;
    for (int number = 2; taken.contains(name); ++number) name = wanted + std::to_string(number);
    loops[static_cast<size_t>(loop->id)] = name;
    std::set<std::string> inside = taken;
    inside.insert(name);
    name_loops(loop->body, inside, loops);
  }
}

}  // namespace

// Characters that Python does not take become underscores; a digit at the begin gets one before it,
// and a keyword one behind it.
std::string identifier(std::string_view name) {
  constexpr std::array<std::string_view, 35> kKeywords = {
      "False", "None",     "True",  "and",    "as",   "assert", "async",  "await",    "break",
      "class", "continue", "def",   "del",    "elif", "else",   "except", "finally",  "for",
      "from",  "global",   "if",    "import", "in",   "is",     "lambda", "nonlocal", "not",
      "or",    "pass",     "raise", "return", "try",  "while",  "with",   "yield"};
  const bool starts_wrong = name.empty() || std::isdigit(static_cast<unsigned char>(name[0])) != 0;
  std::string text(starts_wrong ? "_" : "");
  for (const char c : name) {
    text += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  }
  if (std::find(kKeywords.begin(), kKeywords.end(), text) != kKeywords.end()) text += '_';
  return text;
}

// Only the part's prefix is raised: "BM" is a constant already, and "up.BM" is the BM of the part
// "up".
std::string constant_name(std::string_view step_name) {
  std::string text(step_name);
  const size_t dot = step_name.find('.');
  for (size_t i = 0; dot != step_name.npos && i < dot; ++i) {
    text[i] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[i])));
  }
  return identifier(text);
}

// Buffers are named in order, so that the first holder of a name keeps it. A name may be given
// again where the uses of both buffers do not overlap.
Names choose_names(const tile::Program& program, const std::set<std::string>& taken) {
  const Extents extents(program);
  Names names{.loops = std::vector<std::string>(static_cast<size_t>(program.num_loops)),
              .buffers = {},
              .taken = taken};
  for (size_t b = 0; b < program.buffers.size(); ++b) {
    const auto in_use = [&](const std::string& name) {
      if (taken.contains(name)) return true;
      for (size_t other = 0; other < b; ++other) {
        const Extent &mine = extents.of(b), &theirs = extents.of(other);
        if (names.buffers[other] == name && mine.first <= theirs.last &&
            theirs.first <= mine.last) {
          return true;
        }
      }
      return false;
    };
    const std::string wanted = identifier(program.buffers[b].name);
    std::string name = wanted;
    for (int number = 2; in_use(name); ++number) name = wanted + std::to_string(number);
    names.buffers.push_back(name);
    names.taken.insert(name);
  }
  name_loops(program.body, names.taken, names.loops);
  names.taken.insert(names.loops.begin(), names.loops.end());
  return names;
}

}  // namespace neuronmm::nki
