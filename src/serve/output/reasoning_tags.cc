#include "serve/output/reasoning_tags.h"

#include <algorithm>
#include <array>

namespace neuronmm::serve {
namespace {

const std::array<ReasoningTags, 7>& all_tags() {
  static const std::array<ReasoningTags, 7> tags = {{
      {"<think>", "</think>"},                     // DeepSeek, Qwen, Hermes and most others
      {"[THINK]", "[/THINK]"},                     // Magistral, Ministral
      {"<seed:think>", "</seed:think>"},           // Seed-OSS
      {"<|START_THINKING|>", "<|END_THINKING|>"},  // Command
      {"<|inner_prefix|>", "<|inner_suffix|>"},    // Apertus
      {"<thinking>", "</thinking>"},               // fine-tuned models of Llama
      {"\xE2\x97\x81think\xE2\x96\xB7", "\xE2\x97\x81/think\xE2\x96\xB7"},  // Kimi
  }};
  return tags;
}

}  // namespace

std::span<const ReasoningTags> known_reasoning_tags() { return all_tags(); }

const ReasoningTags* find_reasoning_tags(std::string_view source) {
  const auto found = std::ranges::find_if(all_tags(), [&](const ReasoningTags& tags) {
    return source.find(tags.end) != std::string_view::npos;
  });
  return found == all_tags().end() ? nullptr : &*found;
}

std::vector<std::string> reasoning_marks() {
  std::vector<std::string> marks;
  for (const ReasoningTags& tags : all_tags()) marks.insert(marks.end(), {tags.begin, tags.end});
  return marks;
}

}  // namespace neuronmm::serve
