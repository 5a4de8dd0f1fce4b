#include "serve/responses/responses_api_writer.h"

#include <algorithm>
#include <utility>

#include "serve/output/random_id.h"
#include "serve/responses/logprob_json.h"

namespace neuronmm::serve {
namespace {

constexpr size_t kItemIdLength = 32;

Json text_part(const std::string& text, const Json& logprobs) {
  return {{"type", "output_text"},
          {"text", text},
          {"annotations", Json::array()},
          {"logprobs", logprobs}};
}

Json reasoning_part(const std::string& text) {
  return {{"type", "reasoning_text"}, {"text", text}};
}

}  // namespace

ResponsesApiWriter::ResponsesApiWriter(ResponseSettings settings_in, ChatOutputSettings chat,
                                       Json echoed, std::shared_ptr<ResponseSink> sink)
    : ResponseWriter(std::move(settings_in), std::move(sink)),
      chat_(std::move(chat)),
      echoed_(std::move(echoed)),
      output_(tokenizer(), settings().text, chat_, settings().prompts.front()),
      random_(chat_.id_seed) {}

void ResponsesApiWriter::begin() {
  if (std::exchange(begun_, true) || !settings().stream) return;
  send("response.created", {{"response", response("in_progress")}});
  send("response.in_progress", {{"response", response("in_progress")}});
}

bool ResponsesApiWriter::add_token(size_t, const GeneratedToken& token) {
  begin();
  if (settings().logprobs && token.logprobs)
    new_logprobs_.push_back(chat_logprob(tokenizer(), *token.logprobs));
  send_deltas(output_.push(token.id));
  if (!items_.empty() && items_.back().kind == Kind::kReasoning) ++reasoning_tokens_;
  return !output_.ended();
}

// Ends the answer. An empty answer becomes an empty message.
void ResponsesApiWriter::add_end(size_t, const End& end) {
  begin();
  send_deltas(output_.finish(end.stop_token));
  incomplete_ = end.reason == "length" || output_.cut_call();
  if (items_.empty() && !chat_.forced_calls) open(Kind::kMessage);
  if (!items_.empty()) close(incomplete_ ? "incomplete" : "completed");
}

void ResponsesApiWriter::send_deltas(const std::vector<OutputDelta>& deltas) {
  for (const OutputDelta& delta : deltas) {
    switch (delta.kind) {
      case OutputDelta::Kind::kReasoning:
        open(Kind::kReasoning);
        break;
      case OutputDelta::Kind::kContent:
        open(Kind::kMessage);
        break;
      case OutputDelta::Kind::kCall:
        open(Kind::kCall, delta.text);
        continue;
      case OutputDelta::Kind::kArguments:
        break;
    }
    add_text(delta.text);
  }
}

// Begins an item of this kind, unless the last item has the same kind and can continue. Every call
// is an item of its own.
void ResponsesApiWriter::open(Kind kind, const std::string& name) {
  if (!items_.empty()) {
    if (kind != Kind::kCall && items_.back().kind == kind) return;
    close("completed");
  }
  Item item{.kind = kind, .name = name};
  const char* const prefixes[] = {"rs_", "msg_", "fc_"};
  item.id = random_id(prefixes[static_cast<size_t>(kind)], kItemIdLength, random_);
  if (kind == Kind::kCall) {
    item.call_id = random_call_id(chat_.tools, random_);
    item.custom = is_custom_tool(*chat_.tool_list, name);
    split_namespace(item);
  }
  items_.push_back(std::move(item));
  send_of_item("response.output_item.added", {{"item", item_json(items_.back())}}, false);
  if (kind == Kind::kCall) return;
  send_of_item("response.content_part.added", {{"part", part_json(items_.back())}}, true);
}

// Splits "SPACE.NAME" into its two fields. The model knows a function in a namespace by the
// combined name.
void ResponsesApiWriter::split_namespace(Item& call) const {
  const auto tool = std::ranges::find(*chat_.tool_list, call.name, &Tool::name);
  if (tool == chat_.tool_list->end() || tool->name_space.empty()) return;
  call.name_space = tool->name_space;
  call.name = call.name.substr(call.name_space.size() + 1);
}

void ResponsesApiWriter::add_text(const std::string& text) {
  Item& item = items_.back();
  item.text += text;
  const Json logprobs = std::exchange(new_logprobs_, Json::array());
  switch (item.kind) {
    case Kind::kReasoning:
      return send_of_item("response.reasoning_text.delta", {{"delta", text}}, true);
    case Kind::kCall:
      return send_of_item(item.custom ? "response.custom_tool_call_input.delta"
                                      : "response.function_call_arguments.delta",
                          {{"delta", text}}, false);
    case Kind::kMessage:
      break;
  }
  for (const Json& logprob : logprobs) item.logprobs.push_back(logprob);
  send_of_item("response.output_text.delta", {{"delta", text}, {"logprobs", logprobs}}, true);
}

void ResponsesApiWriter::close(const char* status) {
  Item& item = items_.back();
  item.status = status;
  if (item.kind == Kind::kReasoning)
    send_of_item("response.reasoning_text.done", {{"text", item.text}}, true);
  if (item.kind == Kind::kMessage)
    send_of_item("response.output_text.done", {{"text", item.text}, {"logprobs", item.logprobs}},
                 true);
  if (item.kind == Kind::kCall && item.custom)
    send_of_item("response.custom_tool_call_input.done", {{"input", item.text}}, false);
  else if (item.kind == Kind::kCall)
    send_of_item("response.function_call_arguments.done",
                 {{"name", item.name}, {"arguments", item.text}}, false);
  else
    send_of_item("response.content_part.done", {{"part", part_json(item)}}, true);
  send_of_item("response.output_item.done", {{"item", item_json(item)}}, false);
}

Json ResponsesApiWriter::part_json(const Item& item) {
  return item.kind == Kind::kReasoning ? reasoning_part(item.text)
                                       : text_part(item.text, item.logprobs);
}

// Returns the JSON of an item. An item in progress has no parts yet, because events send them
// later.
Json ResponsesApiWriter::item_json(const Item& item) {
  const bool ended = std::string_view(item.status) != "in_progress";
  const Json content = ended ? Json::array({part_json(item)}) : Json::array();
  switch (item.kind) {
    case Kind::kReasoning:
      return {{"id", item.id},
              {"type", "reasoning"},
              {"summary", Json::array()},
              {"content", content},
              {"status", item.status}};
    case Kind::kMessage:
      return {{"id", item.id},
              {"type", "message"},
              {"role", "assistant"},
              {"content", content},
              {"status", item.status}};
    case Kind::kCall:
      break;
  }
  if (item.custom)
    return {{"id", item.id},     {"type", "custom_tool_call"}, {"call_id", item.call_id},
            {"name", item.name}, {"input", item.text},         {"status", item.status}};
  Json call = {{"id", item.id},     {"type", "function_call"}, {"call_id", item.call_id},
               {"name", item.name}, {"arguments", item.text},  {"status", item.status}};
  if (!item.name_space.empty()) call["namespace"] = item.name_space;
  return call;
}

void ResponsesApiWriter::send_of_item(const char* type, const Json& fields, bool of_part) {
  if (!settings().stream) return;
  const bool whole_item = fields.contains("item");
  Json placed = {{"output_index", items_.size() - 1}};
  if (!whole_item) placed["item_id"] = items_.back().id;
  if (of_part) placed["content_index"] = 0;
  placed.update(fields);
  send(type, placed);
}

void ResponsesApiWriter::send(const char* type, const Json& fields) {
  sink().event(typed_event(type, fields, events_++));
}

Json ResponsesApiWriter::usage() const {
  return {{"input_tokens", counts().prompt},
          {"input_tokens_details", {{"cached_tokens", counts().cached}, {"cache_write_tokens", 0}}},
          {"output_tokens", counts().completion},
          {"output_tokens_details", {{"reasoning_tokens", reasoning_tokens_}}},
          {"total_tokens", counts().prompt + counts().completion}};
}

Json ResponsesApiWriter::response(const char* status) const {
  const bool ended = std::string_view(status) != "in_progress";
  Json body = {{"id", settings().id},
               {"object", "response"},
               {"created_at", settings().created},
               {"status", status},
               {"error", nullptr},
               {"incomplete_details", incomplete_ ? Json{{"reason", "max_output_tokens"}} : Json()},
               {"model", settings().model},
               {"output", Json::array()}};
  for (const Item& item : items_) body["output"].push_back(item_json(item));
  body.update(echoed_);
  body["usage"] = ended ? usage() : Json();
  return body;
}

void ResponsesApiWriter::send_rest() {
  const char* const status = incomplete_ ? "incomplete" : "completed";
  if (!settings().stream) return sink().response(200, dump_json(response(status)));
  send(incomplete_ ? "response.incomplete" : "response.completed",
       {{"response", response(status)}});
}

std::string ResponsesApiWriter::last_event(const ApiError& error) {
  Json failed = response("failed");
  failed["error"] = {{"code", error.code.empty() ? "server_error" : error.code},
                     {"message", error.message}};
  return typed_event("response.failed", {{"response", std::move(failed)}}, events_++);
}

}  // namespace neuronmm::serve
