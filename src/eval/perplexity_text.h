#pragma once
// The texts of published perplexities. They are joined from their files as SVD-LLM joins the rows
// of the Hugging Face data sets: with "\n\n" between the rows.
//   WikiText-2  the test split; a row is a line with its newline, or nothing for a blank line
//   PTB         the test split; a row is a line without the white space at its ends
//   C4          the first 2000 documents of the first validation shard

#include <string>

#include "base/result.h"
#include "eval/task.h"

namespace neuronmm::eval {

// A text and the checksum of its file.
struct PerplexityText {
  std::string text;
  // Checksum of the unchanged file, by which a compression record names a text.
  std::string checksum;
};
// Reads the text of a task. Errors name the file, and for C4 the line.
Result<PerplexityText> read_perplexity_text(const Task& task, const TaskFiles& files);

}  // namespace neuronmm::eval
