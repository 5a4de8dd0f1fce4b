// Reads a template up to the first NUL byte, and a conversation after it. The result must be an
// error, or a prompt whose from_messages ranges are ordered and inside the text.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "text/chat_template.h"

namespace {

using namespace neuronmm::text;

// The limits are small, so that a template reaches them soon.
constexpr jinja::Limits kLimits = {
    .steps = 100'000, .bytes = size_t{16} << 20, .output_bytes = size_t{1} << 20, .depth = 400};

void check(const ChatPrompt& prompt) {
  size_t end = 0;
  for (const ByteRange& range : prompt.from_messages) {
    NMM_CHECK(range.begin >= end && range.begin < range.end);
    end = range.end;
  }
  NMM_CHECK(end <= prompt.text.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t zero = std::min(input.find('\0'), size);
  TokenizerConfig config;
  config.chat_templates["default"] = input.substr(0, zero);
  config.special_tokens = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};
  Conversation conversation;
  conversation.add_message("system", " Be brief. ");
  conversation.add_message("user", "2 + 2?");
  if (zero < size) {
    auto parsed = parse_conversation(input.substr(zero + 1), "conversation");
    if (parsed.ok()) conversation = std::move(parsed).value();
  }
  const auto prompt = apply_chat_template(config, conversation, 0, kLimits);
  if (prompt.ok()) check(*prompt);
  return 0;
}
