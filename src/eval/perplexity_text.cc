#include "eval/perplexity_text.h"

#include <string_view>

#include "eval/python_text.h"
#include "io/checksum.h"
#include "io/text_file.h"
#include "text/documents.h"

namespace neuronmm::eval {
namespace {

// Documented: SVD-LLM and GPTQ take this many documents.
constexpr int64_t kC4Documents = 2000;

// Returns a row as the Hugging Face data set has it: a line with its newline, or nothing for a
// blank line.
Result<std::string> wikitext_row(std::string_view line, const std::string&) {
  return strip(line).empty() ? std::string() : std::string(line) + "\n";
}

Result<std::string> sentence_row(std::string_view line, const std::string&) {
  return std::string(strip(line));
}

}  // namespace

Result<PerplexityText> read_perplexity_text(const Task& task, const TaskFiles& files) {
  NMM_ASSIGN(const std::string content, io::read_text_file(files.items, io::kMaxTextBytes));
  const bool is_c4 = task.format == TaskFormat::kC4;
  const auto row_of = is_c4                                  ? text::document_text
                      : task.format == TaskFormat::kWikiText ? wikitext_row
                                                             : sentence_row;
  PerplexityText read = {{}, io::checksum(content)};
  std::string& text = read.text;
  std::string_view rest = content;
  for (int64_t row = 0; !rest.empty() && !(is_c4 && row == kC4Documents); ++row) {
    const size_t end = rest.find('\n');
    const std::string source = fmt::format("{}:{}", files.items.string(), row + 1);
    NMM_ASSIGN(const std::string joined, row_of(rest.substr(0, end), source));
    // Rows are separated; nothing follows the last.
    if (row > 0) text += "\n\n";
    text += joined;
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  }
  return read;
}

}  // namespace neuronmm::eval
