#pragma once
// Reads and checks the vocabulary in a GGUF file's metadata (tokenizer.ggml.*).

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gguf/gguf_metadata.h"
#include "gguf/pre_tokenizers.h"
#include "io/mounted_model.h"
#include "text/tokenizer/text_arena.h"

namespace neuronmm::gguf {

// U+2581, SentencePiece's spelling of a space.
inline constexpr std::string_view kPieceSpace = "▁";
// Returns the piece with spaces that are spelled as such.
std::string with_spaces(std::string_view piece);

// The values of tokenizer.ggml.token_type, with the numbers that files contain.
enum class TokenKind : uint8_t {
  kUndefined,
  kNormal,
  kUnknown,
  kControl,
  kUserDefined,
  kUnused,
  kByte
};

// A vocabulary and the rules for the special tokens. Its texts are views of the file, which must
// outlive it.
struct Vocabulary {
  using Merge = io::MountedTokenizer::Merge;

  // True for tokenizer.ggml.model "llama": pieces of SentencePiece that are merged by their scores.
  // False for "gpt2": byte-level BPE with a list of merges.
  bool sentence_piece = false;
  // The rules for cutting words; null for SentencePiece.
  const PreTokenization* pre = nullptr;
  // The tokens by id, in UTF-8. They are distinct and not empty: an empty token of the file is
  // called [EMPTY_id], and `names` holds that text.
  std::vector<std::string_view> tokens;
  text::TextArena names;
  std::vector<TokenKind> kinds;
  // The scores of SentencePiece; empty if the file has none.
  std::vector<double> scores;
  // The merges in the order in which they are applied.
  std::vector<Merge> merges;
  std::optional<int64_t> bos, eos, unknown, pad;
  // The other tokens that end a text or a turn: those that the file names (eot, eom and three of
  // code models), and those that their texts show (model/end_tokens.h).
  std::vector<int64_t> other_ends;
  bool add_bos = false, add_eos = false;
  // Puts a space before a text. Only SentencePiece vocabularies have it.
  bool add_space_prefix = false;
  struct ChatTemplate {
    std::string name, text;
  };
  // The template in use is called "default".
  std::vector<ChatTemplate> chat_templates;
  // The context length of the model; 0 if the file does not say.
  int64_t context_length = 0;

  // Returns eos and other_ends, each id once.
  std::vector<int64_t> end_ids() const;
};

// Reads the vocabulary. Returns nullopt if the file has none (no tokenizer.ggml.model, "none" or
// "no_vocab"). Other models (t5, bert, rwkv, ...) and unknown pre-tokenizers are errors. So are
// arrays of different lengths, a repeated token, text that is not UTF-8, ids that are no tokens,
// and merges of texts that are no tokens.
Result<std::optional<Vocabulary>> read_vocabulary(const io::GgufMetadata& metadata);

}  // namespace neuronmm::gguf
