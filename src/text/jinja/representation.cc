// Writes values as Python's str() and repr() do.

#include "text/jinja/iterator.h"
#include "text/jinja/number.h"
#include "text/jinja/runtime.h"
#include "text/jinja/unicode.h"

namespace neuronmm::text::jinja {
namespace {

// Returns the escape of a character between quotes, or an empty string if the character stays as it
// is.
std::string escape(char32_t c, char quote) {
  switch (c) {
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    case '\\':
      return "\\\\";
    default:
      break;
  }
  if (c == static_cast<char32_t>(quote)) return std::string("\\") + quote;
  if (is_printable(c)) return {};
  const auto number = static_cast<uint32_t>(c);
  if (c < 0x100) return fmt::format("\\x{:02x}", number);
  return c < 0x10000 ? fmt::format("\\u{:04x}", number) : fmt::format("\\U{:08x}", number);
}

// Writes the text in single quotes, or in double quotes if it contains single ones only.
void write_quoted(const Text& text, TextWriter& out) {
  const bool has_single = text.bytes.find('\'') != std::string::npos;
  const char quote = has_single && text.bytes.find('"') == std::string::npos ? '"' : '\'';
  if (text.markup) out.append("Markup(");
  out.append(std::string_view(&quote, 1));
  size_t hint = 0;
  for (size_t at = 0; at < text.bytes.size() && !out.full();) {
    const CodePoint c = decode(text.bytes, at);
    if (const std::string escaped = escape(c.value, quote); !escaped.empty())
      out.append(escaped, is_from_message(text, at, hint));
    else
      out.append(text, at, at + c.length);
    at += c.length;
  }
  out.append(std::string_view(&quote, 1));
  if (text.markup) out.append(")");
}

void write_list(Runtime& runtime, const List& list, TextWriter& out) {
  const bool is_list = list.kind == List::Kind::kList;
  out.append(is_list ? "[" : "(");
  for (size_t i = 0; i < list.items.size() && !out.full(); ++i) {
    if (i > 0) out.append(", ");
    write_representation(runtime, list.items[i], out);
  }
  if (!is_list && list.items.size() == 1) out.append(",");
  out.append(is_list ? "]" : ")");
}

void write_dict(Runtime& runtime, const Dict& dict, TextWriter& out) {
  out.append("{");
  bool first = true;
  for (const auto& [key, value] : dict.entries) {
    if (out.full()) return;
    if (!first) out.append(", ");
    first = false;
    write_representation(runtime, key, out);
    out.append(": ");
    write_representation(runtime, value, out);
  }
  out.append("}");
}

void write_view(Runtime& runtime, const DictView& view, TextWriter& out) {
  out.append(fmt::format("{}([", view.type_name()));
  bool first = true;
  for (const auto& [key, value] : view.dict()->entries) {
    if (out.full()) return;
    if (!first) out.append(", ");
    first = false;
    if (view.kind() == DictView::Kind::kItems) out.append("(");
    if (view.kind() != DictView::Kind::kValues) write_representation(runtime, key, out);
    if (view.kind() == DictView::Kind::kItems) out.append(", ");
    if (view.kind() != DictView::Kind::kKeys) write_representation(runtime, value, out);
    if (view.kind() == DictView::Kind::kItems) out.append(")");
  }
  out.append("])");
}

// Python shows memory addresses for most objects, which differ in every run, so they are left out.
void write_object(Runtime& runtime, Object& object, TextWriter& out) {
  if (const auto* view = dynamic_cast<DictView*>(&object)) return write_view(runtime, *view, out);
  if (const auto* range = dynamic_cast<Range*>(&object)) {
    const std::string step = range->step() == 1 ? "" : fmt::format(", {}", range->step());
    out.append(fmt::format("range({}, {}{})", range->start(), range->stop(), step));
    return;
  }
  out.append(fmt::format("<{} object>", object.type_name()));
}

}  // namespace

void write_representation(Runtime& runtime, const Value& value, TextWriter& out) {
  if (value.is_none()) return out.append("None");
  if (value.is_undefined()) return out.append("Undefined");
  if (value.is_bool()) return out.append(*value.boolean() ? "True" : "False");
  if (value.integer()) return out.append(fmt::format("{}", *value.integer()));
  if (value.real() != nullptr) return out.append(float_representation(*value.real()));
  if (value.text() != nullptr) return write_quoted(*value.text(), out);
  if (value.list() != nullptr) return write_list(runtime, *value.list(), out);
  if (value.dict() != nullptr) return write_dict(runtime, *value.dict(), out);
  write_object(runtime, *value.object(), out);
}

void write_text(Runtime& runtime, const Value& value, TextWriter& out) {
  if (value.text() != nullptr) return out.append(*value.text());
  if (!value.is_undefined()) write_representation(runtime, value, out);
}

Result<TextPtr> to_text(Runtime& runtime, const Value& value) {
  if (value.text() != nullptr) return value.text_ptr();
  TextWriter writer(runtime.budget);
  write_text(runtime, value, writer);
  return writer.take();
}

std::optional<size_t> length_of(const Value& value) {
  if (value.is_undefined()) return 0;
  if (value.text() != nullptr) return value.text()->length();
  if (value.list() != nullptr) return value.list()->items.size();
  if (value.dict() != nullptr) return value.dict()->entries.size();
  return value.object() != nullptr ? value.object()->length() : std::nullopt;
}

}  // namespace neuronmm::text::jinja
