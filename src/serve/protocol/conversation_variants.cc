#include "serve/protocol/conversation_variants.h"

#include <algorithm>
#include <deque>
#include <map>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "serve/output/truncated_json.h"

namespace neuronmm::serve {
namespace {

bool has_role(const Json& message, std::string_view role) { return message["role"] == role; }
bool has_calls(const Json& message) {
  const auto calls = message.find("tool_calls");
  return calls != message.end() && calls->is_array() && !calls->empty();
}
bool is_system(const Json& message) {
  return has_role(message, "system") || has_role(message, "developer");
}

// Appends the text of one field of a message to that of another.
void append_text(Json& message, const char* field, const std::string& more) {
  Json& text = message[field];
  if (text.is_null()) text = "";
  auto& whole = text.get_ref<std::string&>();
  if (!whole.empty() && !more.empty()) whole += "\n\n";
  whole += more;
}

// The results that follow a message with calls.
class Results {
 public:
  Results(const Json& messages, size_t first) {
    for (; first < messages.size() && has_role(messages[first], "tool"); ++first)
      results_.push_back(&messages[first]);
  }
  size_t count() const { return results_.size(); }
  // Removes and returns the result of the call with this id. If no result has it, that is the first
  // result without an id. Returns nullptr if there is none.
  const Json* take(const Json& call) {
    const std::string id = call.value("id", "");
    auto found = std::ranges::find_if(results_, [&](const Json* result) {
      return !id.empty() && result->value("tool_call_id", "") == id;
    });
    if (found == results_.end())
      found = std::ranges::find_if(
          results_, [](const Json* result) { return !result->contains("tool_call_id"); });
    if (found == results_.end()) return nullptr;
    const Json* result = *found;
    results_.erase(found);
    return result;
  }
  const std::deque<const Json*>& left() const { return results_; }

 private:
  std::deque<const Json*> results_;
};

// Appends the message with each of its calls in a message of its own, and the results.
void append_single_calls(const Json& message, Results results, Json& all) {
  Json rest = message;
  for (const Json& call : message["tool_calls"]) {
    rest["tool_calls"] = Json::array({call});
    all.push_back(rest);
    if (const Json* result = results.take(call)) all.push_back(*result);
    rest["content"] = "";
    rest.erase("reasoning_content");
  }
  for (const Json* result : results.left()) all.push_back(*result);
}

// Returns whether a message continues the turn of the one before.
bool continues_turn(const Json& before, const Json& message) {
  return before["role"] == message["role"] && !has_role(message, "tool") && !has_calls(before);
}

bool is_empty_answer(const Json& message) {
  return has_role(message, "assistant") && !has_calls(message) &&
         message.value("content", "") == "";
}

void merge_into(Json& before, const Json& message) {
  for (const char* field : {"reasoning_content", "content"}) {
    const auto text = message.find(field);
    if (text != message.end() && text->is_string())
      append_text(before, field, text->get_ref<const std::string&>());
  }
  if (has_calls(message)) before["tool_calls"] = message["tool_calls"];
}

}  // namespace

Json with_object_arguments(Json messages) {
  for (Json& message : messages) {
    if (!has_calls(message)) continue;
    for (Json& call : message["tool_calls"]) {
      Json& arguments = call["function"]["arguments"];
      if (arguments.is_string())
        arguments = parse_truncated_object(arguments.get_ref<const std::string&>());
    }
  }
  return messages;
}

Json with_single_calls(const Json& messages) {
  Json all = Json::array();
  for (size_t i = 0; i < messages.size(); ++i) {
    if (!has_calls(messages[i]) || messages[i]["tool_calls"].size() == 1) {
      all.push_back(messages[i]);
      continue;
    }
    Results results(messages, i + 1);
    const size_t count = results.count();
    append_single_calls(messages[i], std::move(results), all);
    i += count;
  }
  return all;
}

Json with_short_ids(Json messages) {
  std::map<std::string, std::string> ids;
  std::deque<std::string> open;  // the new ids of calls that have no id and no result yet
  size_t next = 0;
  for (Json& message : messages) {
    if (has_calls(message)) {
      for (Json& call : message["tool_calls"]) {
        const std::string id = fmt::format("{:09}", next++);
        if (call.contains("id"))
          ids[call["id"].get<std::string>()] = id;
        else
          open.push_back(id);
        call["id"] = id;
      }
    } else if (has_role(message, "tool")) {
      const auto known = ids.find(message.value("tool_call_id", ""));
      std::string id = known != ids.end() ? known->second : fmt::format("{:09}", next++);
      if (known == ids.end() && !open.empty()) {
        id = open.front();
        open.pop_front();
      }
      message["tool_call_id"] = std::move(id);
    }
  }
  return messages;
}

Json with_merged_turns(const Json& messages) {
  Json all = Json::array();
  for (const Json& message : messages) {
    if (&message != &messages.back() && is_empty_answer(message)) continue;
    if (!all.empty() && continues_turn(all.back(), message)) {
      merge_into(all.back(), message);
      continue;
    }
    const bool begins = all.empty() || is_system(all.back());
    if (begins && has_role(message, "assistant"))
      all.push_back({{"role", "user"}, {"content", ""}});
    all.push_back(message);
  }
  return all;
}

Json with_system_as_user(const Json& messages) {
  Json all = Json::array();
  std::string text;
  const auto add_text = [&] {
    if (!text.empty()) all.push_back({{"role", "user"}, {"content", std::exchange(text, {})}});
  };
  for (const Json& message : messages) {
    const std::string content = message.value("content", "");
    if (is_system(message)) {
      text += (text.empty() || content.empty() ? "" : "\n\n") + content;
      continue;
    }
    if (has_role(message, "user") && !text.empty()) {
      Json turn = message;
      turn["content"] = std::exchange(text, {}) + (content.empty() ? "" : "\n\n") + content;
      all.push_back(std::move(turn));
      continue;
    }
    if (!has_role(message, "tool")) add_text();
    all.push_back(message);
  }
  add_text();
  return all;
}

}  // namespace neuronmm::serve
