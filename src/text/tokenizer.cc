#include "text/tokenizer.h"

#include <algorithm>
#include <set>
#include <utility>

#include "io/folder_writer.h"
#include "io/gguf.h"
#include "io/text_file.h"
#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/match_budget.h"
#include "text/nfc.h"
#include "text/tokenizer_config.h"
#include "text/tokenizer_json.h"
#include "text/utf8.h"

namespace neuronmm::text {
namespace {

// Bytes of text per token, to guess the size of the result: English has 4 to 5.
constexpr size_t kBytesPerToken = 4;

// The added tokens that are searched before normalization, or those that are searched after it. The
// latter are normalized themselves, or they would never be found.
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

// All of a tokenizer that does not change after loading, in one place that does not move: the
// matchers and Bpe hold references into the definition.
struct Tokenizer::State {
  explicit State(TokenizerDefinition d)
      : definition(std::move(d)),
        bpe(definition.vocabulary, definition.merges, definition.ignore_merges),
        raw_matcher(select_added(definition, false)),
        normalized_matcher(select_added(definition, true)),
        special(static_cast<size_t>(definition.vocabulary.size())) {
    // By id, because decoding asks for every token.
    for (const AddedToken& token : definition.added_tokens) {
      special[static_cast<size_t>(token.id)] = token.special;
    }
    if (!definition.prefix.empty()) bos_id = definition.prefix.front();
    if (!definition.suffix.empty()) eos_id = definition.suffix.back();
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  Status apply(TokenizerConfig named, const std::string& source);

  TokenizerDefinition definition;
  Bpe bpe;
  AddedTokenMatcher raw_matcher, normalized_matcher;
  std::vector<bool> special;  // by id
  std::optional<TokenId> bos_id, eos_id;
  TokenizerConfig config;
};

// tokenizer_config.json names the special tokens by their text; ids come from the vocabulary.
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

namespace {

using Ranges = std::span<const ByteRange>;

// What of the ranges lies in [begin, end) of the text, counted from there.
std::vector<ByteRange> ranges_within(Ranges ranges, size_t begin, size_t end) {
  std::vector<ByteRange> within;
  for (const ByteRange& range : ranges) {
    const size_t from = std::max(range.begin, begin), to = std::min(range.end, end);
    if (from < to) within.push_back({from - begin, to - begin});
  }
  return within;
}

// Where the ranges of a text lie in its normal form. A character that was composed across a border
// belongs to the range.
std::vector<ByteRange> normalized_ranges(std::string_view text, std::string_view normal,
                                         Ranges ranges) {
  std::vector<ByteRange> moved;
  std::string storage;
  for (const ByteRange& range : ranges) {
    const std::string_view before = normalize_nfc(text.substr(0, range.begin), storage);
    const auto same_before =
        std::mismatch(before.begin(), before.end(), normal.begin(), normal.end());
    const auto begin = static_cast<size_t>(same_before.first - before.begin());
    const std::string_view after = normalize_nfc(text.substr(range.end), storage);
    const auto same_after =
        std::mismatch(after.rbegin(), after.rend(), normal.rbegin(), normal.rend());
    const size_t end = normal.size() - static_cast<size_t>(same_after.first - after.rbegin());
    moved.push_back({begin, std::max(begin, end)});
  }
  return moved;
}

// One encode(): the steps from text to ids, each handing its parts to the next.
class Encoding {
 public:
  // Without matchers nothing in the text is an added token.
  Encoding(const TokenizerDefinition& definition, const Bpe& bpe, const AddedTokenMatcher* raw,
           const AddedTokenMatcher* normalized, std::string_view text)
      : definition_(definition),
        bpe_(bpe),
        raw_(raw),
        normalized_(normalized),
        text_(text),
        budget_(text.size()) {
    ids_.reserve(text.size() / kBytesPerToken + definition.prefix.size() +
                 definition.suffix.size());
  }

  void append(const std::vector<TokenId>& ids) { ids_.insert(ids_.end(), ids.begin(), ids.end()); }

  void encode(Ranges literal) {
    between_added_tokens(raw_, text_, literal, [&](size_t begin, size_t end) {
      encode_bytes(text_.substr(begin, end - begin), ranges_within(literal, begin, end));
    });
  }

  Result<std::vector<TokenId>> take() {
    if (budget_.spent())
      return fail(
          "tokenizer: its regular expressions need more than {} steps for this text of {} bytes; "
          "published tokenizers need a few for each byte",
          budget_.limit(), text_.size());
    return std::move(ids_);
  }

