#pragma once
// The vocabulary in a GGUF file's metadata (tokenizer.ggml.*), checked.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "gguf/pre_tokenizers.h"
#include "io/gguf_metadata.h"

namespace neuronmm::gguf {

// tokenizer.ggml.token_type; the numbers are those of the files.
enum class TokenKind { kUndefined, kNormal, kUnknown, kControl, kUserDefined, kUnused, kByte };

struct Vocabulary {
  // tokenizer.ggml.model "llama": pieces of SentencePiece, merged by their scores; or "gpt2": byte
  // level BPE with a list of merges.
  bool sentence_piece = false;
  const PreTokenization* pre = nullptr;  // gpt2 alone
  // Views of the file. Distinct, UTF-8, none empty: an empty one is called [EMPTY_id].
  std::vector<std::string> tokens;
  std::vector<TokenKind> kinds;
  std::vector<double> scores;  // of SentencePiece; empty if the file has none
  std::vector<std::pair<std::string_view, std::string_view>> merges;  // the first ones go first
  std::optional<int64_t> bos, eos, unknown, pad;
  std::vector<int64_t> turn_ends;  // eot and eom: ends of a turn and of a message
  bool add_bos = false, add_eos = false;
  bool add_space_prefix = false;  // a space before a text; SentencePiece alone
  struct ChatTemplate {
    std::string name, text;
  };
  std::vector<ChatTemplate> chat_templates;  // the one in use is called "default"
  int64_t context_length = 0;                // of the model; 0: not in the file

  std::vector<int64_t> end_ids() const;  // eos and turn_ends, each once
};

// nullopt: the file has none (no tokenizer.ggml.model, or "none"). Errors: other models (t5, bert,
// rwkv, ...), a pre-tokenizer that is not known, arrays of different lengths, a token twice, no
// UTF-8, ids that are no tokens, merges of what are no tokens.
Result<std::optional<Vocabulary>> read_vocabulary(const io::GgufMetadata& metadata);

}  // namespace neuronmm::gguf
