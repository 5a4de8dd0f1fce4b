#include "model/end_tokens.h"

#include <algorithm>

namespace neuronmm::model {
namespace {

constexpr std::string_view kEndOfChannel = "<|end|>";
constexpr std::string_view kSentencePieceEnd = "</s>";

constexpr std::string_view kEnds[] = {
    "<|eot_id|>", "<|im_end|>", kEndOfChannel, "<|return|>", "<|call|>", "<|flush|>", "<|calls|>",
    "<end_of_turn>", "<|endoftext|>", kSentencePieceEnd, "<|eom_id|>", "<EOT>", "_<EOT>", "[EOT]",
    "[EOS]", "<|end_of_text|>", "<end_of_utterance>", "<eos>", "<turn|>", "<|tool_response>",
    "<｜end▁of▁sentence｜>", "[e~[",
    // The padding of models that fill in the middle, and the marks of the next repository or file.
    "<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]", "<|fim_repo|>", "<|repo_name|>",
    "<fim-repo>", "<REPO>", "<reponame>", "<|file_sep|>"};

// The two vocabularies in which "<|end|>" ends a channel and not the answer are those of gpt-oss
// and Solar Open.
bool has_channels(const FindToken& find) {
  const bool call = find("<|call|>") || find("<|calls|>");
  return call && (find("<|return|>") || find("<|flush|>"));
}

// Gemma 4 and PLaMo have "</s>" as a token of ordinary text.
bool has_other_end(const FindToken& find) {
  return find("<|tool_response>") || find("<|plamo:eos|>");
}

}  // namespace

std::vector<int64_t> recognized_end_tokens(const FindToken& find) {
  std::vector<int64_t> ids;
  for (const std::string_view text : kEnds) {
    if (text == kEndOfChannel && has_channels(find)) continue;
    if (text == kSentencePieceEnd && has_other_end(find)) continue;
    const auto id = find(text);
    if (id && std::ranges::find(ids, *id) == ids.end()) ids.push_back(*id);
  }
  return ids;
}

}  // namespace neuronmm::model
