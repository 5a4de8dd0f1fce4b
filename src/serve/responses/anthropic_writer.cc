#include "serve/responses/anthropic_writer.h"

#include <utility>

#include "serve/output/truncated_json.h"

namespace neuronmm::serve {

AnthropicWriter::AnthropicWriter(ResponseSettings settings_in, ChatOutputSettings chat,
                                 std::shared_ptr<ResponseSink> sink)
    : ResponseWriter(std::move(settings_in), std::move(sink)),
      chat_(std::move(chat)),
      output_(tokenizer(), settings().text, chat_, settings().prompts.front()),
      random_(chat_.id_seed) {}

// Sends the first event, together with the first token: clients measure the time to the first token
// by the first event.
void AnthropicWriter::begin() {
  if (std::exchange(begun_, true) || !settings().stream) return;
  sink().event(typed_event("message_start", {{"message", message()}}));
}

bool AnthropicWriter::add_token(size_t, const GeneratedToken& token) {
  begin();
  send_deltas(output_.push(token.id));
  return !output_.ended();
}

// Ends the answer. An empty answer becomes an empty block of text, because clients look for a first
// block.
void AnthropicWriter::add_end(size_t, const End& end) {
  begin();
  send_deltas(output_.finish(end.stop_token));
  if (blocks_.empty() && !chat_.forced_calls) open(Kind::kText);
  if (!blocks_.empty()) close();
  if (end.reason == "length") {
    stop_reason_ = "max_tokens";
  } else if (output_.text().stopped()) {
    stop_reason_ = "stop_sequence";
    stop_sequence_ = output_.text().stop();
  } else {
    stop_reason_ = output_.has_calls() ? "tool_use" : "end_turn";
  }
}

void AnthropicWriter::send_deltas(const std::vector<OutputDelta>& deltas) {
  for (const OutputDelta& delta : deltas) {
    switch (delta.kind) {
      case OutputDelta::Kind::kReasoning:
        open(Kind::kThinking);
        break;
      case OutputDelta::Kind::kContent:
        open(Kind::kText);
        break;
      case OutputDelta::Kind::kCall:
        open(Kind::kToolUse, delta.text);
        continue;
      case OutputDelta::Kind::kArguments:
        break;
    }
    add_text(delta.text);
  }
}

// Begins a block of this kind, unless the last block has the same kind and can continue. Every call
// is a block of its own.
void AnthropicWriter::open(Kind kind, const std::string& name) {
  if (!blocks_.empty()) {
    if (kind != Kind::kToolUse && blocks_.back().kind == kind) return;
    close();
  }
  Block block{.kind = kind, .name = name};
  if (kind == Kind::kToolUse) block.id = random_call_id(chat_.tools, random_, "toolu_");
  blocks_.push_back(std::move(block));
  Json start = block_json(blocks_.back());
  if (kind == Kind::kThinking) start["signature"] = "";
  send_of_block("content_block_start", {{"content_block", std::move(start)}});
}

void AnthropicWriter::close() {
  if (blocks_.back().kind == Kind::kThinking)
    send_of_block("content_block_delta",
                  {{"delta", {{"type", "signature_delta"}, {"signature", settings().id}}}});
  send_of_block("content_block_stop", Json::object());
}

void AnthropicWriter::add_text(const std::string& text) {
  Block& block = blocks_.back();
  if (!settings().stream) {
    block.text += text;
    return;
  }
  Json delta = {{"type", "text_delta"}, {"text", text}};
  if (block.kind == Kind::kThinking) delta = {{"type", "thinking_delta"}, {"thinking", text}};
  if (block.kind == Kind::kToolUse) delta = {{"type", "input_json_delta"}, {"partial_json", text}};
  send_of_block("content_block_delta", {{"delta", std::move(delta)}});
}

void AnthropicWriter::send_of_block(const char* type, const Json& fields) {
  if (!settings().stream) return;
  Json placed = {{"index", blocks_.size() - 1}};
  placed.update(fields);
  sink().event(typed_event(type, placed));
}

// Returns the JSON of a block. Nobody checks the signature of thoughts, but many clients send
// thoughts back only if they have one.
Json AnthropicWriter::block_json(const Block& block) const {
  switch (block.kind) {
    case Kind::kThinking:
      return {{"type", "thinking"}, {"thinking", block.text}, {"signature", settings().id}};
    case Kind::kText:
      return {{"type", "text"}, {"text", block.text}};
    case Kind::kToolUse:
      break;
  }
  return {{"type", "tool_use"},
          {"id", block.id},
          {"name", block.name},
          {"input", parse_truncated_object(block.text)}};
}

// Returns the token counts. In this API "input_tokens" does not include the tokens from the cache.
Json AnthropicWriter::usage() const {
  return {{"input_tokens", counts().prompt - counts().cached},
          {"cache_creation_input_tokens", 0},
          {"cache_read_input_tokens", counts().cached},
          {"output_tokens", counts().completion}};
}

Json AnthropicWriter::message() const {
  Json body = {{"id", settings().id},
               {"type", "message"},
               {"role", "assistant"},
               {"model", settings().model},
               {"content", Json::array()},
               {"stop_reason", stop_reason_},
               {"stop_sequence", stop_sequence_}};
  for (const Block& block : blocks_) body["content"].push_back(block_json(block));
  body["usage"] = usage();
  return body;
}

void AnthropicWriter::send_rest() {
  if (!settings().stream) return sink().response(200, dump_json(message()));
  sink().event(
      typed_event("message_delta",
                  {{"delta", {{"stop_reason", stop_reason_}, {"stop_sequence", stop_sequence_}}},
                   {"usage", usage()}}));
  sink().event(typed_event("message_stop", Json::object()));
}

std::string AnthropicWriter::last_event(const ApiError& error) {
  return fmt::format("event: error\ndata: {}\n\n", anthropic_error_json(error));
}

}  // namespace neuronmm::serve
