#include "gguf/vocabulary.h"

#include <algorithm>

#include "model/end_tokens.h"
#include "text/tokenizer/token_table.h"
#include "text/unicode/utf8.h"

namespace neuronmm::gguf {
namespace {

constexpr std::string_view kModelKey = "tokenizer.ggml.model", kPreKey = "tokenizer.ggml.pre",
                           kTokensKey = "tokenizer.ggml.tokens",
                           kScoresKey = "tokenizer.ggml.scores",
                           kKindsKey = "tokenizer.ggml.token_type",
                           kMergesKey = "tokenizer.ggml.merges",
                           kTemplateKey = "tokenizer.chat_template";
// Assumed: published vocabularies have at most some 300,000 tokens and 600,000 merges. The limit
// keeps a file of nothing but empty tokens from taking more memory than itself.
constexpr uint64_t kMaxTokens = 1 << 21;
// Assumed: the longest token of a published vocabulary has some hundred bytes. Finding the merges
// of SentencePiece takes time that grows with the square of a token's length.
constexpr size_t kMaxTokenBytes = 1024;
// -1 as some converters write it.
constexpr int64_t kNoToken = 0xFFFFFFFF;

bool is_utf8(std::string_view text) { return text::valid_utf8_length(text) == std::ssize(text); }

Status check_count(const io::GgufMetadata& metadata, std::string_view key) {
  if (metadata.count(key) <= kMaxTokens) return {};
  return metadata.wrong(key, fmt::format("at most {} strings", kMaxTokens));
}

// Reads the tokens and maps them to their ids.
Status read_tokens(const io::GgufMetadata& metadata, Vocabulary& vocabulary,
                   text::TokenTable& ids) {
  NMM_TRY(check_count(metadata, kTokensKey));
  NMM_ASSIGN(vocabulary.tokens, metadata.strings(kTokensKey));
  if (vocabulary.tokens.empty()) return metadata.missing(kTokensKey);
  ids.reserve(vocabulary.tokens.size());
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    std::string_view& text = vocabulary.tokens[id];
    if (!is_utf8(text))
      return fail("{}: {:?}: token {}: expected UTF-8, found {:?}", metadata.source(), kTokensKey,
                  id, text);
    if (text.size() > kMaxTokenBytes)
      return fail("{}: {:?}: token {}: expected at most {} bytes, found {}", metadata.source(),
                  kTokensKey, id, kMaxTokenBytes, text.size());
    if (text.empty()) text = vocabulary.names.store(fmt::format("[EMPTY_{}]", id));
    if (const auto known = ids.insert(text, static_cast<text::TokenId>(id)))
      return fail("{}: {:?}: tokens {} and {} are both {:?}", metadata.source(), kTokensKey, *known,
                  id, text);
  }
  return {};
}

Status check_length(const io::GgufMetadata& metadata, std::string_view key, size_t length,
                    const Vocabulary& vocabulary) {
  if (length == vocabulary.tokens.size()) return {};
  return metadata.wrong(key,
                        fmt::format("one for each of the {} tokens", vocabulary.tokens.size()));
}

Status read_kinds(const io::GgufMetadata& metadata, Vocabulary& vocabulary) {
  NMM_ASSIGN(const auto kinds, metadata.integers(kKindsKey));
  vocabulary.kinds.assign(vocabulary.tokens.size(), TokenKind::kNormal);
  if (!metadata.has(kKindsKey)) return {};
  NMM_TRY(check_length(metadata, kKindsKey, kinds.size(), vocabulary));
  for (size_t id = 0; id < kinds.size(); ++id) {
    const int64_t kind = kinds[id];
    if (kind < 0 || kind > static_cast<int64_t>(TokenKind::kByte))
      return fail("{}: {:?}: token {}: expected a type from 0 to 6, found {}", metadata.source(),
                  kKindsKey, id, kind);
    vocabulary.kinds[id] = static_cast<TokenKind>(kind);
  }
  return {};
}

Status read_scores(const io::GgufMetadata& metadata, Vocabulary& vocabulary) {
  NMM_ASSIGN(vocabulary.scores, metadata.numbers(kScoresKey));
  if (!metadata.has(kScoresKey)) return {};
  return check_length(metadata, kScoresKey, vocabulary.scores.size(), vocabulary);
}

// Reads merges of the form "a b". A token may begin with a space but has none inside.
Status read_merges(const io::GgufMetadata& metadata, const text::TokenTable& ids,
                   Vocabulary& vocabulary) {
  NMM_TRY(check_count(metadata, kMergesKey));
  NMM_ASSIGN(const auto merges, metadata.strings(kMergesKey));
  if (!metadata.has(kMergesKey) && !vocabulary.sentence_piece) return metadata.missing(kMergesKey);
  std::string merged;
  vocabulary.merges.reserve(merges.size());
  for (size_t i = 0; i < merges.size(); ++i) {
    const std::string_view merge = merges[i];
    const size_t space = merge.find(' ', 1);
    if (space == std::string_view::npos || space + 1 == merge.size())
      return fail("{}: {:?}: merge {}: expected two tokens and a space, found {:?}",
                  metadata.source(), kMergesKey, i, merge);
    const std::string_view left = merge.substr(0, space), right = merge.substr(space + 1);
    merged.assign(left).append(right);
    const auto left_id = ids.find(left), right_id = ids.find(right), merged_id = ids.find(merged);
    if (!left_id || !right_id || !merged_id) {
      const std::string_view unknown = !left_id ? left : !right_id ? right : merged;
      return fail("{}: {:?}: merge {} of {:?} and {:?}: {:?} is no token", metadata.source(),
                  kMergesKey, i, left, right, unknown);
    }
    vocabulary.merges.push_back({*left_id, *right_id, *merged_id});
  }
  return {};
}

Result<std::optional<int64_t>> read_id(const io::GgufMetadata& metadata, std::string_view name,
                                       const Vocabulary& vocabulary,
                                       std::optional<int64_t> otherwise = {}) {
  const std::string key = fmt::format("tokenizer.ggml.{}_token_id", name);
  NMM_ASSIGN(const auto id, metadata.integer(key));
  const int64_t count = std::ssize(vocabulary.tokens);
  if (!id) return otherwise && *otherwise < count ? otherwise : std::nullopt;
  if (*id == kNoToken || *id == -1) return std::optional<int64_t>();
  if (*id < 0 || *id >= count)
    return metadata.wrong(key, fmt::format("a token from 0 to {}", count - 1));
  return id;
}

// Files without token types mark their special tokens only by these ids.
Status mark_special_tokens(const io::GgufMetadata& metadata, Vocabulary& vocabulary) {
  if (metadata.has(kKindsKey)) return {};
  for (const std::string_view name : {"bos", "eos", "eot", "eom", "unknown", "padding"}) {
    NMM_ASSIGN(const auto id, read_id(metadata, name, vocabulary));
    if (id) vocabulary.kinds[static_cast<size_t>(*id)] = TokenKind::kControl;
  }
  return {};
}

// Adds the ends that their texts show. Like llama.cpp, this makes control tokens of them, because
// some converters call them ordinary. The exception is "</s>", which is ordinary text in Qwen's
// vocabulary and ends a struck-out passage in HTML.
void add_recognized_ends(bool has_kinds, const text::TokenTable& ids, Vocabulary& vocabulary) {
  const auto find = [&](std::string_view text) -> std::optional<int64_t> {
    const auto found = ids.find(text);
    if (!found) return std::nullopt;
    const bool ordinary =
        has_kinds && vocabulary.kinds[static_cast<size_t>(*found)] == TokenKind::kNormal;
    if (ordinary && text == "</s>") return std::nullopt;
    return *found;
  };
  for (const int64_t id : model::recognized_end_tokens(find)) {
    vocabulary.other_ends.push_back(id);
    vocabulary.kinds[static_cast<size_t>(id)] = TokenKind::kControl;
  }
}

// If keys are missing, SentencePiece's usual ids are used, as in llama.cpp.
Status read_special_tokens(const io::GgufMetadata& metadata, const text::TokenTable& ids,
                           Vocabulary& vocabulary) {
  const auto usual = [&](int64_t id) {
    return vocabulary.sentence_piece ? std::optional(id) : std::nullopt;
  };
  NMM_ASSIGN(vocabulary.bos, read_id(metadata, "bos", vocabulary, usual(1)));
  NMM_ASSIGN(vocabulary.eos, read_id(metadata, "eos", vocabulary, usual(2)));
  NMM_ASSIGN(vocabulary.unknown, read_id(metadata, "unknown", vocabulary, usual(0)));
  NMM_ASSIGN(vocabulary.pad, read_id(metadata, "padding", vocabulary));
  for (const std::string_view name : {"eot", "eom", "fim_pad", "fim_rep", "fim_sep"}) {
    NMM_ASSIGN(const auto id, read_id(metadata, name, vocabulary));
    if (id) vocabulary.other_ends.push_back(*id);
  }
  NMM_TRY(mark_special_tokens(metadata, vocabulary));
  add_recognized_ends(metadata.has(kKindsKey), ids, vocabulary);
  return {};
}

// Reads whether a text gets a begin and an end token. If the file does not say, the usual value for
// its kind is used.
Status read_switches(const io::GgufMetadata& metadata, Vocabulary& vocabulary) {
  const bool usual =
      vocabulary.sentence_piece || (vocabulary.pre != nullptr && vocabulary.pre->adds_bos);
  NMM_ASSIGN(const auto bos, metadata.boolean("tokenizer.ggml.add_bos_token"));
  NMM_ASSIGN(const auto eos, metadata.boolean("tokenizer.ggml.add_eos_token"));
  if (bos.value_or(false) && !vocabulary.bos)
    return metadata.missing("tokenizer.ggml.bos_token_id");
  if (eos.value_or(false) && !vocabulary.eos)
    return metadata.missing("tokenizer.ggml.eos_token_id");
  vocabulary.add_bos = bos.value_or(usual) && vocabulary.bos;
  vocabulary.add_eos = eos.value_or(false);
  NMM_ASSIGN(const auto space, metadata.boolean("tokenizer.ggml.add_space_prefix"));
  vocabulary.add_space_prefix = space.value_or(true) && vocabulary.sentence_piece;
  return {};
}

// Reads the templates. Templates other than the default have their names in their keys.
Status read_chat_templates(const io::GgufMetadata& metadata, Vocabulary& vocabulary) {
  const auto add = [&](const std::string& name, const std::string& key) -> Status {
    NMM_ASSIGN(auto text, metadata.string(key));
    if (!text) return {};
    if (!is_utf8(*text)) return metadata.wrong(key, "UTF-8");
    vocabulary.chat_templates.push_back({name, *std::move(text)});
    return {};
  };
  NMM_TRY(add("default", std::string(kTemplateKey)));
  NMM_ASSIGN(const auto names, metadata.strings("tokenizer.chat_templates"));
  for (const std::string_view name : names) {
    if (name != "default" && is_utf8(name))
      NMM_TRY(add(std::string(name), fmt::format("{}.{}", kTemplateKey, name)));
  }
  return {};
}

Status read_pre_tokenization(const io::GgufMetadata& metadata, Vocabulary& vocabulary) {
  // The value that llama.cpp uses for files that are older than the key.
  constexpr std::string_view kOtherwise = "default";
  NMM_ASSIGN(const auto name, metadata.string(kPreKey));
  vocabulary.pre = find_pre_tokenization(name.value_or(std::string(kOtherwise)));
  if (vocabulary.pre == nullptr)
    return metadata.wrong(kPreKey, fmt::format("one of {}", pre_tokenization_names()));
  return {};
}

// Reads the context length of the model, which tokenizer_config.json repeats.
Status read_context_length(const io::GgufMetadata& metadata, Vocabulary& vocabulary) {
  NMM_ASSIGN(const auto architecture, metadata.string("general.architecture"));
  if (!architecture) return {};
  NMM_ASSIGN(const auto length, metadata.integer(*architecture + ".context_length"));
  vocabulary.context_length = std::max<int64_t>(length.value_or(0), 0);
  return {};
}

}  // namespace

