#include "serve/protocol/written_calls.h"

#include <fmt/format.h>

#include "serve/output/tagged_calls.h"
#include "serve/protocol/structured_output.h"

namespace neuronmm::serve {
namespace {

std::string python_string(const std::string& text) {
  const bool has_single = text.find('\'') != std::string::npos;
  const char quote = has_single && text.find('"') == std::string::npos ? '"' : '\'';
  std::string literal(1, quote);
  for (const char c : text) {
    if (c == '\n')
      literal += "\\n";
    else if (c == '\t')
      literal += "\\t";
    else if (static_cast<unsigned char>(c) < 0x20)
      literal += fmt::format("\\x{:02x}", c);
    else
      literal += c == quote || c == '\\' ? std::string("\\") + c : std::string(1, c);
  }
  return literal + quote;
}

// Returns the elements of an array or object, with `write` applied to each and a comma between.
template <typename Write>
std::string list_of(const Json& value, const char* comma, Write write) {
  std::string text;
  for (const auto& [key, element] : value.items())
    text += (text.empty() ? "" : comma) + write(key, element);
  return text;
}

// Returns a value as Gemma writes it.
std::string gemma_value(const Json& value, const std::string& quote) {
  if (value.is_string()) return quote + value.get<std::string>() + quote;
  const auto write = [&](const std::string& key, const Json& element) {
    return (value.is_object() ? key + ":" : "") + gemma_value(element, quote);
  };
  if (value.is_object()) return "{" + list_of(value, ",", write) + "}";
  if (value.is_array()) return "[" + list_of(value, ",", write) + "]";
  return value.dump();
}

std::string python_call(const WrittenCall& call) {
  const auto write = [](const std::string& key, const Json& value) {
    return key + "=" + written_python(value);
  };
  return call.name + "(" + list_of(call.arguments, ", ", write) + ")";
}

std::string python_calls(const std::vector<WrittenCall>& calls, const char* between) {
  std::string text;
  for (const WrittenCall& call : calls) text += (text.empty() ? "" : between) + python_call(call);
  return text;
}

std::string tagged_value(const CallTags& tags, const Json& value) {
  const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
  if (tags.has_cdata && text.find_first_of("<&\n") != std::string::npos)
    return "<![CDATA[" + text + "]]>";
  return tags.values_have_lines ? "\n" + text + "\n" : text;
}

std::string tagged_call(const CallTags& tags, const WrittenCall& call) {
  const auto end_of = [](const std::string& begin) { return begin.ends_with('"') ? "\"" : ""; };
  std::string text = tags.name_begin.empty() ? tags.begin : tags.name_begin;
  text += call.name + end_of(tags.name_begin) + (tags.name_end.empty() ? "\n" : tags.name_end);
  for (const auto& [key, value] : call.arguments.items()) {
    text += tags.key_begin + key + end_of(tags.key_begin);
    if (tags.begin.starts_with("<｜DSML｜"))
      text += value.is_string() ? " string=\"true\"" : " string=\"false\"";
    text += tags.key_end + tags.value_begin + tagged_value(tags, value) + tags.value_end + "\n";
  }
  return text + tags.call_end;
}

std::string tagged_calls(const CallTags& tags, const std::vector<WrittenCall>& calls) {
  const bool outer = !tags.name_begin.empty() && !tags.begin.empty();
  // Qwen writes the outer tags around each call.
  const bool of_each = tags.values_have_lines;
  std::string text;
  for (const WrittenCall& call : calls) {
    if (outer && (of_each || text.empty())) text += tags.begin + "\n";
    text += tagged_call(tags, call) + "\n";
    if (outer && of_each) text += tags.end + "\n";
  }
  return outer && !of_each ? text + tags.end : text;
}

std::string gemma_calls(ToolSyntax syntax, const std::vector<WrittenCall>& calls) {
  const bool is_fourth = syntax == ToolSyntax::kGemma4;
  std::string text;
  for (const WrittenCall& call : calls)
    text += (is_fourth ? "<|tool_call>call:" : "<start_function_call>call:") + call.name +
            gemma_value(call.arguments, is_fourth ? "<|\"|>" : "<escape>") +
            (is_fourth ? "<tool_call|>" : "<end_function_call>");
  return text;
}

}  // namespace

std::string written_python(const Json& value) {
  if (value.is_null()) return "None";
  if (value.is_boolean()) return value.get<bool>() ? "True" : "False";
  if (value.is_string()) return python_string(value.get<std::string>());
  const auto write = [&](const std::string& key, const Json& element) {
    return (value.is_object() ? python_string(key) + ": " : "") + written_python(element);
  };
  if (value.is_object()) return "{" + list_of(value, ", ", write) + "}";
  if (value.is_array()) return "[" + list_of(value, ", ", write) + "]";
  return value.dump();
}

std::string written_calls(ToolSyntax syntax, const std::vector<WrittenCall>& calls) {
  switch (syntax) {
    case ToolSyntax::kLfm2:
      return "<|tool_call_start|>[" + python_calls(calls, ", ") + "]<|tool_call_end|>";
    case ToolSyntax::kPythonic:
      return "[" + python_calls(calls, ", ") + "]";
    case ToolSyntax::kOlmo3:
      return "<function_calls>\n" + python_calls(calls, "\n") + "\n</function_calls>";
    case ToolSyntax::kFunctionGemma:
    case ToolSyntax::kGemma4:
      return gemma_calls(syntax, calls);
    default:
      break;
  }
  if (const auto tags = call_tags(syntax)) return tagged_calls(*tags, calls);
  const ToolCallFormat format = tool_call_format(syntax, {}, true);
  std::string text = format.begin;
  for (const WrittenCall& call : calls)
    text += (&call == calls.data() ? "" : format.between) + format.before_name + call.name +
            format.before_arguments + dump_json(call.arguments) + format.after_arguments;
  return text + format.end;
}

const std::vector<ToolSyntax>& all_call_syntaxes() {
  static const std::vector<ToolSyntax> all = [] {
    std::vector<ToolSyntax> list;
    const int last = static_cast<int>(ToolSyntax::kMistralByName);
    for (int i = static_cast<int>(ToolSyntax::kDescribed); i <= last; ++i)
      list.push_back(static_cast<ToolSyntax>(i));
    return list;
  }();
  return all;
}

}  // namespace neuronmm::serve
