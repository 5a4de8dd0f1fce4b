#include "trainium/nki/names.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace neuronmm::nki {

using tile::Node;

namespace {

// A loop variable may reuse the name of a loop that does not enclose it: two "m" loops one after
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

// Characters that Python does not accept become underscores. A leading digit gets an underscore
// before it, and a keyword gets one after it.
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

// Only the part's prefix becomes upper case: "BM" is already a constant, and "up.BM" is the BM of
// the part "up".
std::string constant_name(std::string_view step_name) {
  std::string text(step_name);
  const size_t dot = step_name.find('.');
  for (size_t i = 0; dot != step_name.npos && i < dot; ++i) {
    text[i] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[i])));
  }
  return identifier(text);
}

// Buffers are named in order, so the first holder of a name keeps it.
Names choose_names(const tile::Program& program, const std::set<std::string>& taken) {
  Names names{.loops = std::vector<std::string>(static_cast<size_t>(program.num_loops)),
              .buffers = {},
              .taken = taken};
  for (const tile::Buffer& buffer : program.buffers) {
    const std::string wanted = identifier(buffer.name);
    std::string name = wanted;
    for (int number = 2; names.taken.contains(name); ++number) {
      name = wanted + std::to_string(number);
    }
    names.taken.insert(name);
    names.buffers.push_back(std::move(name));
  }
  name_loops(program.body, names.taken, names.loops);
  names.taken.insert(names.loops.begin(), names.loops.end());
  return names;
}

}  // namespace neuronmm::nki
