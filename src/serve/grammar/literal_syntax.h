#pragma once
// Constants, any number of them: a tree of what they are written with, in which those that begin
// alike are one path. Ten thousand of them are one position now and one or two later, not ten
// thousand at once, which every byte of every token would have to go through.

#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "serve/grammar/json_syntax.h"

namespace neuronmm::grammar {

class LiteralSyntax {
 public:
  using Json = nlohmann::ordered_json;

  LiteralSyntax(JsonSyntax& syntax, Grammar& grammar) : syntax_(syntax), grammar_(grammar) {}
  // One of the values.
  void add(PositionId from, const std::vector<const Json*>& values, PositionId to);

 private:
  // What a value is written with, one after the other.
  struct Part {
    enum class Kind { kText, kGap, kComma, kColon, kScalar };
    Kind kind;
    std::string text;  // of kScalar what equal values share
    Json scalar = {};  // of kScalar
    bool operator<(const Part& other) const {
      return kind != other.kind ? kind < other.kind : text < other.text;
    }
  };
  // Values that are alike up to a part, which comes next.
  struct Branch {
    PositionId at;
    size_t next;
    std::vector<size_t> values;
  };

  static void append_parts(const Json& value, std::vector<Part>& parts);
  void grow(const Branch& branch, PositionId to);
  void add_part(PositionId from, const Part& part, PositionId to);
  void add_texts(PositionId from, const std::map<std::string, PositionId>& texts);

  JsonSyntax& syntax_;
  Grammar& grammar_;
  std::vector<std::vector<Part>> values_;
  std::vector<Branch> branches_;
};

}  // namespace neuronmm::grammar
