#include "text/documents.h"

#include <ctime>
#include <variant>

#include <nlohmann/json.hpp>

#include "io/json_file.h"
#include "text/chat_template.h"
#include "text/training_records.h"

namespace neuronmm::text {
namespace {

// The date that templates see: 26 July 2024, which Llama 3's templates write if they have no clock.
constexpr std::time_t kTemplateDate = 1'721'952'000;

// Encodes single documents, and knows how the tokenizer separates them.
class DocumentEncoder {
 public:
  static Result<DocumentEncoder> make(const Tokenizer& tokenizer) {
    NMM_ASSIGN(const auto nothing, tokenizer.encode(""));
    return DocumentEncoder(tokenizer, nothing.empty());
  }

  Result<std::vector<TokenId>> encode(const std::string& document, bool last) const {
    return tokenizer_.encode(adds_nothing_ && !last ? document + "\n\n" : document);
  }
  Result<std::vector<TokenId>> encode(const Instruction& instruction, bool last) const {
    return encode(instruction.prompt + instruction.response, last);
  }
  // The template writes what begins and ends a chat.
  Result<std::vector<TokenId>> encode(const Conversation& chat, bool /*last*/) const {
    const TokenizerConfig& config = tokenizer_.config();
    if (config.chat_templates.empty()) {
      return fail(
          "a chat, but {} has no chat template to write it; add the chat_template.jinja of the "
          "model, or write the chat as the \"text\" of a document",
          config.folder.empty() ? "the model" : "the model " + config.folder);
    }
    Conversation whole = chat;
    whole.add_generation_prompt = false;
    NMM_ASSIGN(const auto written, apply_chat_template(config, whole, kTemplateDate));
    return tokenizer_.encode(written.text,
                             {.add_special_tokens = false, .literal = written.from_messages});
  }

 private:
  DocumentEncoder(const Tokenizer& tokenizer, bool adds_nothing)
      : tokenizer_(tokenizer), adds_nothing_(adds_nothing) {}

  const Tokenizer& tokenizer_;
  const bool adds_nothing_;
};

}  // namespace

Result<std::string> document_text(std::string_view json_object, const std::string& source) {
  NMM_ASSIGN(const nlohmann::json object, io::parse_json_object(json_object, source));
  const io::JsonFields fields(object, source);
  NMM_ASSIGN(auto text, fields.string("text"));
  if (!text) return fields.missing("text");
  return *std::move(text);
}

Result<std::vector<std::vector<TokenId>>> encode_records(const Tokenizer& tokenizer,
                                                         std::string_view json_lines,
                                                         const std::string& source) {
  NMM_ASSIGN(const auto records, parse_record_lines(json_lines, source));
  if (records.empty()) {
    return fail(
        "{}: expected documents, a JSON object with \"instruction\" and \"output\", \"text\", "
        "\"messages\" or \"conversations\" per line, found none",
        source);
  }
  NMM_ASSIGN(const auto encoder, DocumentEncoder::make(tokenizer));
  std::vector<std::vector<TokenId>> encoded;
  for (const TrainingRecord& record : records) {
    const bool last = &record == &records.back();
    auto tokens = std::visit([&](const auto& content) { return encoder.encode(content, last); },
                             record.content);
    if (!tokens.ok()) return fail("{}:{}: {}", source, record.line, tokens.error().message);
    encoded.push_back(std::move(tokens).value());
  }
  return encoded;
}

Result<std::vector<TokenId>> encode_documents(const Tokenizer& tokenizer,
                                              const std::vector<std::string>& documents) {
  NMM_ASSIGN(const auto encoder, DocumentEncoder::make(tokenizer));
  std::vector<std::vector<TokenId>> encoded;
  for (size_t i = 0; i < documents.size(); ++i) {
    auto tokens = encoder.encode(documents[i], i + 1 == documents.size());
    if (!tokens.ok()) return fail("document {}: {}", i + 1, tokens.error().message);
    encoded.push_back(std::move(tokens).value());
  }
  return joined(encoded);
}

std::vector<TokenId> joined(const std::vector<std::vector<TokenId>>& sequences) {
  std::vector<TokenId> all;
  for (const std::vector<TokenId>& tokens : sequences) {
    all.insert(all.end(), tokens.begin(), tokens.end());
  }
  return all;
}

}  // namespace neuronmm::text
