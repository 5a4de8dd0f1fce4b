#pragma once
// How byte-level BPE vocabularies cut a text into words: what tokenizer.ggml.pre names.

#include <span>
#include <string>
#include <string_view>

namespace neuronmm::gguf {

// One step of tokenizer.json's pre_tokenizer. Each works on the pieces of the one before.
struct PreTokenizationStep {
  enum class Kind { kSplit, kDigits };  // by a pattern; digit by digit
  Kind kind = Kind::kSplit;
  std::string_view pattern = {};
};

struct PreTokenization {
  std::span<const std::string_view> names;
  std::span<const PreTokenizationStep> steps;
  bool gpt2_pattern = false;   // ByteLevel's own pattern, at the end
  bool nfc = false;            // the text is composed first (Unicode NFC)
  bool ignore_merges = false;  // a word that is a token is one, whatever the merges say
  bool adds_bos = false;       // unless the file says otherwise
};

const PreTokenization* find_pre_tokenization(std::string_view name);  // nullptr: not known
std::string pre_tokenization_names();                                 // "default, gpt-2, ..."

}  // namespace neuronmm::gguf
