#pragma once
// The texts of the published perplexities, joined from their files as SVD-LLM joins the rows of the
// Hugging Face data sets: with "\n\n" between them.
//   WikiText-2  the test split; a row is a line with its newline, or nothing for a blank line
//   PTB         the test split; a row is a line without the white space at its ends
//   C4          the first 2000 documents of the first validation shard

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "eval/task.h"
#include "text/tokenizer.h"

namespace neuronmm::eval {

struct PerplexityText {
  std::string text;
  std::string checksum;  // of the file as it is: what a compression record calls it by
};
// Errors name the file, and for C4 the line.
Result<PerplexityText> read_perplexity_text(const Task& task, const TaskFiles& files);

// The documents of JSON lines, each the "text" of an object; lines of white space are skipped.
// Errors name `source` and the line; that there is none is one.
Result<std::vector<std::string>> parse_documents(std::string_view json_lines,
                                                 const std::string& source);

// Documents as one run of tokens: each from its own BOS (what else its tokenizer adds), or, where
// the tokenizer adds nothing, with a blank line between them, which belongs to the one before.
Result<std::vector<text::TokenId>> encode_documents(const text::Tokenizer& tokenizer,
                                                    const std::vector<std::string>& documents);

}  // namespace neuronmm::eval
