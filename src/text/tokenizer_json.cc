#include "text/tokenizer_json.h"

#include <nlohmann/json.hpp>

#include "io/json_file.h"
#include "text/bpe_model_json.h"
#include "text/pipeline_json.h"

namespace neuronmm::text {
namespace {

using nlohmann::json;

constexpr std::string_view kGpt2EndOfText = "<|endoftext|>";  // the only added token of GPT-2

// An entry of "added_tokens"; flags that are absent are false.
Result<AddedToken> read_added_token(const json& entry, const std::string& source,
                                    Vocabulary& vocabulary) {
  if (!entry.is_object())
    return fail("{}: expected an object, found {}", source, io::describe_json(entry));
  const io::JsonFields fields(entry, source);
  NMM_ASSIGN(const auto id, fields.integer("id"));
  if (!id) return fields.missing("id");
  NMM_ASSIGN(auto content, fields.string("content"));
  if (!content) return fields.missing("content");
  if (const Status added = vocabulary.add_name(*content, *id); !added.ok())
    return fail("{}: {}", source, added.error().message);
  AddedToken token;
  token.content = *std::move(content);
  token.id = static_cast<TokenId>(*id);
  const std::pair<const char*, bool*> flags[] = {{"special", &token.special},
                                                 {"normalized", &token.normalized},
                                                 {"single_word", &token.single_word},
                                                 {"lstrip", &token.lstrip},
                                                 {"rstrip", &token.rstrip}};
  for (const auto& [key, flag] : flags) {
    NMM_ASSIGN(const auto value, fields.boolean(key));
    *flag = value.value_or(false);
  }
  return token;
}

// Added tokens come after the vocabulary and may name tokens that are in it already.
Status read_added_tokens(const io::JsonFields& root, TokenizerDefinition& definition) {
  const json* list = root.find("added_tokens");
  if (list == nullptr) return {};
  if (!list->is_array()) return root.wrong("added_tokens", "an array");
  for (size_t i = 0; i < list->size(); ++i) {
    const std::string source = fmt::format("{}: added_tokens[{}]", root.source(), i);
    NMM_ASSIGN(AddedToken token, read_added_token((*list)[i], source, definition.vocabulary));
    definition.added_tokens.push_back(std::move(token));
  }
  return {};
}

}  // namespace

// The vocabulary comes first, since added tokens and the pipeline name tokens of it.
Result<TokenizerDefinition> parse_tokenizer_json(std::string_view text, const std::string& source) {
  NMM_ASSIGN(const json root, io::parse_json_object(text, source));
  const io::JsonFields fields(root, source);
  const json* model = fields.find("model");
  if (model == nullptr) return fields.missing("model");
  TokenizerDefinition definition;
  NMM_TRY(read_bpe_model(*model, source + ": model", definition));
  NMM_TRY(read_added_tokens(fields, definition));
  NMM_TRY(read_pipeline(fields, definition));
  return definition;
}

Result<TokenizerDefinition> parse_gpt2_files(std::string_view vocab_json,
                                             const std::string& vocab_source,
                                             std::string_view merges_text,
                                             const std::string& merges_source) {
  NMM_ASSIGN(const json vocab, io::parse_json_object(vocab_json, vocab_source));
  TokenizerDefinition definition;
  NMM_TRY(read_vocab(vocab, vocab_source, definition.vocabulary));
  NMM_ASSIGN(definition.merges,
             read_merges_text(merges_text, merges_source, definition.vocabulary));
  // The one special token that GPT-2 has; its files do not mark it.
  if (const auto id = definition.vocabulary.find(kGpt2EndOfText)) {
    AddedToken token;
    token.content = kGpt2EndOfText;
    token.id = *id;
    token.special = true;
    definition.added_tokens.push_back(token);
  }
  // GPT-2's files say nothing of the pipeline, which is fixed: byte level, no space in front.
  const json byte_level = {{"type", "ByteLevel"}, {"add_prefix_space", false}};
  const json root = {{"pre_tokenizer", byte_level}, {"decoder", byte_level}};
  NMM_TRY(read_pipeline(io::JsonFields(root, vocab_source), definition));
  return definition;
}

}  // namespace neuronmm::text
