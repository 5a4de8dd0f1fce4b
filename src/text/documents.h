#pragma once
// Encodes the documents and chats of JSON lines. Calibration, perplexity and fine-tuning read their
// texts with these functions.

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/tokenizer/tokenizer.h"

namespace neuronmm::text {

// Returns the "text" of one JSON object. Errors begin with `source`.
Result<std::string> document_text(std::string_view json_object, const std::string& source);

// Returns the tokens of every record of JSON lines, ready to be joined. The records are those of
// text/training_records.h, and all of them are read as documents:
//
// - Each "text" begins with what the tokenizer adds (a BOS token, for example). If the tokenizer
//   adds nothing, a blank line ends the text, except at the end of the file.
// - The model's chat template writes each chat, of which every part is read. The template sees a
//   fixed date, so that a file always gives the same tokens.
// - The prompt of an instruction, in Alpaca's form, and the response are a text.
//
// Errors name `source` and the line. A file without any record is an error, and so is a chat for a
// model without a template.
Result<std::vector<std::vector<TokenId>>> encode_records(const Tokenizer& tokenizer,
                                                         std::string_view json_lines,
                                                         const std::string& source);
// Returns the tokens of documents, joined into one sequence. Documents begin and end as the "text"
// of encode_records().
Result<std::vector<TokenId>> encode_documents(const Tokenizer& tokenizer,
                                              const std::vector<std::string>& documents);
// Joins sequences of tokens.
std::vector<TokenId> joined(const std::vector<std::vector<TokenId>>& sequences);

}  // namespace neuronmm::text
