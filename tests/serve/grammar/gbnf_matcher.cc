#include "gbnf_matcher.h"

#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace neuronmm::grammar {
namespace {

// The ends that a part of the grammar can reach in the text from one of several begins.
using Places = std::set<size_t>;

// Matches while it parses: each function reads a part of the grammar at `at` and returns where in
// the text that part can end.
class Reader {
 public:
  Reader(std::string_view grammar, std::string_view text) : grammar_(grammar), text_(text) {
    for (size_t i = 0; (i = grammar_.find("::=", i)) != std::string_view::npos; i += 3) {
      size_t end = i;
      while (grammar_[end - 1] == ' ') --end;
      size_t begin = end;
      while (begin > 0 && is_name(grammar_[begin - 1])) --begin;
      bodies_[grammar_.substr(begin, end - begin)] = i + 3;
    }
  }

  Places rule(std::string_view name, const Places& begins) {
    Places ends;
    for (const size_t begin : begins) {
      const auto [known, is_new] = known_.try_emplace({name, begin});
      if (is_new) {
        size_t at = bodies_.at(name);
        skip(at, true);
        // The result may be used only after it is complete, since `known` is not left recursive.
        Places found = alternatives(at, {begin}, false);
        known_[{name, begin}] = std::move(found);
      }
      ends.insert(known_[{name, begin}].begin(), known_[{name, begin}].end());
    }
    return ends;
  }

 private:
  static bool is_name(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_';
  }
  char peek(size_t at) const { return at < grammar_.size() ? grammar_[at] : '\0'; }

  void skip(size_t& at, bool lines) const {
    for (;; ++at) {
      if (peek(at) == '#')
        while (peek(at) != '\0' && peek(at) != '\n') ++at;
      const char c = peek(at);
      if (c != ' ' && c != '\t' && !(lines && c == '\n')) return;
    }
  }

  Places alternatives(size_t& at, const Places& begins, bool inside) {
    Places ends = sequence(at, begins, inside);
    while (peek(at) == '|') {
      skip(++at, true);
      const Places more = sequence(at, begins, inside);
      ends.insert(more.begin(), more.end());
    }
    return ends;
  }

  Places sequence(size_t& at, Places places, bool inside) {
    while (peek(at) != '\0' && (is_name(peek(at)) || std::string_view("\"[(.").find(peek(at)) !=
                                                         std::string_view::npos)) {
      size_t after = at;
      (void)item(after, {}, inside);
      size_t fewest = 1, most = 1;
      size_t mark = after;
      const bool repeats = read_count(mark, fewest, most, inside);
      places = repeat(at, places, fewest, most, inside);
      at = repeats ? mark : after;
    }
    return places;
  }

  Places repeat(size_t item_at, Places places, size_t fewest, size_t most, bool inside) {
    Places ends, seen;
    for (size_t count = 0; count <= most; ++count) {
      if (count >= fewest) {
        const size_t before = ends.size();
        ends.insert(places.begin(), places.end());
        if (count > fewest && ends.size() == before) break;
      }
      if (places.empty()) break;
      size_t at = item_at;
      places = item(at, places, inside);
    }
    return ends;
  }

  bool read_count(size_t& at, size_t& fewest, size_t& most, bool inside) const {
    constexpr size_t kMany = 1000;
    const char c = peek(at);
    if (c != '*' && c != '+' && c != '?' && c != '{') return false;
    ++at;
    fewest = c == '+' ? 1 : 0;
    most = c == '?' ? 1 : kMany;
    if (c == '{') {
      fewest = most = number(at);
      if (peek(at) == ',') most = peek(++at) == '}' ? kMany : number(at);
      ++at;
    }
    skip(at, inside);
    return true;
  }

  size_t number(size_t& at) const {
    size_t value = 0;
    for (; std::isdigit(static_cast<unsigned char>(peek(at))) != 0; ++at)
      value = value * 10 + static_cast<size_t>(peek(at) - '0');
    return value;
  }

  Places item(size_t& at, const Places& begins, bool inside) {
    Places ends;
    if (is_name(peek(at))) {
      const size_t begin = at;
      while (is_name(peek(at))) ++at;
      if (!begins.empty()) ends = rule(grammar_.substr(begin, at - begin), begins);
    } else if (peek(at) == '(') {
      skip(++at, true);
      ends = alternatives(at, begins, true);
      ++at;
    } else if (peek(at) == '"') {
      std::string literal;
      for (++at; peek(at) != '"';) literal += character(at);
      ++at;
      for (const size_t begin : begins) {
        if (text_.substr(begin).starts_with(literal)) ends.insert(begin + literal.size());
      }
    } else {
      const std::set<char> accepted = peek(at) == '.' ? any(at) : char_class(at);
      for (const size_t begin : begins) {
        if (begin < text_.size() && accepted.contains(text_[begin])) ends.insert(begin + 1);
      }
    }
    skip(at, inside);
    return ends;
  }

  static std::set<char> any(size_t& at) {
    ++at;
    std::set<char> all;
    for (int c = 0; c < 128; ++c) all.insert(static_cast<char>(c));
    return all;
  }

  std::set<char> char_class(size_t& at) {
    size_t all = at;
    std::set<char> members, others = any(all);
    ++at;
    const bool negated = peek(at) == '^';
    if (negated) ++at;
    while (peek(at) != ']') {
      const char first = character(at);
      char last = first;
      if (peek(at) == '-' && peek(at + 1) != ']') last = character(++at);
      for (int c = first; c <= last; ++c) members.insert(static_cast<char>(c));
    }
    ++at;
    if (!negated) return members;
    for (const char c : members) others.erase(c);
    return others;
  }

  char character(size_t& at) {
    const char c = grammar_[at++];
    if (c != '\\') return c;
    const char escaped = grammar_[at++];
    if (escaped == 'n') return '\n';
    if (escaped == 't') return '\t';
    if (escaped == 'r') return '\r';
    if (escaped != 'x') return escaped;
    at += 2;
    return static_cast<char>(std::stoi(std::string(grammar_.substr(at - 2, 2)), nullptr, 16));
  }

  const std::string_view grammar_, text_;
  std::map<std::string_view, size_t> bodies_;
  std::map<std::pair<std::string_view, size_t>, Places> known_;
};

}  // namespace

bool gbnf_accepts(std::string_view grammar, std::string_view text) {
  return Reader(grammar, text).rule("root", {0}).contains(text.size());
}

}  // namespace neuronmm::grammar
