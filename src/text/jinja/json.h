#pragma once
// Converts JSON to values for the variables of a template (template.cc), and values to JSON for the
// filter `tojson` (filters_text.cc).

#include <nlohmann/json_fwd.hpp>

#include "text/jinja/runtime.h"

namespace neuronmm::text::jinja {

// Converts JSON to a value. With `from_messages`, all its strings and keys are marked as coming
// from messages. Fails for JSON that is nested too deep, for integers of more than 64 bits, for
// binary data, and if the budget is spent.
Result<Value> from_json(Runtime& runtime, const nlohmann::ordered_json& json, bool from_messages);

// The options of Python's json.dumps().
struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  // If null, the JSON is on one line.
  const Text* indent = nullptr;
  // If null, the separator is ", ", or "," with an indent.
  const Text* item_separator = nullptr;
  // If null, the separator is ": ".
  const Text* key_separator = nullptr;
};
// Writes a value as JSON. Fails for undefined values, objects, and keys that are lists.
Status write_json(Runtime& runtime, const Value& value, const JsonStyle& style, TextWriter& out);

// Returns the entries in the order of their keys, as Python's sorted() has them.
Result<std::vector<std::pair<Value, Value>>> sorted_entries(Runtime& runtime, const Dict& dict);

}  // namespace neuronmm::text::jinja
