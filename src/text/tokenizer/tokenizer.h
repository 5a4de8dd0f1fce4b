#pragma once
// Turns text into token ids and back, from a Hugging Face tokenizer.json with a BPE model. The
// model may be byte-level (GPT-2, Llama-3, Qwen) or of SentencePiece's kind (Llama-2, Mistral). The
// stages are added tokens, normalizer, pre-tokenizer, merges by rank, post-processor and decoder.
// Ids and text are those of the tokenizers library. A file that asks for something else is an error
// that names it.

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/tokenizer/decoder.h"
#include "text/tokenizer/token_id.h"
#include "text/tokenizer/tokenizer_config.h"
#include "text/unicode/byte_range.h"

namespace neuronmm::text {

// Options of Tokenizer::encode().
struct EncodeOptions {
  // Adds what the post-processor says: a BOS token for Llama-3, nothing for Qwen.
  bool add_special_tokens = true;
  // Encodes "<|eot_id|>" in the text as the added token. If false, it is encoded as ordinary text.
  bool parse_added_tokens = true;
  // Ranges of the text that are ordinary text although added tokens are parsed: what a user typed
  // inside a chat template. The ranges are sorted and do not overlap. An added token with a byte in
  // a range does not match.
  std::span<const ByteRange> literal = {};
};

// A loaded tokenizer. All const functions are thread-safe.
class Tokenizer {
 public:
  // Loads tokenizer.json of a model folder and, if present, tokenizer_config.json and
  // special_tokens_map.json. The latter two set the begin and end of text, the added tokens and the
  // chat template. Some of their fields are ignored, as in transformers (version 5):
  //   add_bos_token, add_eos_token   the post-processor says what is added
  //   clean_up_tokenization_spaces   removes spaces from the text of a BPE model
  // The sections "truncation" and "padding" of tokenizer.json are not applied, either.
  static Result<Tokenizer> load(const std::filesystem::path& folder);
  // Parses the text of a tokenizer.json. Error messages call the text `source`.
  static Result<Tokenizer> parse(std::string_view tokenizer_json, const std::string& source);
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  // Returns the ids of a text, which may be any bytes. Bytes that are not UTF-8 are encoded one by
  // one. Fails only if the tokenizer's own regular expressions take too many steps on the text, or
  // its normalizer makes too much of it (text/unicode/match_budget.h).
  Result<std::vector<TokenId>> encode(std::string_view text,
                                      const EncodeOptions& options = {}) const;
  // Returns the text of the tokens. Invalid ids decode to nothing. With a byte-level decoder the
  // result is the bytes of the tokens, which may end inside a UTF-8 character (see StreamDecoder).
  std::string decode(std::span<const TokenId> ids, bool skip_special_tokens = false) const;
  // Returns the text of a token that follows another one. A SentencePiece decoder removes the space
  // of a first token only. The result may be a part of a UTF-8 character.
  std::string decode_inside(TokenId id) const;
  // Returns the bytes that a token stands for inside a text. A byte token of SentencePiece
  // ("<0xE2>") gives its byte, whereas decode() would give U+FFFD.
  std::string token_bytes(TokenId id) const;

  int64_t vocab_size() const;  // The largest id plus 1.
  // Returns the id of a token such as "<|eot_id|>".
  std::optional<TokenId> token_to_id(std::string_view token) const;
  bool is_special(TokenId id) const;
  // Comes from tokenizer_config.json, or else from the post-processor.
  std::optional<TokenId> bos_id() const;
  std::optional<TokenId> eos_id() const;
  // The special tokens by name and the chat templates. Empty if the tokenizer was not loaded from a
  // folder.
  const TokenizerConfig& config() const;

 private:
  friend class StreamDecoder;
  struct State;
  explicit Tokenizer(std::unique_ptr<State> state);
  // Returns the text that the decoder gets for a token, or nothing if the token is left out.
  std::optional<std::string_view> piece(TokenId id, bool skip_special_tokens) const;
  // Returns null if the decoded text is the texts of the tokens, joined.
  const Decoder* decoder() const;

  std::unique_ptr<State> state_;
};

}  // namespace neuronmm::text
