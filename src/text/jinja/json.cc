#include "text/jinja/json.h"

#include <cmath>

#include <nlohmann/json.hpp>

#include "text/jinja/iterator.h"
#include "text/jinja/number.h"
#include "text/jinja/sorting.h"
#include "text/jinja/unicode.h"

namespace neuronmm::text::jinja {
namespace {

class JsonWriter {
 public:
  JsonWriter(Runtime& runtime, const JsonStyle& style, TextWriter& out)
      : runtime_(runtime), style_(style), out_(out) {}

  Status write(const Value& value) {
    if (out_.full()) return fail("JSON that is too long");
    NMM_TRY(runtime_.budget.spend(1));
    if (value.text() != nullptr) {
      write_string(*value.text());
    } else if (value.list() != nullptr) {
      return write_list(value.list()->items);
    } else if (value.dict() != nullptr) {
      return write_dict(*value.dict());
    } else if (const auto plain = scalar(value)) {
      out_.append(*plain);
    } else if (dynamic_cast<Iterator*>(value.object()) != nullptr) {
      // Python refuses this. The Jinja of llama.cpp makes lists, and templates rely on it.
      NMM_ASSIGN(const Values items, to_values(runtime_, value));
      return write_list(items);
    } else {
      return fail("object of type {} is not JSON serializable", value.type_name());
    }
    return {};
  }

 private:
  static std::optional<std::string> scalar(const Value& value) {
    if (value.is_none()) return "null";
    if (value.is_bool()) return *value.boolean() ? "true" : "false";
    if (value.integer()) return fmt::format("{}", *value.integer());
    if (value.real() == nullptr) return std::nullopt;
    if (std::isnan(*value.real())) return "NaN";
    if (std::isinf(*value.real())) return *value.real() < 0 ? "-Infinity" : "Infinity";
    return float_representation(*value.real());
  }

  // Returns the escape of a character, or an empty string if the character stays as it is.
  std::string escape(char32_t c) const {
    constexpr std::string_view kLetters = "\"\\\n\r\t\f\b", kNames = "\"\\nrtfb";
    if (c < 0x80) {
      const size_t known = kLetters.find(static_cast<char>(c));
      if (known != std::string_view::npos) return std::string("\\") + kNames[known];
      return c < 0x20 ? fmt::format("\\u{:04x}", static_cast<uint32_t>(c)) : std::string();
    }
    if (!style_.ensure_ascii) return {};
    const auto number = static_cast<uint32_t>(c);
    if (number < 0x10000) return fmt::format("\\u{:04x}", number);
    return fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + ((number - 0x10000) >> 10),
                       0xDC00 + ((number - 0x10000) & 0x3FF));
  }

  void write_string(const Text& text) {
    out_.append("\"");
    size_t hint = 0;
    for (size_t at = 0; at < text.bytes.size() && !out_.full();) {
      const CodePoint c = decode(text.bytes, at);
      if (const std::string escaped = escape(c.value); !escaped.empty())
        out_.append(escaped, is_from_message(text, at, hint));
      else
        out_.append(text, at, at + c.length);
      at += c.length;
    }
    out_.append("\"");
  }

  void append_or(const Text* text, std::string_view otherwise) {
    if (text != nullptr)
      out_.append(*text);
    else
      out_.append(otherwise);
  }

  void new_line() {
    if (style_.indent == nullptr) return;
    out_.append("\n");
    for (int i = 0; i < level_ && !out_.full(); ++i) out_.append(*style_.indent);
  }

  void separate(bool first) {
    if (!first) append_or(style_.item_separator, style_.indent == nullptr ? ", " : ",");
    new_line();
  }

  Status write_list(const Values& items) {
    if (items.empty()) {
      out_.append("[]");
      return {};
    }
    out_.append("[");
    ++level_;
    for (size_t i = 0; i < items.size(); ++i) {
      separate(i == 0);
      NMM_TRY(write(items[i]));
    }
    --level_;
    new_line();
    out_.append("]");
    return {};
  }

  Status write_dict(const Dict& dict) {
    if (dict.entries.empty()) {
      out_.append("{}");
      return {};
    }
    auto entries = dict.entries;
    if (style_.sort_keys) {
      NMM_ASSIGN(entries, sorted_entries(runtime_, dict));
    }
    out_.append("{");
    ++level_;
    for (size_t i = 0; i < entries.size(); ++i) {
      separate(i == 0);
      NMM_TRY(write_key(entries[i].first));
      append_or(style_.key_separator, ": ");
      NMM_TRY(write(entries[i].second));
    }
    --level_;
    new_line();
    out_.append("}");
    return {};
  }

  Status write_key(const Value& key) {
    if (key.text() != nullptr) {
      write_string(*key.text());
    } else if (const auto plain = scalar(key)) {
      out_.append("\"" + *plain + "\"");
    } else {
      return fail("JSON keys must be strings, numbers, booleans or None, found '{}'",
                  key.type_name());
    }
    return {};
  }

  Runtime& runtime_;
  const JsonStyle& style_;
  TextWriter& out_;
  int level_ = 0;
};

}  // namespace

Result<Value> from_json(Runtime& runtime, const nlohmann::ordered_json& json, bool from_messages) {
  using Type = nlohmann::ordered_json::value_t;
  const Budget::Level level(runtime.budget);
  NMM_TRY(level.check());
  switch (json.type()) {
    case Type::null:
      return Value();
    case Type::boolean:
      return Value(json.get<bool>());
    case Type::number_integer:
      return Value(json.get<int64_t>());
    case Type::number_unsigned:
      if (json.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) return integer_overflow();
      return Value(json.get<int64_t>());
    case Type::number_float:
      return Value(json.get<double>());
    case Type::string:
      return make_text(runtime, json.get_ref<const std::string&>(), from_messages);
    case Type::array: {
      Values items;
      for (const auto& item : json) {
        NMM_ASSIGN(items.emplace_back(), from_json(runtime, item, from_messages));
      }
      return make_list(runtime, std::move(items));
    }
    case Type::object: {
      DictBuilder dict(runtime);
      for (const auto& [key, item] : json.items()) {
        NMM_ASSIGN(const Value key_text, make_text(runtime, key, from_messages));
        NMM_ASSIGN(Value value, from_json(runtime, item, from_messages));
        NMM_TRY(dict.set(key_text, std::move(value)));
      }
      return dict.take();
    }
    default:
      return fail("expected JSON, found binary data");
  }
}

Status write_json(Runtime& runtime, const Value& value, const JsonStyle& style, TextWriter& out) {
  return JsonWriter(runtime, style, out).write(value);
}

Result<std::vector<std::pair<Value, Value>>> sorted_entries(Runtime& runtime, const Dict& dict) {
  auto entries = dict.entries;
  NMM_TRY(sort_by_key(
      runtime, entries, [](const auto& entry) { return entry.first; }, false));
  return entries;
}

}  // namespace neuronmm::text::jinja
