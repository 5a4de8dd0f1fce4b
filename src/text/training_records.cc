#include "text/training_records.h"

#include <utility>

#include <nlohmann/json.hpp>

#include "io/json_file.h"
#include "io/ordered_json.h"
#include "text/unicode/white_space.h"

namespace neuronmm::text {
namespace {

using Json = Conversation::Json;

constexpr std::string_view kRecordFields =
    "\"instruction\" and \"output\", \"text\", \"messages\" or \"conversations\"";

// Returns the line on which each element of a JSON list of objects begins. The text must be valid
// JSON.
std::vector<int64_t> element_lines(std::string_view text) {
  std::vector<int64_t> lines;
  int64_t line = 1, depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\n') ++line;
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      if (++depth == 2) lines.push_back(line);
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return lines;
}

Result<Instruction> instruction_of(const nlohmann::json& record, const std::string& where) {
  const io::JsonFields fields(record, where);
  NMM_ASSIGN(const auto instruction, fields.string("instruction"));
  NMM_ASSIGN(const auto input, fields.string("input"));
  NMM_ASSIGN(const auto output, fields.string("output"));
  if (!instruction) return fields.missing("instruction");
  if (!output) return fields.missing("output");
  return Instruction{alpaca_prompt(*instruction, input.value_or("")), *output};
}

// Translates ShareGPT's names of roles. Other names stay as they are.
std::string role_of(const std::string& from) {
  if (from == "human") return "user";
  if (from == "gpt" || from == "chatgpt") return "assistant";
  return from;
}

Result<Json> messages_of(const Json& turns, const std::string& where) {
  const auto wrong = [&](const Json& found) {
    return fail(
        "{}: \"conversations\": expected a list of objects with \"from\" and \"value\", found {}",
        where, io::describe_json(nlohmann::json(found)));
  };
  if (!turns.is_array()) return wrong(turns);
  Json messages = Json::array();
  for (const Json& turn : turns) {
    const bool is_turn = turn.is_object() && turn.contains("from") && turn["from"].is_string() &&
                         turn.contains("value") && turn["value"].is_string();
    if (!is_turn) return wrong(turn);
    messages.push_back({{"role", role_of(turn["from"])}, {"content", turn["value"]}});
  }
  return messages;
}

// Reads the fields that a template sees, and checks them as those of a conversation file.
Result<Conversation> conversation_of(const Json& record, const std::string& where) {
  Json chat = Json::object();
  if (record.contains("messages")) {
    chat["messages"] = record["messages"];
  } else {
    NMM_ASSIGN(chat["messages"], messages_of(record["conversations"], where));
  }
  if (record.contains("tools")) chat["tools"] = record["tools"];
  return parse_conversation(chat.dump(), where);
}

// Reads the record that begins on this line of `source`.
Result<TrainingRecord> parse_record(const Json& record, const std::string& source, int64_t line) {
  const std::string where = fmt::format("{}:{}", source, line);
  if (!record.is_object()) {
    return fail("{}: expected an object with {}, found {}", where, kRecordFields,
                io::describe_json(nlohmann::json(record)));
  }
  const nlohmann::json unordered(record);
  const int parts = int{record.contains("instruction")} + int{record.contains("output")};
  // A document may have a field with one of these names.
  if (parts == 2 || (parts == 1 && !record.contains("text"))) {
    NMM_ASSIGN(auto instruction, instruction_of(unordered, where));
    return TrainingRecord{std::move(instruction), line};
  }
  if (record.contains("messages") || record.contains("conversations")) {
    NMM_ASSIGN(auto conversation, conversation_of(record, where));
    return TrainingRecord{std::move(conversation), line};
  }
  if (!record.contains("text"))
    return fail("{}: expected {}, found none of them", where, kRecordFields);
  NMM_ASSIGN(auto text, io::JsonFields(unordered, where).required_string("text"));
  return TrainingRecord{std::move(text), line};
}

}  // namespace

std::string alpaca_prompt(std::string_view instruction, std::string_view input) {
  if (input.empty()) {
    return fmt::format(
        "Below is an instruction that describes a task. Write a response that appropriately "
        "completes the request.\n\n### Instruction:\n{}\n\n### Response:\n",
        instruction);
  }
  return fmt::format(
      "Below is an instruction that describes a task, paired with an input that provides further "
      "context. Write a response that appropriately completes the request.\n\n### "
      "Instruction:\n{}\n\n### Input:\n{}\n\n### Response:\n",
      instruction, input);
}

// The JSON parser does not keep positions, so the lines for messages are counted separately.
Result<std::vector<TrainingRecord>> parse_record_list(std::string_view content,
                                                      const std::string& source) {
  NMM_TRY(io::parse_json(content, source));
  const Json list = io::parse_ordered_json(content);  // Templates see the order of keys.
  if (!list.is_array()) {
    return fail("{}: expected a list of objects with {}, found {}", source, kRecordFields,
                io::describe_json(nlohmann::json(list)));
  }
  for (size_t i = 0; i < list.size(); ++i) {
    // element_lines() finds objects and lists only, so the first element of another kind is an
    // error here.
    if (!list[i].is_structured()) {
      return fail("{}: record {}: expected an object, found {}", source, i + 1,
                  io::describe_json(nlohmann::json(list[i])));
    }
  }
  const std::vector<int64_t> lines = element_lines(content);
  std::vector<TrainingRecord> all;
  for (size_t i = 0; i < list.size(); ++i) {
    NMM_ASSIGN(all.emplace_back(), parse_record(list[i], source, lines[i]));
  }
  return all;
}

Result<std::vector<TrainingRecord>> parse_record_lines(std::string_view content,
                                                       const std::string& source) {
  std::vector<TrainingRecord> all;
  for (int64_t line = 1; !content.empty(); ++line) {
    const size_t end = content.find('\n');
    const std::string_view text = content.substr(0, end);
    content.remove_prefix(end == std::string_view::npos ? content.size() : end + 1);
    if (strip_left(text, is_python_space).empty()) continue;
    NMM_TRY(io::parse_json(text, fmt::format("{}:{}", source, line)));
    NMM_ASSIGN(all.emplace_back(), parse_record(io::parse_ordered_json(text), source, line));
  }
  return all;
}

}  // namespace neuronmm::text
