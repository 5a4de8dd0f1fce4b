#pragma once
// Reads the records of training data and of calibration texts. The data is a JSON list of records,
// or one record per line. A record has one of these forms, and may have other fields. If it has the
// fields of several forms, the first of this list counts:
//   {"instruction", "output"}                  as in alpaca.json, perhaps with "input"
//   {"messages": [{"role", "content"}, ...]}   a chat, perhaps with "tools"
//   {"conversations": [{"from", "value"}, ...]} a chat in ShareGPT's form, perhaps with "tools"
//   {"text"}                                   a document

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "text/conversation.h"

namespace neuronmm::text {

// A prompt in Alpaca's form and the response to it.
struct Instruction {
  std::string prompt, response;
};

// A record of the file.
struct TrainingRecord {
  // A std::string is a document.
  std::variant<Instruction, std::string, Conversation> content;
  // The line on which the record begins, from 1.
  int64_t line = 0;
};

// Returns Stanford Alpaca's prompt, which ends with "### Response:\n". A different text is used if
// the input is empty.
std::string alpaca_prompt(std::string_view instruction, std::string_view input);

// Parses a JSON list of records. Errors begin with `source` and the line of the wrong record.
// Malformed JSON, missing fields and fields of a wrong type are errors.
Result<std::vector<TrainingRecord>> parse_record_list(std::string_view content,
                                                      const std::string& source);
// Parses one record per line, with the same errors. Empty lines are skipped.
Result<std::vector<TrainingRecord>> parse_record_lines(std::string_view content,
                                                       const std::string& source);

}  // namespace neuronmm::text
