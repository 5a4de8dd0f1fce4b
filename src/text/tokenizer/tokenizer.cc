#include "text/tokenizer/tokenizer.h"

#include <set>
#include <utility>

#include "io/folder_writer.h"
#include "io/gguf.h"
#include "io/mistaken_files.h"
#include "io/mounted_model.h"
#include "io/text_file.h"
#include "text/tokenizer/byte_level.h"
#include "text/tokenizer/byte_token.h"
#include "text/tokenizer/encoding.h"
#include "text/tokenizer/spelled_bytes.h"
#include "text/tokenizer/tokenizer_config.h"
#include "text/tokenizer/tokenizer_json.h"

namespace neuronmm::text {
namespace {

// Returns the text that is searched for an added token after normalization.
std::string normalized_content(const Normalizer& normalizer, const AddedToken& token) {
  std::string storage;
  // A file may have many added tokens, so each gets a small part of the usual budget.
  MatchBudget budget(token.content.size(), MatchBudget::kTenthOfASecond / 1000);
  return std::string(normalizer.apply(token.content, storage, budget));
}

// Returns the added tokens that are searched before normalization, or those that are searched after
// it.
std::vector<AddedToken> tokens_to_search(const TokenizerDefinition& definition, bool normalized) {
  std::vector<AddedToken> tokens;
  std::set<std::string> contents;
  for (AddedToken token : definition.added_tokens) {
    if (token.normalized != normalized) continue;
    if (normalized) token.content = normalized_content(definition.normalizer, token);
    const bool is_new = !token.content.empty() && contents.insert(token.content).second;
    if (is_new) tokens.push_back(std::move(token));
  }
  return tokens;
}

// Reads the tokenizer.json of a folder or of a mounted model. Some messages name the folder,
// because a missing tokenizer.json often means a missing folder.
Result<TokenizerDefinition> definition_in(const std::filesystem::path& folder) {
  const auto path = folder / "tokenizer.json";
  NMM_TRY(io::require_folder(folder));
  NMM_TRY(io::refuse_missing(path));
  NMM_ASSIGN(const bool found, io::is_there(path));
  if (!found)
    return fail("{}: expected a tokenizer.json in this folder, found none", folder.string());
  NMM_ASSIGN(const auto model, io::mounted_model(folder));
  if (model != nullptr) {
    NMM_ASSIGN(const io::MountedTokenizer tokenizer, model->tokenizer());
    return parse_mounted_tokenizer(tokenizer, path.string());
  }
  NMM_ASSIGN(const std::string text, io::read_text_file(path, io::kMaxTokenizerBytes));
  auto parsed = parse_tokenizer_json(text, path.string());
  if (!parsed.ok()) return io::explain_parse_error(parsed.error(), text, path.string());
  return parsed;
}

}  // namespace

// Everything that belongs to a loaded tokenizer. The object never moves, because the matchers and
// Bpe hold references into the definition.
struct Tokenizer::State {
  explicit State(TokenizerDefinition d)
      : definition(std::move(d)),
        spelled(spells_bytes(definition) ? SpelledBytes(definition.vocabulary) : SpelledBytes()),
        bpe(definition.vocabulary, definition.model, spelled),
        raw_matcher(tokens_to_search(definition, false)),
        normalized_matcher(tokens_to_search(definition, true)) {
    // Bpe has tables of the merges.
    definition.model.merges = {};
    index_pieces();
    if (!definition.prefix.empty()) bos_id = definition.prefix.front();
    if (!definition.suffix.empty()) eos_id = definition.suffix.back();
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  void index_pieces();
  Status apply(TokenizerConfig named, const std::string& source);

  static bool spells_bytes(const TokenizerDefinition& definition) {
    return definition.model.alphabet.bytes || definition.decodes_bytes;
  }

  TokenizerDefinition definition;
  SpelledBytes spelled;
  Bpe bpe;
  AddedTokenMatcher raw_matcher, normalized_matcher;
  // Tables by id, because decoding looks up every token. They hold the text that the decoder gets,
  // whether a token is special, and whether it is left out together with the special tokens.
  TextArena texts;
  std::vector<std::string_view> pieces;
  std::vector<bool> special, skipped;
  std::optional<TokenId> bos_id, eos_id;
  TokenizerConfig config;
};

void Tokenizer::State::index_pieces() {
  const auto size = static_cast<size_t>(definition.vocabulary.size());
  pieces.resize(size);
  special.resize(size);
  skipped.resize(size);
  for (size_t id = 0; id < size; ++id)
    pieces[id] = definition.vocabulary.text(static_cast<int64_t>(id));
  std::set<std::string_view> special_contents;
  for (const AddedToken& token : definition.added_tokens) {
    const auto id = static_cast<size_t>(token.id);
    special[id] = token.special;
    if (token.special) special_contents.insert(pieces[id]);
  }
  // A token that is searched in normalized text is decoded to its normalized form. The tokenizers
  // library leaves out a token if its decoded text is the text of a special token. A special token
  // whose normalized form differs is therefore kept.
  for (const AddedToken& token : definition.added_tokens) {
    const auto id = static_cast<size_t>(token.id);
    if (token.normalized)
      pieces[id] = texts.store(normalized_content(definition.normalizer, token));
    skipped[id] = special_contents.contains(pieces[id]);
  }
  if (!definition.decodes_bytes) return;
  for (size_t id = 0; id < size; ++id) {
    std::string_view& piece = pieces[id];
    if (piece.data() == definition.vocabulary.text(static_cast<int64_t>(id)).data()) {
      const std::string_view bytes = spelled.of(static_cast<TokenId>(id));
      if (bytes.data() != nullptr) piece = bytes;
    } else if (const auto bytes = bytes_of_spelling(piece)) {
      piece = texts.store(*bytes);
    }
  }
}

// tokenizer_config.json names the special tokens by their text; the ids come from the vocabulary.
Status Tokenizer::State::apply(TokenizerConfig named, const std::string& source) {
  const auto set = [&](const std::optional<std::string>& token, const char* key,
                       std::optional<TokenId>& id) -> Status {
    if (!token) return {};
    id = definition.vocabulary.find(*token);
    if (!id) return fail("{}: {} {:?} is not in the vocabulary", source, key, *token);
    return {};
  };
  NMM_TRY(set(named.special_token("bos_token"), "bos_token", bos_id));
  NMM_TRY(set(named.special_token("eos_token"), "eos_token", eos_id));
  config = std::move(named);
  return {};
}

// The special members are defined here, where State is complete.
Tokenizer::Tokenizer(std::unique_ptr<State> state) : state_(std::move(state)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Result<Tokenizer> Tokenizer::parse(std::string_view tokenizer_json, const std::string& source) {
  NMM_ASSIGN(TokenizerDefinition definition, parse_tokenizer_json(tokenizer_json, source));
  return Tokenizer(std::make_unique<State>(std::move(definition)));
}

Result<Tokenizer> Tokenizer::load(const std::filesystem::path& folder) {
  NMM_ASSIGN(TokenizerDefinition definition, definition_in(folder));
  NMM_ASSIGN(TokenizerConfig config, load_tokenizer_config(folder));
  const std::string config_source = (folder / "tokenizer_config.json").string();
  NMM_TRY(add_tokens_of_config(config, config_source, definition));
  Tokenizer tokenizer(std::make_unique<State>(std::move(definition)));
  NMM_TRY(tokenizer.state_->apply(std::move(config), config_source));
  return tokenizer;
}

Result<std::vector<TokenId>> Tokenizer::encode(std::string_view text,
                                               const EncodeOptions& options) const {
  const bool parse = options.parse_added_tokens;
  // Text of users must not become control tokens. Without parsing, "<|eot_id|>" is encoded as the
  // characters that it is written with.
  Encoding::Matchers matchers;
  if (parse) matchers = {&state_->raw_matcher, &state_->normalized_matcher};
  Encoding encoding(state_->definition, state_->bpe, matchers, text);
  if (options.add_special_tokens) encoding.append(state_->definition.prefix);
  encoding.encode(options.literal);
  if (options.add_special_tokens) encoding.append(state_->definition.suffix);
  return encoding.take();
}

std::optional<std::string_view> Tokenizer::piece(TokenId id, bool skip_special_tokens) const {
  if (!state_->definition.vocabulary.has(id)) return {};
  if (skip_special_tokens && state_->skipped[static_cast<size_t>(id)]) return {};
  return state_->pieces[static_cast<size_t>(id)];
}

const Decoder* Tokenizer::decoder() const {
  return state_->definition.decodes_bytes ? nullptr : &state_->definition.decoder;
}

// With a byte-level decoder, a character may be spread over several tokens, and only the whole text
// is UTF-8.
std::string Tokenizer::decode(std::span<const TokenId> ids, bool skip_special_tokens) const {
  const auto for_each_piece = [&](const auto& on_piece) {
    for (const TokenId id : ids) {
      if (const auto text = piece(id, skip_special_tokens)) on_piece(*text);
    }
  };
  if (const Decoder* decoder = this->decoder()) {
    Decoder::Run run(*decoder, false);
    for_each_piece([&](std::string_view text) { run.push(text); });
    run.finish();
    return std::move(run.out());
  }
  std::string bytes;
  bytes.reserve(ids.size() * kBytesPerToken);
  for_each_piece([&](std::string_view text) { bytes += text; });
  return bytes;
}

std::string Tokenizer::decode_inside(TokenId id) const {
  const TokenId ids[] = {id, id};
  const std::string once = decode(std::span(ids, 1)), twice = decode(ids);
  return twice.starts_with(once) ? twice.substr(once.size()) : once;
}

std::string Tokenizer::token_bytes(TokenId id) const {
  const std::string_view text = state_->definition.vocabulary.text(id);
  std::string decoded = decode_inside(id);
  const auto byte = byte_of_token(text);
  return byte && decoded != text ? std::string(1, *byte) : decoded;
}

int64_t Tokenizer::vocab_size() const { return state_->definition.vocabulary.size(); }

std::optional<TokenId> Tokenizer::token_to_id(std::string_view token) const {
  return state_->definition.vocabulary.find(token);
}

bool Tokenizer::is_special(TokenId id) const {
  return state_->definition.vocabulary.has(id) && state_->special[static_cast<size_t>(id)];
}

std::optional<TokenId> Tokenizer::bos_id() const { return state_->bos_id; }
std::optional<TokenId> Tokenizer::eos_id() const { return state_->eos_id; }
const TokenizerConfig& Tokenizer::config() const { return state_->config; }

}  // namespace neuronmm::text