 private:
  // on_part(begin, end) for the text between the added tokens, whose ids are appended in their
  // place.
  template <typename OnPart>
  void between_added_tokens(const AddedTokenMatcher* matcher, std::string_view text, Ranges literal,
                            const OnPart& on_part) {
    size_t done = 0;
    if (matcher != nullptr) {
      for (const AddedTokenMatcher::Match& match : matcher->find_all(text, literal)) {
        on_part(done, match.begin);
        ids_.push_back(match.id);
        done = match.end;
      }
    }
    on_part(done, text.size());
  }

  // Every stretch of UTF-8 is a text of its own; bytes between them become their one-byte tokens.
  void encode_bytes(std::string_view bytes, const std::vector<ByteRange>& literal) {
    for (size_t begin = 0; begin < bytes.size();) {
      const auto valid = static_cast<size_t>(valid_utf8_length(bytes.substr(begin)));
      const size_t end = begin + valid;
      encode_utf8(bytes.substr(begin, valid), ranges_within(literal, begin, end));
      if (end == bytes.size()) break;
      bpe_.encode_byte(bytes[end], ids_);
      begin = end + 1;
    }
  }

  void encode_utf8(std::string_view text, std::vector<ByteRange> literal) {
    std::string storage;
    if (definition_.nfc) {
      const std::string_view normal = normalize_nfc(text, storage);
      if (normal != text) literal = normalized_ranges(text, normal, literal);
      text = normal;
    }
    between_added_tokens(normalized_, text, literal, [&](size_t begin, size_t end) {
      definition_.pre_tokenizer.split(
          text.substr(begin, end - begin), budget_,
          [this](std::string_view word) { bpe_.encode(word, workspace_, ids_); });
    });
  }

  const TokenizerDefinition& definition_;
  const Bpe& bpe_;
  const AddedTokenMatcher* raw_;
  const AddedTokenMatcher* normalized_;
  const std::string_view text_;
  MatchBudget budget_;
  Bpe::Workspace workspace_;
  std::vector<TokenId> ids_;
};

}  // namespace

// Here, where State is complete.
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

// The folder is named in the message: a missing tokenizer.json often means a missing folder.
Result<Tokenizer> Tokenizer::load(const std::filesystem::path& folder) {
  const auto path = folder / "tokenizer.json";
  std::error_code ignored;
  NMM_TRY(io::refuse_gguf(folder, "a model folder (config.json, *.safetensors, tokenizer.json)"));
  if (!std::filesystem::is_directory(folder, ignored))
    return fail("{}: expected a model folder, found none", folder.string());
  if (!std::filesystem::exists(path, ignored))
    return fail("{}: expected a tokenizer.json in this folder, found none", folder.string());
  NMM_ASSIGN(const std::string text, io::read_text_file(path, io::kMaxTokenizerBytes));
  NMM_ASSIGN(Tokenizer tokenizer, parse(text, path.string()));
  NMM_ASSIGN(TokenizerConfig config, load_tokenizer_config(folder));
  NMM_TRY(tokenizer.state_->apply(std::move(config), (folder / "tokenizer_config.json").string()));
  return tokenizer;
}

Result<Tokenizer> Tokenizer::load_vocab_and_merges(const std::filesystem::path& vocab_json,
                                                   const std::filesystem::path& merges_txt) {
  NMM_ASSIGN(const std::string vocab, io::read_text_file(vocab_json, io::kMaxTokenizerBytes));
  NMM_ASSIGN(const std::string merges, io::read_text_file(merges_txt, io::kMaxTokenizerBytes));
  NMM_ASSIGN(TokenizerDefinition definition,
             parse_gpt2_files(vocab, vocab_json.string(), merges, merges_txt.string()));
  Tokenizer tokenizer;
  tokenizer.state_ = std::make_unique<State>(std::move(definition));
  return tokenizer;
}

Result<std::vector<TokenId>> Tokenizer::encode(std::string_view text,
                                               const EncodeOptions& options) const {
  const bool parse = options.parse_added_tokens;
  // Text of users must not become control tokens: without parsing, "<|eot_id|>" is encoded as the
  // characters that it is written with.
  Encoding encoding(state_->definition, state_->bpe, parse ? &state_->raw_matcher : nullptr,
                    parse ? &state_->normalized_matcher : nullptr, text);
  if (options.add_special_tokens) encoding.append(state_->definition.prefix);
  encoding.encode(options.literal);
  if (options.add_special_tokens) encoding.append(state_->definition.suffix);
  return encoding.take();
}

// Bytes and not characters: a character may be spread over several tokens, and only the whole text
// is UTF-8.
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
const TokenizerConfig& Tokenizer::config() const { return state_->config; }

}  // namespace neuronmm::text
