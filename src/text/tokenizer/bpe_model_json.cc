#include "text/tokenizer/bpe_model_json.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "text/tokenizer/byte_level.h"
#include "text/tokenizer/byte_token.h"
#include "text/unicode/utf8.h"

namespace neuronmm::text {
namespace {

// Adds all tokens to the vocabulary. An empty list is an error.
Status read_vocab(const BpeEntries& entries, const std::string& source, Vocabulary& vocabulary) {
  if (entries.vocab.empty()) return fail("{}: expected tokens, found none", source);
  vocabulary.reserve(std::min(entries.vocab.size(), size_t{Vocabulary::kMaxSize}));
  for (const auto& [token, id] : entries.vocab) {
    if (const Status added = vocabulary.add_token(token, id); !added.ok())
      return fail("{}: {}", source, added.error().message);
  }
  return {};
}

// Adds one merge. Both halves and the result must be tokens, because merging works with ids only.
// `storage` is reused from merge to merge.
Status add_merge(const Vocabulary& vocabulary, BpeEntries::Merge pair, std::string& storage,
                 BpeModel& model) {
  const auto [left, right] = pair;
  // A right half inside a word begins with the continuing prefix, which the merged token does not
  // repeat.
  const size_t prefix = std::min(model.alphabet.continuing_prefix.size(), right.size());
  storage.assign(left).append(right.substr(prefix));
  const auto left_id = vocabulary.find_token(left), right_id = vocabulary.find_token(right),
             merged_id = vocabulary.find_token(storage);
  if (!left_id || !right_id || !merged_id) {
    const std::string_view unknown = !left_id ? left : !right_id ? right : storage;
    return fail("the merge of {:?} and {:?}: {:?} is not in the vocabulary", left, right, unknown);
  }
  model.merges.push_back({*left_id, *right_id, *merged_id});
  return {};
}

// Reads the list of merges. A merge's place in the list is its rank.
Status read_merges(const BpeEntries& entries, const std::string& source,
                   const Vocabulary& vocabulary, BpeModel& model) {
  if (!entries.rules.empty()) {
    model.merges = entries.rules;
    return {};
  }
  std::string storage;
  model.merges.reserve(entries.merges.size());
  for (size_t i = 0; i < entries.merges.size(); ++i) {
    if (const Status added = add_merge(vocabulary, entries.merges[i], storage, model); !added.ok())
      return fail("{}[{}]: {}", source, i, added.error().message);
  }
  return {};
}

Status read_alphabet(const io::JsonFields& fields, const Vocabulary& vocabulary,
                     Alphabet::Options& alphabet) {
  NMM_ASSIGN(const auto byte_fallback, fields.boolean("byte_fallback"));
  NMM_ASSIGN(const auto fuse_unknown, fields.boolean("fuse_unk"));
  NMM_ASSIGN(auto prefix, fields.string("continuing_subword_prefix"));
  NMM_ASSIGN(auto suffix, fields.string("end_of_word_suffix"));
  NMM_ASSIGN(const auto unknown, fields.string("unk_token"));
  alphabet.byte_fallback = byte_fallback.value_or(false);
  alphabet.fuse_unknown = fuse_unknown.value_or(false);
  alphabet.continuing_prefix = std::move(prefix).value_or("");
  alphabet.end_suffix = std::move(suffix).value_or("");
  if (!unknown || unknown->empty()) return {};
  alphabet.unknown = vocabulary.find_token(*unknown);
  const bool reachable = !has_all_bytes(vocabulary, true) &&
                         !(alphabet.byte_fallback && has_all_bytes(vocabulary, false));
  if (!alphabet.unknown && reachable) return fields.wrong("unk_token", "a token of the vocabulary");
  return {};
}

}  // namespace

bool has_all_bytes(const Vocabulary& vocabulary, bool spelled) {
  for (int i = 0; i < 256; ++i) {
    std::string token;
    const char byte = static_cast<char>(i);
    if (spelled)
      append_utf8(character_of_byte(byte), token);
    else
      token = byte_token(byte);
    if (!vocabulary.find_token(token)) return false;
  }
  return true;
}

Status read_bpe_model(const io::JsonFields& fields, const BpeEntries& entries,
                      TokenizerDefinition& definition) {
  NMM_ASSIGN(const auto type, fields.string("type"));
  // GPT-2's published file names no type.
  if (type.value_or("BPE") != "BPE") return fields.wrong("type", "\"BPE\"");
  NMM_ASSIGN(const auto dropout, fields.number("dropout"));
  if (dropout.value_or(0) != 0) return fields.wrong("dropout", "none");
  for (const char* key : {"vocab", "merges"}) {
    const auto* value = fields.find(key);
    if (value == nullptr) return fields.missing(key);
    const bool is_vocab = std::string_view(key) == "vocab";
    if (is_vocab ? !value->is_object() : !value->is_array())
      return fields.wrong(key, is_vocab ? "an object" : "an array");
  }
  NMM_TRY(read_vocab(entries, fields.source() + ".vocab", definition.vocabulary));
  NMM_TRY(read_alphabet(fields, definition.vocabulary, definition.model.alphabet));
  NMM_TRY(
      read_merges(entries, fields.source() + ".merges", definition.vocabulary, definition.model));
  NMM_ASSIGN(const auto ignore_merges, fields.boolean("ignore_merges"));
  definition.model.ignore_merges = ignore_merges.value_or(false);
  return {};
}

}  // namespace neuronmm::text
