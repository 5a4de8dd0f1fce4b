#pragma once
// BPE from a Hugging Face tokenizer.json, byte-level (GPT-2, Llama-3, Qwen) or as SentencePiece has
// it (Llama-2, Mistral): added tokens, normalizer, pre-tokenizer, merges by rank, post-processor,
// decoder. Ids and text are those of the tokenizers library. What it does not run is refused by
// name.

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/byte_range.h"
#include "text/decoder.h"
#include "text/token_id.h"
#include "text/tokenizer_config.h"

namespace neuronmm::text {

struct EncodeOptions {
  bool add_special_tokens =
      true;  // what the post-processor template adds (BOS for Llama-3; nothing for Qwen)
  bool parse_added_tokens =
      true;  // "<|eot_id|>" in the text becomes its id; false: it is ordinary text
  // Where the text is ordinary all the same: what a user typed inside a template that is parsed. In
  // order, without overlaps; an added token that touches one of them is none.
  std::span<const ByteRange> literal = {};
};

class Tokenizer {
 public:
  // tokenizer.json of a model folder and, when present, tokenizer_config.json and
  // special_tokens_map.json. Of the latter two count the begin and end of text, the added tokens
  // and the chat template. As in transformers (version 5), add_bos_token and add_eos_token do not:
  // the post-processor says what is added; nor does clean_up_tokenization_spaces, which would take
  // spaces out of the text of a BPE model. Sections "truncation" and "padding" are not applied.
  static Result<Tokenizer> load(const std::filesystem::path& folder);
  // `source` is what error messages call the text.
  static Result<Tokenizer> parse(std::string_view tokenizer_json, const std::string& source);
  // GPT-2's raw pair of files.
  static Result<Tokenizer> load_vocab_and_merges(const std::filesystem::path& vocab_json,
                                                 const std::filesystem::path& merges_txt);
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  // Any bytes are accepted; text that is not UTF-8 is encoded byte by byte where it is not. An
  // error only if the tokenizer's own regular expressions take too many steps on the text
  // (text/match_budget.h).
  Result<std::vector<TokenId>> encode(std::string_view text,
                                      const EncodeOptions& options = {}) const;
  // The text of the tokens. Invalid ids decode to nothing. Where the decoder is byte-level it is
  // their bytes, which may end inside a UTF-8 character: see StreamDecoder.
  std::string decode(std::span<const TokenId> ids, bool skip_special_tokens = false) const;
  // A token's text where it stands behind another: a SentencePiece decoder takes the space of a
  // first one. Like decode, it may be a part of a UTF-8 character.
  std::string decode_inside(TokenId id) const;
  // The bytes that a token stands for inside a text. A byte token of SentencePiece ("<0xE2>") is
  // its byte, which decoding alone would make U+FFFD.
  std::string token_bytes(TokenId id) const;

  int64_t vocab_size() const;                                        // largest id + 1
  std::optional<TokenId> token_to_id(std::string_view token) const;  // "<|eot_id|>"
  bool is_special(TokenId id) const;
  std::optional<TokenId> bos_id() const;  // from tokenizer_config.json or the template
  std::optional<TokenId> eos_id() const;
  // The special tokens by name and the chat templates; empty for a tokenizer of no folder.
  const TokenizerConfig& config() const;

 private:
  friend class StreamDecoder;
  struct State;
  explicit Tokenizer(std::unique_ptr<State> state);
  // What the decoder gets of a token; nothing where it is left out.
  std::optional<std::string_view> piece(TokenId id, bool skip_special_tokens) const;
  // nullptr: the text is the pieces side by side.
  const Decoder* decoder() const;

  std::unique_ptr<State> state_;
};

}  // namespace neuronmm::text
