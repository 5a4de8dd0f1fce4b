#include "text/tokenizer.h"

#include <algorithm>
#include <set>
#include <utility>

#include "io/folder_writer.h"
#include "io/gguf.h"
#include "io/text_file.h"
#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/nfc.h"
#include "text/tokenizer_config.h"
#include "text/tokenizer_json.h"
#include "text/utf8.h"

namespace neuronmm::text {
namespace {

// Bytes of text per token, to guess the size of the result: English has 4 to 5.
constexpr size_t kBytesPerToken = 4;

// The added tokens that are searched before (or after) normalization.
std::vector<AddedToken> select_added(const TokenizerDefinition& definition, bool normalized) {
  std::vector<AddedToken> tokens;
  std::set<std::string> contents;
  for (AddedToken token : definition.added_tokens) {
    if (token.normalized != normalized) continue;
    std::string storage;
    if (normalized && definition.nfc)
      token.content = std::string(normalize_nfc(token.content, storage));
    if (contents.insert(token.content).second) tokens.push_back(std::move(token));
  }
  return tokens;
}

}  // namespace

struct Tokenizer::State {
  explicit State(TokenizerDefinition d)
      : definition(std::move(d)),
        bpe(definition.vocabulary, definition.merges, definition.ignore_merges),
        raw_matcher(select_added(definition, false)),
        normalized_matcher(select_added(definition, true)),
        special(static_cast<size_t>(definition.vocabulary.size())) {
    for (const AddedToken& token : definition.added_tokens) {
      special[static_cast<size_t>(token.id)] = token.special;
    }
    if (!definition.prefix.empty()) bos_id = definition.prefix.front();
    if (!definition.suffix.empty()) eos_id = definition.suffix.back();
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  Status apply(TokenizerConfig config, const std::string& source);

  TokenizerDefinition definition;
  Bpe bpe;
  AddedTokenMatcher raw_matcher, normalized_matcher;
  std::vector<bool> special;  // by id
  std::optional<TokenId> bos_id, eos_id;
  std::string chat_template;
};

Status Tokenizer::State::apply(TokenizerConfig config, const std::string& source) {
  const auto set = [&](const std::optional<std::string>& token, const char* key,
                       std::optional<TokenId>& id) -> Status {
    if (!token) return {};
    id = definition.vocabulary.find(*token);
    if (!id) return fail("{}: {} {:?} is not in the vocabulary", source, key, *token);
    return {};
  };
  NMM_TRY(set(config.bos_token, "bos_token", bos_id));
  NMM_TRY(set(config.eos_token, "eos_token", eos_id));
  chat_template = std::move(config.chat_template);
  return {};
}

namespace {

// One encode(): the steps from text to ids, each handing its parts to the next.
class Encoding {
 public:
  Encoding(const TokenizerDefinition& definition, const Bpe& bpe, const AddedTokenMatcher* raw,
           const AddedTokenMatcher* normalized)
      : definition_(definition), bpe_(bpe), raw_(raw), normalized_(normalized) {}

  std::vector<TokenId> take() { return std::move(ids_); }
  void reserve(size_t count) { ids_.reserve(count); }
  void append(const std::vector<TokenId>& ids) { ids_.insert(ids_.end(), ids.begin(), ids.end()); }

  void encode(std::string_view text) {
    between_added_tokens(raw_, text, [this](std::string_view part) { encode_bytes(part); });
  }

 private:
  // on_part for the text between the added tokens, whose ids are appended in their place. Without
  // a matcher all is text.
  template <typename OnPart>
  void between_added_tokens(const AddedTokenMatcher* matcher, std::string_view text,
                            const OnPart& on_part) {
    size_t done = 0;
    while (matcher != nullptr) {
      const auto match = matcher->find(text, done);
      if (!match) break;
      on_part(text.substr(done, match->begin - done));
      ids_.push_back(match->id);
      done = match->end;
    }
    on_part(text.substr(done));
  }

