#include "text/instructions.h"

#include <nlohmann/json.hpp>

#include "io/json_file.h"

namespace neuronmm::text {
namespace {

// The line on which each element of a JSON list of objects begins. The text is known to be JSON.
std::vector<int64_t> element_lines(std::string_view text) {
  std::vector<int64_t> lines;
  int64_t line = 1, depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\n') ++line;
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      if (++depth == 2) lines.push_back(line);
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return lines;
}

// The record of this line of `source`.
Result<Instruction> parse_record(const nlohmann::json& record, const std::string& source,
                                 int64_t line) {
  const std::string where = fmt::format("{}:{}", source, line);
  if (!record.is_object()) {
    return fail("{}: expected an object with \"instruction\" and \"output\", found {}", where,
                io::describe_json(record));
  }
  const io::JsonFields fields(record, where);
  NMM_ASSIGN(const auto instruction, fields.string("instruction"));
  NMM_ASSIGN(const auto input, fields.string("input"));
  NMM_ASSIGN(const auto output, fields.string("output"));
  if (!instruction) return fields.missing("instruction");
  if (!output) return fields.missing("output");
  return Instruction{alpaca_prompt(*instruction, input.value_or("")), *output, line};
}

}  // namespace

// The prompt of Stanford Alpaca, with and without an input; the response follows.
std::string alpaca_prompt(std::string_view instruction, std::string_view input) {
  if (input.empty()) {
    return fmt::format(
        "Below is an instruction that describes a task. Write a response that appropriately "
        "completes the request.\n\n### Instruction:\n{}\n\n### Response:\n",
        instruction);
  }
  return fmt::format(
      "Below is an instruction that describes a task, paired with an input that provides further "
      "context. Write a response that appropriately completes the request.\n\n### "
      "Instruction:\n{}\n\n### Input:\n{}\n\n### Response:\n",
      instruction, input);
}

// A JSON list. The parser does not keep positions, so that the lines are counted apart, for
// messages.
Result<std::vector<Instruction>> parse_instruction_list(std::string_view content,
                                                        const std::string& source) {
  NMM_ASSIGN(const auto list, io::parse_json(content, source));
  if (!list.is_array()) {
    return fail("{}: expected a list of objects with \"instruction\" and \"output\", found {}",
                source, io::describe_json(list));
  }
  for (size_t i = 0; i < list.size(); ++i) {
    // Lines are known of objects and lists only; the first of another kind is the error.
    if (!list[i].is_structured()) {
      return fail("{}: record {}: expected an object, found {}", source, i + 1,
                  io::describe_json(list[i]));
    }
  }
  const std::vector<int64_t> lines = element_lines(content);
  std::vector<Instruction> all;
  for (size_t i = 0; i < list.size(); ++i) {
    NMM_ASSIGN(all.emplace_back(), parse_record(list[i], source, lines[i]));
  }
  return all;
}

// JSON lines: one record per line, empty lines passed over.
Result<std::vector<Instruction>> parse_instruction_lines(std::string_view content,
                                                         const std::string& source) {
  std::vector<Instruction> all;
  for (int64_t line = 1; !content.empty(); ++line) {
    const size_t end = content.find('\n');
    const std::string_view text = content.substr(0, end);
    content.remove_prefix(end == std::string_view::npos ? content.size() : end + 1);
    if (text.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    NMM_ASSIGN(const auto record, io::parse_json(text, fmt::format("{}:{}", source, line)));
    NMM_ASSIGN(all.emplace_back(), parse_record(record, source, line));
  }
  return all;
}

}  // namespace neuronmm::text
