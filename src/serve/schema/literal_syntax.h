#pragma once
// Adds any number of constants (enum, const) to a grammar as a tree of their texts. Constants with
// a common prefix share its path. If each of ten thousand constants had a path of its own, every
// byte of every token would be tried at ten thousand positions. In the tree, few positions are
// possible at a time.

#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "serve/schema/json_syntax.h"

namespace neuronmm::grammar {

class LiteralSyntax {
 public:
  using Json = nlohmann::ordered_json;

  LiteralSyntax(JsonSyntax& syntax, Grammar& grammar) : syntax_(syntax), grammar_(grammar) {}
  // Adds edges that read one of the values.
  void add(PositionId from, const std::vector<const Json*>& values, PositionId to);

 private:
  // A piece of a value's text: fixed text, white space, a comma, a colon, or a scalar.
  struct Part {
    enum class Kind { kText, kWhiteSpace, kComma, kColon, kScalar };
    Kind kind;
    std::string text;  // for kScalar: a text that equal values share
    Json scalar = {};  // for kScalar: the value
    bool operator<(const Part& other) const {
      return kind != other.kind ? kind < other.kind : text < other.text;
    }
  };
  // Values with the same parts before part number `next`, and the position after these parts.
  struct Branch {
    PositionId at;
    size_t next;
    std::vector<size_t> values;
  };

  void append_parts(const Json& value, std::vector<Part>& parts);
  void add_next_part(const Branch& branch, PositionId to);
  void add_part(PositionId from, const Part& part, PositionId to);
  void add_texts(PositionId from, const std::map<std::string, PositionId>& texts);

  JsonSyntax& syntax_;
  Grammar& grammar_;
  std::vector<std::vector<Part>> values_;
  std::vector<Branch> branches_;
};

}  // namespace neuronmm::grammar
