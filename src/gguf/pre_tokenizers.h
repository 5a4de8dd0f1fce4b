#pragma once
// The rules by which byte-level BPE vocabularies cut a text into words. A GGUF file names its rules
// in tokenizer.ggml.pre. An unknown name makes the import fail.

#include <span>
#include <string>
#include <string_view>

namespace neuronmm::gguf {

// A step of tokenizer.json's pre_tokenizer. Each step cuts the pieces of the step before it.
struct PreTokenizationStep {
  // The kind kSplit cuts at the matches of a pattern, and kDigits puts each digit into a piece of
  // its own.
  enum class Kind { kSplit, kDigits };
  Kind kind = Kind::kSplit;
  std::string_view pattern = {};

  bool operator==(const PreTokenizationStep&) const = default;
};

// The steps that belong to some names, and other properties of such tokenizers.
struct PreTokenization {
  std::span<const std::string_view> names;
  std::span<const PreTokenizationStep> steps;
  // The pattern of ByteLevel itself is applied at the end.
  bool gpt2_pattern = false;
  // The text is composed first (Unicode NFC).
  bool nfc = false;
  // A word that is a token becomes that token, even if merges would make other tokens.
  bool ignore_merges = false;
  // A BOS token is added unless the file says otherwise.
  bool adds_bos = false;
};

// Returns null if the name is not known.
const PreTokenization* find_pre_tokenization(std::string_view name);
// Returns what cuts texts by these steps, or null. `wanted` has the steps and the properties; its
// names and adds_bos do not matter.
const PreTokenization* find_pre_tokenization(const PreTokenization& wanted);
// Returns all known names: "default, gpt-2, ...".
std::string pre_tokenization_names();

}  // namespace neuronmm::gguf
