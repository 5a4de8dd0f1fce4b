#include "eval/perplexity_text.h"

#include <string_view>

#include <nlohmann/json.hpp>

#include "eval/python_text.h"
#include "io/checksum.h"
#include "io/json_file.h"
#include "io/text_file.h"

namespace neuronmm::eval {
namespace {

// SVD-LLM and GPTQ take so many.
constexpr int64_t kC4Documents = 2000;

// As the Hugging Face data set has its rows: a line with its newline, or nothing for a blank line.
Result<std::string> wikitext_row(std::string_view line, const std::string&) {
  return strip(line).empty() ? std::string() : std::string(line) + "\n";
}

Result<std::string> sentence_row(std::string_view line, const std::string&) {
  return std::string(strip(line));
}

Result<std::string> document_row(std::string_view line, const std::string& source) {
  NMM_ASSIGN(const nlohmann::json object, io::parse_json_object(line, source));
  const io::JsonFields fields(object, source);
  NMM_ASSIGN(auto text, fields.string("text"));
  if (!text) return fields.missing("text");
  return *std::move(text);
}

}  // namespace

Result<PerplexityText> read_perplexity_text(const Task& task, const TaskFiles& files) {
  NMM_ASSIGN(const std::string content, io::read_text_file(files.items, io::kMaxTextBytes));
  const bool is_c4 = task.format == TaskFormat::kC4;
  const auto row_of = is_c4                                  ? document_row
                      : task.format == TaskFormat::kWikiText ? wikitext_row
                                                             : sentence_row;
  PerplexityText read = {{}, io::checksum(content)};
  std::string& text = read.text;
  std::string_view rest = content;
  for (int64_t row = 0; !rest.empty() && !(is_c4 && row == kC4Documents); ++row) {
    const size_t end = rest.find('\n');
    const std::string source = fmt::format("{}:{}", files.items.string(), row + 1);
    NMM_ASSIGN(const std::string joined, row_of(rest.substr(0, end), source));
    // Between rows, not after the last.
    if (row > 0) text += "\n\n";
    text += joined;
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  }
  return read;
}

Result<std::vector<std::string>> parse_documents(std::string_view json_lines,
                                                 const std::string& source) {
  std::vector<std::string> documents;
  for (int64_t line = 1; !json_lines.empty(); ++line) {
    const size_t end = json_lines.find('\n');
    const std::string_view object = json_lines.substr(0, end);
    json_lines.remove_prefix(end == std::string_view::npos ? json_lines.size() : end + 1);
    if (strip(object).empty()) continue;
    NMM_ASSIGN(documents.emplace_back(), document_row(object, fmt::format("{}:{}", source, line)));
  }
  if (!documents.empty()) return documents;
  return fail("{}: expected documents, a JSON object with \"text\" per line, found none", source);
}

Result<std::vector<text::TokenId>> encode_documents(const text::Tokenizer& tokenizer,
                                                    const std::vector<std::string>& documents) {
  NMM_ASSIGN(const auto nothing, tokenizer.encode(""));
  const bool adds_nothing = nothing.empty();
  std::vector<text::TokenId> tokens;
  for (size_t i = 0; i < documents.size(); ++i) {
    const bool between = adds_nothing && i + 1 < documents.size();
    auto encoded = tokenizer.encode(between ? documents[i] + "\n\n" : documents[i]);
    if (!encoded.ok()) return fail("document {}: {}", i + 1, encoded.error().message);
    tokens.insert(tokens.end(), encoded->begin(), encoded->end());
  }
  return tokens;
}

}  // namespace neuronmm::eval
