#pragma once
// JSON to values and values to JSON.

#include <nlohmann/json_fwd.hpp>

#include "text/jinja/runtime.h"

namespace neuronmm::text::jinja {

// `said`: all its strings, keys included, come from messages.
Result<Value> from_json(Runtime& runtime, const nlohmann::ordered_json& json, bool said);

// json.dumps() of Python.
struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  const Text* indent = nullptr;          // null: on one line
  const Text* item_separator = nullptr;  // null: ", " or, with an indent, ","
  const Text* key_separator = nullptr;   // null: ": "
};
// An error for what JSON has not: undefined values, objects, keys that are lists.
Status write_json(Runtime& runtime, const Value& value, const JsonStyle& style, TextWriter& out);

// Entries by their keys, as Python's sorted() has them.
Result<std::vector<std::pair<Value, Value>>> sorted_entries(Runtime& runtime, const Dict& dict);

}  // namespace neuronmm::text::jinja
