#pragma once
// Training data as JSON: a list of records, or a record per line. A record is
//   {"instruction", "output", perhaps "input"}   as in alpaca.json
//   {"text"}                                     a document
//   {"messages": [{"role", "content"}, ...]}     a chat, perhaps with "tools"; or "conversations"
//   of
//                                                "from" and "value", as ShareGPT has them
// with any other fields beside these.

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "text/conversation.h"

namespace neuronmm::text {

struct Instruction {
  std::string prompt, response;
};

struct TrainingRecord {
  std::variant<Instruction, std::string, Conversation> content;  // a string: a document
  int64_t line = 0;                                              // on which it begins, from 1
};

// Stanford Alpaca's prompt, which ends with "### Response:\n". An empty input has a form of its
// own.
std::string alpaca_prompt(std::string_view instruction, std::string_view input);

// Errors begin with `source`, and with the line of the record that is wrong: malformed JSON, a
// field that is missing or of another type.
Result<std::vector<TrainingRecord>> parse_record_list(std::string_view content,
                                                      const std::string& source);
// Empty lines are skipped.
Result<std::vector<TrainingRecord>> parse_record_lines(std::string_view content,
                                                       const std::string& source);

}  // namespace neuronmm::text
