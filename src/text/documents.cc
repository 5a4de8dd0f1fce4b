#include "text/documents.h"

#include <nlohmann/json.hpp>

#include "io/json_file.h"
#include "text/unicode/white_space.h"

namespace neuronmm::text {
namespace {

bool is_blank(std::string_view line) { return strip_left(line, is_python_space).empty(); }

}  // namespace

Result<std::string> document_text(std::string_view json_object, const std::string& source) {
  NMM_ASSIGN(const nlohmann::json object, io::parse_json_object(json_object, source));
  const io::JsonFields fields(object, source);
  NMM_ASSIGN(auto text, fields.string("text"));
  if (!text) return fields.missing("text");
  return *std::move(text);
}

Result<std::vector<std::string>> parse_documents(std::string_view json_lines,
                                                 const std::string& source) {
  std::vector<std::string> documents;
  for (int64_t line = 1; !json_lines.empty(); ++line) {
    const size_t end = json_lines.find('\n');
    const std::string_view object = json_lines.substr(0, end);
    json_lines.remove_prefix(end == std::string_view::npos ? json_lines.size() : end + 1);
    if (is_blank(object)) continue;
    NMM_ASSIGN(documents.emplace_back(), document_text(object, fmt::format("{}:{}", source, line)));
  }
  if (!documents.empty()) return documents;
  return fail("{}: expected documents, a JSON object with \"text\" per line, found none", source);
}

Result<std::vector<std::vector<TokenId>>> encode_each(const Tokenizer& tokenizer,
                                                      const std::vector<std::string>& documents) {
  NMM_ASSIGN(const auto nothing, tokenizer.encode(""));
  const bool adds_nothing = nothing.empty();
  std::vector<std::vector<TokenId>> encoded;
  for (size_t i = 0; i < documents.size(); ++i) {
    const bool between = adds_nothing && i + 1 < documents.size();
    auto tokens = tokenizer.encode(between ? documents[i] + "\n\n" : documents[i]);
    if (!tokens.ok()) return fail("document {}: {}", i + 1, tokens.error().message);
    encoded.push_back(std::move(tokens).value());
  }
  return encoded;
}

Result<std::vector<TokenId>> encode_documents(const Tokenizer& tokenizer,
                                              const std::vector<std::string>& documents) {
  NMM_ASSIGN(const auto encoded, encode_each(tokenizer, documents));
  std::vector<TokenId> all;
  for (const std::vector<TokenId>& tokens : encoded) {
    all.insert(all.end(), tokens.begin(), tokens.end());
  }
  return all;
}

}  // namespace neuronmm::text
