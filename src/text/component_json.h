#pragma once
// What the parts of the pipeline in a tokenizer.json have in common: an object with a "type", or a
// Sequence of such objects. A type that we do not run is refused by its name and place.

#include <string>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "io/json_file.h"
#include "text/split_regex.h"

namespace neuronmm::text {

// One step: its object and its "type".
struct Component {
  io::JsonFields fields;
  std::string type;
};

Result<Component> read_component(const nlohmann::json& value, const std::string& source);
Error unsupported(const Component& component, std::string_view supported);

// visit(component) for `value`, or, when it is a Sequence, for each member in `members_key`.
template <typename Visit>
Status for_each_component(const nlohmann::json& value, const std::string& source,
                          const std::string& members_key, const Visit& visit) {
  NMM_ASSIGN(const Component step, read_component(value, source));
  if (step.type != "Sequence") return visit(step);
  const nlohmann::json* members = step.fields.find(members_key);
  if (members == nullptr) return step.fields.missing(members_key);
  if (!members->is_array()) return step.fields.wrong(members_key, "an array");
  for (size_t i = 0; i < members->size(); ++i) {
    NMM_TRY(for_each_component((*members)[i], fmt::format("{}.{}[{}]", source, members_key, i),
                               members_key, visit));
  }
  return {};
}

// "pattern": {"Regex": "..."} or {"String": "..."} of Split and Replace.
struct Pattern {
  std::string text;
  SplitRegex::Kind kind;
};
Result<Pattern> read_pattern(const io::JsonFields& fields);
// The error of a pattern that does not compile, with its place and text.
Error pattern_error(const io::JsonFields& fields, const Pattern& pattern, const Error& error);

// A field that is one character, as a string.
Result<std::string> read_character(const io::JsonFields& fields, const std::string& key);
// A boolean that is false where it is absent.
Result<bool> read_flag(const io::JsonFields& fields, const std::string& key, bool absent = false);

// Metaspace, a pre-tokenizer and a decoder.
struct Metaspace {
  std::string replacement;
  std::string prepend_scheme;  // "always", "first" or "never"
  bool split = true;
};
Result<Metaspace> read_metaspace(const io::JsonFields& fields);

}  // namespace neuronmm::text
