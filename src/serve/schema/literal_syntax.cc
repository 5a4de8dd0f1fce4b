#include "serve/schema/literal_syntax.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "serve/schema/decimal.h"

namespace neuronmm::grammar {
namespace {

// A value in an array or an object has a comma or white space before it, and a key with its colon
// takes two more parts. Growing vectors have room for more.
constexpr int64_t kPartsPerValue = 4;
// The steps of a group of values with the same next part, and of a value in it. Assumed.
constexpr int64_t kStepsPerGroup = 40, kStepsPerValue = 16;

// Returns the texts that a scalar may be written as. A number may be written without an exponent or
// as the JSON library prints it.
std::vector<std::string> scalar_texts(const nlohmann::ordered_json& value) {
  if (value.is_string()) return {json_text_of(value.get_ref<const std::string&>())};
  if (!value.is_number()) return {value.dump()};
  return {Decimal::of(value).text(), value.dump()};
}

}  // namespace

void LiteralSyntax::append_parts(const Json& value, std::vector<Part>& parts) {
  using Kind = Part::Kind;
  if (!syntax_.budget().allocate(kPartsPerValue * static_cast<int64_t>(sizeof(Part)))) return;
  if (!value.is_structured()) {
    parts.push_back({Kind::kScalar, scalar_texts(value).front(), value});
    syntax_.budget().allocate(2 * std::ssize(parts.back().text));
    return;
  }
  const bool is_object = value.is_object();
  parts.push_back({Kind::kText, is_object ? "{" : "["});
  bool is_first = true;
  for (const auto& item : value.items()) {
    parts.push_back({std::exchange(is_first, false) ? Kind::kWhiteSpace : Kind::kComma, ""});
    if (is_object) {
      append_parts(item.key(), parts);
      parts.push_back({Kind::kColon, ""});
    }
    append_parts(item.value(), parts);
  }
  if (!value.empty()) parts.push_back({Kind::kWhiteSpace, ""});
  parts.push_back({Kind::kText, is_object ? "}" : "]"});
}

void LiteralSyntax::add(PositionId from, const std::vector<const Json*>& values, PositionId to) {
  values_.clear();
  for (const Json* value : values) {
    if (!syntax_.budget().allocate(2 * sizeof(values_[0]) + sizeof(size_t))) return;
    append_parts(*value, values_.emplace_back());
  }
  if (!syntax_.budget().ok()) return;
  std::vector<size_t> all(values.size());
  std::iota(all.begin(), all.end(), size_t{0});
  branches_ = {{from, 0, std::move(all)}};
  while (!branches_.empty() && !grammar_.too_large()) {
    const Branch branch = std::move(branches_.back());
    branches_.pop_back();
    add_next_part(branch, to);
  }
}

// Adds the next part of a branch and the branches after it. The text of a value is never a proper
// prefix of another value's text, so all values of a group end at the same part.
void LiteralSyntax::add_next_part(const Branch& branch, PositionId to) {
  if (!syntax_.budget().spend(kStepsPerGroup + std::ssize(branch.values) * kStepsPerValue)) return;
  const auto smaller = [](const Part* a, const Part* b) { return *a < *b; };
  std::map<const Part*, std::vector<size_t>, decltype(smaller)> groups(smaller);
  for (const size_t value : branch.values) groups[&values_[value][branch.next]].push_back(value);
  std::map<std::string, PositionId> texts;
  for (auto& [part, values] : groups) {
    const bool ends = branch.next + 1 == values_[values.front()].size();
    const PositionId next = ends ? to : grammar_.add_position();
    if (part->kind == Part::Kind::kScalar) {
      for (std::string& text : scalar_texts(part->scalar)) texts.emplace(std::move(text), next);
    } else {
      add_part(branch.at, *part, next);
    }
    if (!ends) branches_.push_back({next, branch.next + 1, std::move(values)});
  }
  add_texts(branch.at, texts);
}

void LiteralSyntax::add_part(PositionId from, const Part& part, PositionId to) {
  if (part.kind == Part::Kind::kText) grammar_.add_text(from, part.text, to);
  if (part.kind == Part::Kind::kWhiteSpace) syntax_.add_white_space(from, to);
  if (part.kind == Part::Kind::kComma) syntax_.add_comma(from, to);
  if (part.kind == Part::Kind::kColon) syntax_.add_colon(from, to);
}

// Adds texts so that common prefixes share positions.
void LiteralSyntax::add_texts(PositionId from, const std::map<std::string, PositionId>& texts) {
  std::vector<PositionId> path = {from};  // the positions of the previous text
  std::string_view before;
  for (const auto& [text, to] : texts) {
    const auto mismatch = std::mismatch(before.begin(), before.end(), text.begin(), text.end());
    path.resize(static_cast<size_t>(mismatch.first - before.begin()) + 1);
    for (size_t i = path.size() - 1; i < text.size(); ++i) {
      const PositionId next = grammar_.add_position();
      const auto byte = static_cast<uint8_t>(text[i]);
      grammar_.add_bytes(path.back(), byte, byte, next);
      path.push_back(next);
    }
    grammar_.add_empty(path.back(), to);
    before = text;
  }
}

}  // namespace neuronmm::grammar