std::string with_spaces(std::string_view piece) {
  std::string text;
  while (!piece.empty()) {
    const bool is_space = piece.starts_with(kPieceSpace);
    text += is_space ? ' ' : piece.front();
    piece.remove_prefix(is_space ? kPieceSpace.size() : 1);
  }
  return text;
}

std::vector<int64_t> Vocabulary::end_ids() const {
  std::vector<int64_t> ids;
  if (eos) ids.push_back(*eos);
  for (const int64_t id : other_ends) {
    if (std::ranges::find(ids, id) == ids.end()) ids.push_back(id);
  }
  return ids;
}

Result<std::optional<Vocabulary>> read_vocabulary(const io::GgufMetadata& metadata) {
  NMM_ASSIGN(const auto model, metadata.string(kModelKey));
  if (!model || *model == "none" || *model == "no_vocab") return std::optional<Vocabulary>();
  Vocabulary vocabulary;
  vocabulary.sentence_piece = *model == "llama";
  if (!vocabulary.sentence_piece && *model != "gpt2")
    return metadata.wrong(kModelKey, "\"llama\" (SentencePiece BPE) or \"gpt2\" (byte-level BPE)");
  if (!vocabulary.sentence_piece) NMM_TRY(read_pre_tokenization(metadata, vocabulary));
  text::TokenTable ids;
  NMM_TRY(read_tokens(metadata, vocabulary, ids));
  NMM_TRY(read_kinds(metadata, vocabulary));
  if (vocabulary.sentence_piece) NMM_TRY(read_scores(metadata, vocabulary));
  NMM_TRY(read_merges(metadata, ids, vocabulary));
  NMM_TRY(read_special_tokens(metadata, ids, vocabulary));
  NMM_TRY(read_switches(metadata, vocabulary));
  NMM_TRY(read_chat_templates(metadata, vocabulary));
  NMM_TRY(read_context_length(metadata, vocabulary));
  return std::optional(std::move(vocabulary));
}

}  // namespace neuronmm::gguf
