#pragma once
// What a chat template is given, as JSON keeps it: messages may have any fields.

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "base/result.h"

namespace neuronmm::text {

struct Conversation {
  using Json = nlohmann::ordered_json;

  Json messages = Json::array();  // objects; "role" and "content" (a string, or a list of parts)
  Json tools, documents;          // lists of objects, or null
  bool add_generation_prompt = true;
  // The field of the last message that the answer goes on with ("content"); empty: none.
  std::string continue_field;
  Json template_kwargs = Json::object();  // more variables: {"enable_thinking": false}

  // A message of plain text.
  void say(std::string role, std::string content);
};

// A list of messages, or an object of what is above by these names, where "chat_template_kwargs"
// are the variables and "continue_final_message" is true (for "content") or the name of a field.
// Errors begin with `source` and name the field.
Result<Conversation> parse_conversation(std::string_view text, const std::string& source);
// The same conversation as a file that parse_conversation reads.
std::string conversation_json(const Conversation& conversation);
// The list of tools of a file.
Result<Conversation::Json> parse_tools(std::string_view text, const std::string& source);
// An object of variables.
Result<Conversation::Json> parse_template_kwargs(std::string_view text, const std::string& source);

}  // namespace neuronmm::text
