#pragma once
// The input of a chat template. It is kept as JSON, because messages may have any fields and
// templates see the order of keys. The functions here read and write it as a file.

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "base/result.h"

namespace neuronmm::text {

// A list of messages with the other variables of a chat template.
struct Conversation {
  using Json = nlohmann::ordered_json;

  // Objects with a "role" and a "content", which is a string or a list of parts.
  Json messages = Json::array();
  // Lists of objects, or null.
  Json tools, documents;
  bool add_generation_prompt = true;
  // The field of the last message that the answer continues, for example "content". If it is empty,
  // the answer is a new message.
  std::string continue_field;
  // More variables for the template, for example {"enable_thinking": false}.
  Json template_kwargs = Json::object();

  // Appends a message of plain text.
  void add_message(std::string role, std::string content);
};

// Parses a list of messages, or an object with the fields of Conversation under their names. In an
// object, "chat_template_kwargs" holds the variables, and "continue_final_message" is true (for
// "content") or the name of a field. Errors begin with `source` and name the field.
Result<Conversation> parse_conversation(std::string_view text, const std::string& source);
// Returns the conversation as a text that parse_conversation reads.
std::string conversation_json(const Conversation& conversation);
// Parses a list of tools. Errors begin with `source`.
Result<Conversation::Json> parse_tools(std::string_view text, const std::string& source);
// Parses an object of template variables. Errors begin with `source`.
Result<Conversation::Json> parse_template_kwargs(std::string_view text, const std::string& source);

}  // namespace neuronmm::text
