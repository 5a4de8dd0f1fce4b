#include "text/tokenizer/component_json.h"

#include "text/unicode/utf8.h"

namespace neuronmm::text {

using nlohmann::json;

Result<Component> read_component(const json& value, const std::string& source) {
  if (!value.is_object())
    return fail("{}: expected an object, found {}", source, io::describe_json(value));
  io::JsonFields fields(value, source);
  NMM_ASSIGN(auto type, fields.string("type"));
  if (!type) return fields.missing("type");
  return Component{std::move(fields), *std::move(type)};
}

Error unsupported(const Component& component, std::string_view supported) {
  return component.fields.wrong("type", supported);
}

Result<Pattern> read_pattern(const io::JsonFields& fields) {
  const json* pattern = fields.find("pattern");
  if (pattern == nullptr) return fields.missing("pattern");
  const bool is_regex = pattern->is_object() && pattern->contains("Regex");
  const bool is_literal = pattern->is_object() && pattern->contains("String");
  if (is_regex == is_literal)
    return fields.wrong("pattern", "{\"Regex\": ...} or {\"String\": ...}");
  const io::JsonFields pattern_fields(*pattern, fields.source() + ".pattern");
  NMM_ASSIGN(auto text, pattern_fields.string(is_regex ? "Regex" : "String"));
  return Pattern{std::move(text).value_or(""),
                 is_regex ? SplitRegex::Kind::kRegex : SplitRegex::Kind::kLiteral};
}

Error pattern_error(const io::JsonFields& fields, const Pattern& pattern, const Error& error) {
  return fail("{}: {}: {:?}", fields.source(), error.message, pattern.text);
}

Result<std::string> read_character(const io::JsonFields& fields, const std::string& key) {
  NMM_ASSIGN(auto text, fields.string(key));
  if (!text) return fields.missing(key);
  if (text->empty() || static_cast<size_t>(next_utf8(*text).length) != text->size())
    return fields.wrong(key, "one character");
  return *std::move(text);
}

Result<bool> read_flag(const io::JsonFields& fields, const std::string& key, bool absent) {
  NMM_ASSIGN(const auto flag, fields.boolean(key));
  return flag.value_or(absent);
}

// Files that are older than prepend_scheme have add_prefix_space instead.
Result<Metaspace> read_metaspace(const io::JsonFields& fields) {
  Metaspace metaspace;
  NMM_ASSIGN(metaspace.replacement, read_character(fields, "replacement"));
  NMM_ASSIGN(metaspace.split, read_flag(fields, "split", true));
  NMM_ASSIGN(const bool add_prefix_space, read_flag(fields, "add_prefix_space", true));
  NMM_ASSIGN(auto scheme, fields.string("prepend_scheme"));
  metaspace.prepend_scheme = std::move(scheme).value_or(add_prefix_space ? "always" : "never");
  for (const char* known : {"always", "first", "never"}) {
    if (metaspace.prepend_scheme == known) return metaspace;
  }
  return fields.wrong("prepend_scheme", "\"always\", \"first\" or \"never\"");
}

}  // namespace neuronmm::text
