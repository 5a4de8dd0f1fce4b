#include "gguf_out/vocabulary_out.h"

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "gguf/piece_merges.h"
#include "gguf/vocabulary.h"
#include "gguf_out/tokenizer_kind.h"
#include "io/generation_config.h"
#include "io/text_file.h"
#include "model/end_tokens.h"
#include "model/generate.h"
#include "text/tokenizer/bpe_entries.h"
#include "text/tokenizer/byte_token.h"
#include "text/tokenizer/tokenizer_config.h"
#include "text/tokenizer/tokenizer_json.h"

namespace neuronmm::gguf_out {
namespace {

namespace fs = std::filesystem;
using gguf::TokenKind;
using text::TokenId;

// Everything that the tokenizer's files say.
struct TokenizerFiles {
  std::string source;
  TokenizerKind kind;
  text::TokenizerDefinition definition;
  text::TokenizerConfig config;
};

Result<TokenizerFiles> read_files(const fs::path& folder) {
  TokenizerFiles files;
  const fs::path path = folder / "tokenizer.json";
  files.source = path.string();
  NMM_ASSIGN(const std::string content, io::read_text_file(path, io::kMaxTokenizerBytes));
  {
    text::BpeEntries entries;
    NMM_ASSIGN(const nlohmann::json root, text::parse_with_entries(content, files.source, entries));
    NMM_ASSIGN(files.definition, text::parse_tokenizer_json(content, files.source));
    NMM_ASSIGN(files.kind, tokenizer_kind(root, files.source));
  }
  NMM_ASSIGN(files.config, text::load_tokenizer_config(folder));
  NMM_TRY(text::add_tokens_of_config(files.config, files.source, files.definition));
  return files;
}

// As in llama.cpp's converter (conversion/base.py): tokens that look like special ones are special,
// although some files do not mark them.
bool looks_special(std::string_view token) {
  const bool bars = token.starts_with("<|") && token.ends_with("|>");
  const bool wide_bars = token.starts_with("<｜") && token.ends_with("｜>");
  return bars || wide_bars || token == "<pad>" || token == "<mask>" || token == "<2mass>" ||
         token == "[@BOS@]" || (token.starts_with("<unused") && token.ends_with(">"));
}

// Makes the vocabulary as a reader of the file sees it.
class VocabularyMaker {
 public:
  VocabularyMaker(const TokenizerFiles& files, int64_t rows)
      : files_(files), definition_(files.definition), rows_(rows) {
    vocabulary_.sentence_piece = files.kind.pre == nullptr;
  }

  Result<gguf::Vocabulary> make() {
    add_tokens();
    mark_added_tokens();
    NMM_TRY(add_merges());
    if (vocabulary_.sentence_piece) add_scores();
    return std::move(vocabulary_);
  }

 private:
  // Ids without a token are filled with unused ones, because the file needs one for each row.
  void add_tokens() {
    for (int64_t id = 0; id < rows_; ++id) {
      const bool known = definition_.vocabulary.has(id);
      vocabulary_.tokens.push_back(vocabulary_.names.store(
          known ? std::string(definition_.vocabulary.text(id)) : fmt::format("[PAD{}]", id)));
      vocabulary_.kinds.push_back(known ? TokenKind::kNormal : TokenKind::kUnused);
      const std::string_view token = vocabulary_.tokens.back();
      if (vocabulary_.sentence_piece && text::byte_of_token(token))
        vocabulary_.kinds.back() = TokenKind::kByte;
    }
    const auto unknown = definition_.model.alphabet.unknown;
    if (vocabulary_.sentence_piece && unknown && *unknown < rows_)
      vocabulary_.kinds[static_cast<size_t>(*unknown)] = TokenKind::kUnknown;
  }

  void mark_added_tokens() {
    for (const text::AddedToken& token : definition_.added_tokens) {
      if (token.id >= rows_) continue;
      const auto id = static_cast<size_t>(token.id);
      if (vocabulary_.kinds[id] == TokenKind::kUnknown) continue;
      const bool special = token.special || looks_special(token.content);
      vocabulary_.kinds[id] = special ? TokenKind::kControl : TokenKind::kUserDefined;
      if (special || !vocabulary_.sentence_piece) continue;
      // llama.cpp searches user-defined tokens in the text itself, before spaces are replaced.
      vocabulary_.tokens[id] = vocabulary_.names.store(gguf::with_spaces(token.content));
    }
  }

  // Returns whether the token is found before merges run, so that no merge makes it.
  bool is_searched(text::TokenId id) const {
    return vocabulary_.sentence_piece &&
           vocabulary_.kinds[static_cast<size_t>(id)] == TokenKind::kUserDefined;
  }

