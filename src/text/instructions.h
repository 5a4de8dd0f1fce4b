#pragma once
// Instructions with responses in the format of alpaca.json, as prompts and what is to follow them.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace neuronmm::text {

struct Instruction {
  std::string prompt, response;
  int64_t line = 0;  // on which its record begins, from 1
};

// Stanford Alpaca's prompt, which ends with "### Response:\n". An empty input has a form of its
// own.
std::string alpaca_prompt(std::string_view instruction, std::string_view input);

// A JSON list of objects with "instruction", "output" and perhaps "input".
// Errors begin with `source`, and with the line of the record that is wrong: malformed JSON, a
// field that is missing or no string. The same of lines.
Result<std::vector<Instruction>> parse_instruction_list(std::string_view content,
                                                        const std::string& source);

// One such object per line; empty lines are skipped.
Result<std::vector<Instruction>> parse_instruction_lines(std::string_view content,
                                                         const std::string& source);

}  // namespace neuronmm::text
