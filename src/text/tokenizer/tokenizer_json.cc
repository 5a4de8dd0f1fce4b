#include "text/tokenizer/tokenizer_json.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include <nlohmann/json.hpp>

#include "io/json_file.h"
#include "text/tokenizer/added_token_json.h"
#include "text/tokenizer/bpe_model_json.h"
#include "text/tokenizer/decoder_json.h"
#include "text/tokenizer/normalizer_json.h"
#include "text/tokenizer/post_processor_json.h"
#include "text/tokenizer/pre_tokenizer_json.h"
#include "text/tokenizer/rewrite_steps.h"

namespace neuronmm::text {
namespace {

using nlohmann::json;

// Returns the id of the next token that the vocabulary does not contain.
int64_t next_added_id(const TokenizerDefinition& definition) {
  int64_t next = definition.vocabulary.tokens();
  for (const AddedToken& token : definition.added_tokens)
    next = std::max(next, int64_t{token.id} + 1);
  return next;
}

// Adds a token with the id that the tokenizers library gives it, whatever the file says. A token of
// the vocabulary with the same text lends its id; other tokens get the next one. A file that
// contradicts itself is refused.
Status add_added_token(AddedToken token, int64_t id_in_file, int64_t& next_id,
                       TokenizerDefinition& definition) {
  Vocabulary& vocabulary = definition.vocabulary;
  if (id_in_file < 0 || id_in_file >= Vocabulary::kMaxSize)
    return fail("{:?} has id {}; ids are 0 to {}", token.content, id_in_file,
                Vocabulary::kMaxSize - 1);
  if (vocabulary.has(id_in_file) && vocabulary.text(id_in_file) != token.content)
    return fail("id {} belongs to {:?} and {:?}", id_in_file, vocabulary.text(id_in_file),
                token.content);
  const auto in_model = vocabulary.find_token(token.content);
  if (const auto known = vocabulary.find(token.content); known && !in_model)
    return fail("{:?} has id {} and id {}", token.content, *known, id_in_file);
  const int64_t id = in_model ? *in_model : next_id++;
  NMM_TRY(vocabulary.add_added(token.content, id));
  token.id = static_cast<TokenId>(id);
  definition.added_tokens.push_back(std::move(token));
  return {};
}

// Reads "added_tokens". Their ids follow the vocabulary, and they may name tokens of the
// vocabulary.
Status read_added_tokens(const io::JsonFields& root, TokenizerDefinition& definition) {
  const json* list = root.find("added_tokens");
  if (list == nullptr) return {};
  if (!list->is_array()) return root.wrong("added_tokens", "an array");
  int64_t next_id = definition.vocabulary.tokens();
  for (size_t i = 0; i < list->size(); ++i) {
    const std::string source = fmt::format("{}: added_tokens[{}]", root.source(), i);
    const json& entry = (*list)[i];
    if (!entry.is_object())
      return fail("{}: expected an object, found {}", source, io::describe_json(entry));
    const io::JsonFields fields(entry, source);
    NMM_ASSIGN(const auto id, fields.integer("id"));
    if (!id) return fields.missing("id");
    NMM_ASSIGN(AddedToken token, read_added_token(fields));
    if (const Status added = add_added_token(std::move(token), *id, next_id, definition);
        !added.ok())
      return fail("{}: {}", source, added.error().message);
  }
  return {};
}

// Lets BPE work on bytes if the pre-tokenizer ends with the spelling of bytes and no rule of the
// model looks at the characters of that spelling. Otherwise adds the step that spells bytes.
void choose_alphabet(bool ends_spelled, TokenizerDefinition& definition) {
  Alphabet::Options& alphabet = definition.model.alphabet;
  const bool has_rules = alphabet.byte_fallback || alphabet.unknown;
  alphabet.bytes = ends_spelled && alphabet.continuing_prefix.empty() &&
                   alphabet.end_suffix.empty() &&
                   !(has_rules && !has_all_bytes(definition.vocabulary, true));
  if (ends_spelled && !alphabet.bytes)
    definition.pre_tokenizer.add(std::make_shared<SpellBytesStep>());
}

// Reads the stages of the pipeline. An unknown step is an error with its name.
Status read_pipeline(const io::JsonFields& root, TokenizerDefinition& definition) {
  const auto source_of = [&](const char* key) { return root.source() + ": " + key; };
  if (const json* normalizer = root.find("normalizer"))
    NMM_TRY(read_normalizer(*normalizer, source_of("normalizer"), definition.normalizer));
  bool ends_spelled = false;
  if (const json* pre_tokenizer = root.find("pre_tokenizer"))
    NMM_TRY(read_pre_tokenizer(*pre_tokenizer, source_of("pre_tokenizer"), definition.pre_tokenizer,
                               ends_spelled));
  choose_alphabet(ends_spelled, definition);
  if (const json* post_processor = root.find("post_processor"))
    NMM_TRY(read_post_processor(*post_processor, source_of("post_processor"), definition));
  if (const json* decoder = root.find("decoder"))
    NMM_TRY(read_decoder(*decoder, source_of("decoder"), definition));
  return {};
}

// Reads the whole file, whose vocabulary and merges are in `entries`. The vocabulary comes first,
// because added tokens and the pipeline name tokens of it.
Result<TokenizerDefinition> read_definition(const json& root, const std::string& source,
                                            const BpeEntries& entries) {
  const io::JsonFields fields(root, source);
  NMM_ASSIGN(const auto version, fields.string("version"));
  if (version.value_or("1.0") != "1.0") return fields.wrong("version", "\"1.0\"");
  const json* model = fields.find("model");
  if (model == nullptr) return fields.missing("model");
  if (!model->is_object()) return fields.wrong("model", "an object");
  TokenizerDefinition definition;
  NMM_TRY(read_bpe_model(io::JsonFields(*model, source + ": model"), entries, definition));
  NMM_TRY(read_added_tokens(fields, definition));
  NMM_TRY(read_pipeline(fields, definition));
  return definition;
}

}  // namespace

Result<TokenizerDefinition> parse_tokenizer_json(std::string_view text, const std::string& source) {
  BpeEntries entries;
  NMM_ASSIGN(const json root, parse_with_entries(text, source, entries));
  return read_definition(root, source, entries);
}

Result<TokenizerDefinition> parse_mounted_tokenizer(const io::MountedTokenizer& tokenizer,
                                                    const std::string& source) {
  NMM_ASSIGN(const json root, io::parse_json_object(tokenizer.json, source));
  BpeEntries entries;
  entries.vocab.reserve(tokenizer.tokens.size());
  for (const std::string_view token : tokenizer.tokens)
    entries.vocab.emplace_back(token, std::ssize(entries.vocab));
  entries.rules.reserve(tokenizer.merges.size());
  for (const auto& [left, right, merged] : tokenizer.merges)
    entries.rules.push_back({left, right, merged});
  return read_definition(root, source, entries);
}

Status add_tokens_of_config(const TokenizerConfig& config, const std::string& source,
                            TokenizerDefinition& definition) {
  std::unordered_set<std::string> added;
  for (const AddedToken& token : definition.added_tokens) added.insert(token.content);
  int64_t next_id = next_added_id(definition);
  for (const AddedToken& token : config.added_tokens) {
    if (!added.insert(token.content).second) continue;
    const Status status = add_added_token(token, token.id, next_id, definition);
    if (!status.ok()) return fail("{}: added_tokens_decoder: {}", source, status.error().message);
  }
  for (const AddedToken& token : config.tokens_to_add) {
    if (!added.insert(token.content).second) continue;
    const auto in_model = definition.vocabulary.find_token(token.content);
    const int64_t id = in_model ? *in_model : next_id;
    const Status status = add_added_token(token, id, next_id, definition);
    if (!status.ok()) return fail("{}: {}", source, status.error().message);
  }
  return {};
}

}  // namespace neuronmm::text
