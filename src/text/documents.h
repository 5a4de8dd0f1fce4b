#pragma once
// Documents as data sets hold them, JSON lines, and as tokens.

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/tokenizer.h"

namespace neuronmm::text {

// The "text" of one such line. Errors begin with `source`.
Result<std::string> document_text(std::string_view json_object, const std::string& source);

// The documents of JSON lines, each the "text" of an object; lines of white space are skipped.
// Errors name `source` and the line; that there is none is one.
Result<std::vector<std::string>> parse_documents(std::string_view json_lines,
                                                 const std::string& source);

// The tokens of each document, to stand one behind the other: from its own BOS (what else its
// tokenizer adds), or, where the tokenizer adds nothing, with a blank line at the end of all but
// the last.
Result<std::vector<std::vector<TokenId>>> encode_each(const Tokenizer& tokenizer,
                                                      const std::vector<std::string>& documents);
// As one run.
Result<std::vector<TokenId>> encode_documents(const Tokenizer& tokenizer,
                                              const std::vector<std::string>& documents);

}  // namespace neuronmm::text
