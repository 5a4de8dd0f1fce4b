#pragma once
// Helpers for the readers of the pipeline in a tokenizer.json (normalizer, pre-tokenizer,
// post-processor, decoder). Each part is an object with a "type", or a Sequence of such objects. A
// type that we do not run is an error with its name and place.

#include <string>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "io/json_file.h"
#include "text/unicode/split_regex.h"

namespace neuronmm::text {

// A step of the pipeline: its JSON object and its "type".
struct Component {
  io::JsonFields fields;
  std::string type;
};

// Fails if the value is no object or has no "type".
Result<Component> read_component(const nlohmann::json& value, const std::string& source);
// Returns the error for a step whose type is not among the `supported` ones.
Error unsupported(const Component& component, std::string_view supported);

// Calls visit(component) for `value`, or for each member in `members_key` if `value` is a Sequence.
// Sequences may be nested.
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

// The "pattern" of Split and Replace, {"Regex": "..."} or {"String": "..."}.
struct Pattern {
  std::string text;
  SplitRegex::Kind kind;
};
Result<Pattern> read_pattern(const io::JsonFields& fields);
// Returns the error for a pattern that does not compile, with its place and its text.
Error pattern_error(const io::JsonFields& fields, const Pattern& pattern, const Error& error);

// Reads a string that must be one character.
Result<std::string> read_character(const io::JsonFields& fields, const std::string& key);
// Reads a boolean, which has the value `absent` if the field is missing.
Result<bool> read_flag(const io::JsonFields& fields, const std::string& key, bool absent = false);

// The fields of a Metaspace step, which exists as a pre-tokenizer and as a decoder.
struct Metaspace {
  std::string replacement;
  std::string prepend_scheme;  // The value is "always", "first" or "never".
  bool split = true;
};
Result<Metaspace> read_metaspace(const io::JsonFields& fields);

}  // namespace neuronmm::text