  // Every stretch of UTF-8 is a text of its own; bytes between them become their one-byte tokens.
  void encode_bytes(std::string_view bytes) {
    while (!bytes.empty()) {
      const auto valid = static_cast<size_t>(valid_utf8_length(bytes));
      encode_utf8(bytes.substr(0, valid));
      bytes.remove_prefix(valid);
      if (bytes.empty()) break;
      bpe_.encode_byte(bytes.front(), ids_);
      bytes.remove_prefix(1);
    }
  }

  void encode_utf8(std::string_view text) {
    std::string storage;
    if (definition_.nfc) text = normalize_nfc(text, storage);
    between_added_tokens(normalized_, text, [this](std::string_view part) {
      definition_.pre_tokenizer.split(
          part, [this](std::string_view word) { bpe_.encode(word, workspace_, ids_); });
    });
  }

  const TokenizerDefinition& definition_;
  const Bpe& bpe_;
  const AddedTokenMatcher* raw_;
  const AddedTokenMatcher* normalized_;
  Bpe::Workspace workspace_;
  std::vector<TokenId> ids_;
};

}  // namespace

Tokenizer::Tokenizer() = default;
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Result<Tokenizer> Tokenizer::parse(std::string_view tokenizer_json, const std::string& source) {
  NMM_ASSIGN(TokenizerDefinition definition, parse_tokenizer_json(tokenizer_json, source));
  Tokenizer tokenizer;
  tokenizer.state_ = std::make_unique<State>(std::move(definition));
  return tokenizer;
}

Result<Tokenizer> Tokenizer::load(const std::filesystem::path& folder) {
  const auto path = folder / "tokenizer.json";
  std::error_code ignored;
  NMM_TRY(io::refuse_gguf(folder, "a model folder (config.json, *.safetensors, tokenizer.json)"));
  if (!std::filesystem::is_directory(folder, ignored))
    return fail("{}: expected a model folder, found none", folder.string());
  if (!std::filesystem::exists(path, ignored))
    return fail("{}: expected a tokenizer.json in this folder, found none", folder.string());
  NMM_ASSIGN(const std::string text, io::read_text_file(path));
  NMM_ASSIGN(Tokenizer tokenizer, parse(text, path.string()));
  NMM_ASSIGN(TokenizerConfig config, load_tokenizer_config(folder));
  NMM_TRY(tokenizer.state_->apply(std::move(config), (folder / "tokenizer_config.json").string()));
  return tokenizer;
}

Result<Tokenizer> Tokenizer::load_vocab_and_merges(const std::filesystem::path& vocab_json,
                                                   const std::filesystem::path& merges_txt) {
  NMM_ASSIGN(const std::string vocab, io::read_text_file(vocab_json));
  NMM_ASSIGN(const std::string merges, io::read_text_file(merges_txt));
  NMM_ASSIGN(TokenizerDefinition definition,
             parse_gpt2_files(vocab, vocab_json.string(), merges, merges_txt.string()));
  Tokenizer tokenizer;
  tokenizer.state_ = std::make_unique<State>(std::move(definition));
  return tokenizer;
}

std::vector<TokenId> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  const bool parse = options.parse_added_tokens;
  Encoding encoding(state_->definition, state_->bpe, parse ? &state_->raw_matcher : nullptr,
                    parse ? &state_->normalized_matcher : nullptr);
  encoding.reserve(text.size() / kBytesPerToken + state_->definition.prefix.size() +
                   state_->definition.suffix.size());
  if (options.add_special_tokens) encoding.append(state_->definition.prefix);
  encoding.encode(text);
  if (options.add_special_tokens) encoding.append(state_->definition.suffix);
  return encoding.take();
}

std::string Tokenizer::decode(std::span<const TokenId> ids, bool skip_special_tokens) const {
  std::string text;
  text.reserve(ids.size() * kBytesPerToken);
  for (const TokenId id : ids) {
    if (!skip_special_tokens || !is_special(id)) text += state_->definition.vocabulary.bytes(id);
  }
  return text;
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
const std::string& Tokenizer::chat_template() const { return state_->chat_template; }

}  // namespace neuronmm::text