  // A part with a space would read as two parts.
  Status add_merges() {
    for (const auto& [left, right, merged] : definition_.model.merges) {
      if (std::max({left, right, merged}) >= rows_) continue;
      if (is_searched(left) || is_searched(right) || is_searched(merged)) continue;
      const std::string_view parts[] = {vocabulary_.tokens[static_cast<size_t>(left)],
                                        vocabulary_.tokens[static_cast<size_t>(right)]};
      for (const std::string_view part : parts) {
        if (part.find(' ', 1) == std::string_view::npos) continue;
        return fail("{}: merges: {:?} has a space, which llama.cpp cannot read", files_.source,
                    part);
      }
      vocabulary_.merges.push_back({left, right, merged});
    }
    return {};
  }

  // SentencePiece joins the two neighbours whose piece has the best score. The score of a piece is
  // minus the lowest rank of the merges that make it. Pieces that no merge makes are the worst.
  void add_scores() {
    std::vector<double>& scores = vocabulary_.scores;
    const auto worst = -static_cast<double>(definition_.model.merges.size()) - 1.0;
    scores.assign(vocabulary_.tokens.size(), worst);
    for (int64_t rank = 0; const auto& rule : definition_.model.merges) {
      const auto score = -static_cast<double>(rank++);
      if (rule.merged < rows_ && scores[static_cast<size_t>(rule.merged)] == worst)
        scores[static_cast<size_t>(rule.merged)] = score;
    }
    for (size_t id = 0; id < scores.size(); ++id) {
      const TokenKind kind = vocabulary_.kinds[id];
      // Single characters and tokens that are not made of pieces have no need of a score.
      if (kind != TokenKind::kNormal && kind != TokenKind::kUserDefined) scores[id] = 0.0;
    }
  }

  const TokenizerFiles& files_;
  const text::TokenizerDefinition& definition_;
  const int64_t rows_;
  gguf::Vocabulary vocabulary_;
};

// Writes merges of SentencePiece only if the scores do not give the same ones.
bool needs_merges(const gguf::Vocabulary& vocabulary) {
  return !vocabulary.sentence_piece || gguf::piece_merges(vocabulary) != vocabulary.merges;
}

void write_tokens(const TokenizerFiles& files, const gguf::Vocabulary& vocabulary, Pairs& pairs) {
  pairs.text("tokenizer.ggml.model", vocabulary.sentence_piece ? "llama" : "gpt2");
  pairs.text("tokenizer.ggml.pre",
             files.kind.pre == nullptr ? "default" : files.kind.pre->names.front());
  pairs.texts("tokenizer.ggml.tokens",
              std::vector<std::string>(vocabulary.tokens.begin(), vocabulary.tokens.end()));
  std::vector<int64_t> kinds;
  for (const TokenKind kind : vocabulary.kinds) kinds.push_back(static_cast<int64_t>(kind));
  pairs.i32s("tokenizer.ggml.token_type", kinds);
  if (vocabulary.sentence_piece)
    pairs.f32s("tokenizer.ggml.scores",
               std::vector<float>(vocabulary.scores.begin(), vocabulary.scores.end()));
  if (needs_merges(vocabulary)) {
    std::vector<std::string> merges;
    const auto text = [&](int32_t id) { return vocabulary.tokens[static_cast<size_t>(id)]; };
    for (const auto& merge : vocabulary.merges)
      merges.push_back(fmt::format("{} {}", text(merge.left), text(merge.right)));
    pairs.texts("tokenizer.ggml.merges", merges);
  }
}

// The special tokens by the names of tokenizer_config.json, or else by the ids of config.json.
class SpecialTokens {
 public:
  SpecialTokens(const TokenizerFiles& files, const fs::path& folder, const io::ModelConfig& config)
      : files_(files), folder_(folder), config_(config) {}

  Status write(Pairs& pairs, std::vector<std::string>& notes) const {
    NMM_TRY(write_added(pairs));
    std::optional<int64_t> bos = id_of("bos_token");
    if (!bos) bos = config_.bos_token_id;
    add(pairs, "bos", bos);
    add(pairs, "padding", id_of("pad_token"));
    const auto unknown = files_.definition.model.alphabet.unknown;
    add(pairs, "unknown", unknown ? std::optional<int64_t>(*unknown) : id_of("unk_token"));
    return write_ends(pairs, notes);
  }

 private:
  std::optional<int64_t> id_of(std::string_view name) const {
    const auto token = files_.config.special_token(name);
    if (!token) return std::nullopt;
    const auto id = files_.definition.vocabulary.find(*token);
    return id && *id < config_.vocab_size ? std::optional<int64_t>(*id) : std::nullopt;
  }

  void add(Pairs& pairs, std::string_view name, std::optional<int64_t> id) const {
    if (id && *id >= 0 && *id < config_.vocab_size)
      pairs.u32(fmt::format("tokenizer.ggml.{}_token_id", name), *id);
  }

