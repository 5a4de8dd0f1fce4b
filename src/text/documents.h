#pragma once
// Reads documents from JSON lines and encodes them. Calibration, perplexity and fine-tuning read
// their texts with these functions.

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/tokenizer/tokenizer.h"

namespace neuronmm::text {

// Returns the "text" of one JSON object. Errors begin with `source`.
Result<std::string> document_text(std::string_view json_object, const std::string& source);

// Returns the "text" of every line, skipping lines of white space. Errors name `source` and the
// line. A text without any document is an error.
Result<std::vector<std::string>> parse_documents(std::string_view json_lines,
                                                 const std::string& source);

// Returns the tokens of each document, ready to be joined. Every document begins with what its
// tokenizer adds (a BOS token, for example). If the tokenizer adds nothing, a blank line ends every
// document except the last.
Result<std::vector<std::vector<TokenId>>> encode_each(const Tokenizer& tokenizer,
                                                      const std::vector<std::string>& documents);
// Returns the tokens of encode_each() joined into one sequence.
Result<std::vector<TokenId>> encode_documents(const Tokenizer& tokenizer,
                                              const std::vector<std::string>& documents);

}  // namespace neuronmm::text