  // The tokens that the post-processor puts around a text: at most a begin and an end token.
  Status write_added(Pairs& pairs) const {
    const std::vector<TokenId>&prefix = files_.definition.prefix,
          &suffix = files_.definition.suffix;
    if (prefix.size() > 1 || suffix.size() > 1)
      return fail(
          "{}: post_processor: expected at most one token before a text and one behind it, "
          "found {} and {}",
          files_.source, prefix.size(), suffix.size());
    pairs.boolean("tokenizer.ggml.add_bos_token", !prefix.empty());
    pairs.boolean("tokenizer.ggml.add_eos_token", !suffix.empty());
    if (files_.kind.pre == nullptr)
      pairs.boolean("tokenizer.ggml.add_space_prefix", files_.kind.add_space_prefix);
    if (!prefix.empty()) add(pairs, "bos", prefix.front());
    if (!suffix.empty()) add(pairs, "eos", suffix.front());
    return {};
  }

  // The file has one end token. Programs know others by their texts, and the file can name two
  // more.
  Status write_ends(Pairs& pairs, std::vector<std::string>& notes) const {
    NMM_ASSIGN(const auto generation, io::GenerationConfig::load(folder_));
    std::vector<int64_t> ends;
    for (const TokenId id : model::stop_tokens_of(generation, config_)) ends.push_back(id);
    std::optional<int64_t> first = id_of("eos_token");
    if (!first && !ends.empty()) first = ends.front();
    add(pairs, "eos", first);
    const auto known =
        model::recognized_end_tokens([&](std::string_view token) -> std::optional<int64_t> {
          const auto id = files_.definition.vocabulary.find(token);
          return id ? std::optional<int64_t>(*id) : std::nullopt;
        });
    std::erase_if(ends, [&](int64_t id) {
      return id == first || std::ranges::find(known, id) != known.end();
    });
    for (size_t i = 0; i < ends.size() && i < 2; ++i) add(pairs, i == 0 ? "eot" : "eom", ends[i]);
    if (ends.size() > 2)
      notes.push_back(fmt::format("of the tokens that end an answer, the file cannot name {}",
                                  fmt::join(ends.begin() + 2, ends.end(), ", ")));
    return {};
  }

  const TokenizerFiles& files_;
  const fs::path& folder_;
  const io::ModelConfig& config_;
};

void write_chat_templates(const text::TokenizerConfig& config, Pairs& pairs) {
  constexpr std::string_view kDefault = "default", kKey = "tokenizer.chat_template";
  std::vector<std::string> names;
  for (const auto& [name, text] : config.chat_templates) {
    if (name == kDefault) {
      pairs.text(kKey, text);
    } else {
      names.push_back(name);
      pairs.text(fmt::format("{}.{}", kKey, name), text);
    }
  }
  if (!names.empty()) pairs.texts("tokenizer.chat_templates", names);
}

// Says which added tokens swallow white space, which the file cannot say.
void add_strip_note(const text::TokenizerDefinition& definition, std::vector<std::string>& notes) {
  std::vector<std::string> tokens;
  for (const text::AddedToken& token : definition.added_tokens) {
    if (token.lstrip || token.rstrip || token.single_word) tokens.push_back(token.content);
  }
  if (tokens.empty()) return;
  notes.push_back(fmt::format(
      "the file cannot say that {} {} white space around {}, or only match{} whole words",
      tokens.size() == 1 ? tokens.front()
                         : fmt::format("{} tokens such as {}", tokens.size(), tokens.front()),
      tokens.size() == 1 ? "takes" : "take", tokens.size() == 1 ? "it" : "them",
      tokens.size() == 1 ? "es" : ""));
}

}  // namespace

Status add_vocabulary(const fs::path& folder, const io::ModelConfig& config, Pairs& pairs,
                      std::vector<std::string>& notes) {
  NMM_ASSIGN(const bool there, io::is_there(folder / "tokenizer.json"));
  if (!there) {
    pairs.text("tokenizer.ggml.model", "no_vocab");
    notes.push_back(
        fmt::format("{}: has no tokenizer.json: the file has no vocabulary, so programs "
                    "cannot read texts with it",
                    folder.string()));
    return {};
  }
  NMM_ASSIGN(const TokenizerFiles files, read_files(folder));
  NMM_ASSIGN(const gguf::Vocabulary vocabulary, VocabularyMaker(files, config.vocab_size).make());
  write_tokens(files, vocabulary, pairs);
  NMM_TRY(SpecialTokens(files, folder, config).write(pairs, notes));
  write_chat_templates(files.config, pairs);
  if (!files.kind.note.empty()) notes.push_back(files.kind.note);
  add_strip_note(files.definition, notes);
  return {};
}

}  // namespace neuronmm::gguf_out
