// The filters that make texts.

#include <algorithm>

#include "text/jinja/filters.h"
#include "text/jinja/iterator.h"
#include "text/jinja/json.h"
#include "text/jinja/operators.h"
#include "text/jinja/text_functions.h"
#include "text/jinja/unicode.h"

namespace neuronmm::text::jinja {
namespace {

FilterResult with_case(Runtime& runtime, const Value& value, const Arguments& arguments, Case to) {
  NMM_TRY(bind("filter", arguments, {}, 0));
  NMM_ASSIGN(const TextPtr text, to_text(runtime, value));
  return change_case(runtime, text, to);
}

Result<Value> finish(TextWriter& writer, bool markup = false) {
  NMM_ASSIGN(TextPtr text, writer.take(markup));
  return Value(std::move(text));
}

// Returns the given text, or the given number of spaces.
Result<TextPtr> indention_of(Runtime& runtime, const Value* width) {
  if (width != nullptr && width->text() != nullptr) return width->text_ptr();
  NMM_ASSIGN(const int64_t spaces, integer_argument("indent", width, 4));
  TextWriter writer(runtime.budget);
  writer.append(U' ', static_cast<size_t>(std::max<int64_t>(spaces, 0)));
  return writer.take();
}

}  // namespace

FilterResult filter_capitalize(Runtime& runtime, const Value& value, const Arguments& arguments) {
  return with_case(runtime, value, arguments, Case::kCapitalize);
}

FilterResult filter_lower(Runtime& runtime, const Value& value, const Arguments& arguments) {
  return with_case(runtime, value, arguments, Case::kLower);
}

FilterResult filter_upper(Runtime& runtime, const Value& value, const Arguments& arguments) {
  return with_case(runtime, value, arguments, Case::kUpper);
}

FilterResult filter_title(Runtime& runtime, const Value& value, const Arguments& arguments) {
  NMM_TRY(bind("title", arguments, {}, 0));
  NMM_ASSIGN(const TextPtr text, to_text(runtime, value));
  return title_words(runtime, text);
}

FilterResult filter_center(Runtime& runtime, const Value& value, const Arguments& arguments) {
  NMM_ASSIGN(const BoundArguments bound, bind("center", arguments, {"width"}, 0));
  NMM_ASSIGN(const int64_t width, integer_argument("center", bound[0], 80));
  NMM_ASSIGN(const TextPtr text, to_text(runtime, value));
  return pad(runtime, text, width, Align::kCenter);
}

FilterResult filter_escape(Runtime& runtime, const Value& value, const Arguments& arguments) {
  NMM_TRY(bind("escape", arguments, {}, 0));
  NMM_ASSIGN(TextPtr text, escape_markup(runtime, value));
  return Value(std::move(text));
}

FilterResult filter_forceescape(Runtime& runtime, const Value& value, const Arguments& arguments) {
  NMM_TRY(bind("forceescape", arguments, {}, 0));
  TextWriter plain(runtime.budget);
  write_text(runtime, value, plain);
  NMM_ASSIGN(const Value text, finish(plain));
  NMM_ASSIGN(TextPtr escaped, escape_markup(runtime, text));
  return Value(std::move(escaped));
}

FilterResult filter_safe(Runtime& runtime, const Value& value, const Arguments& arguments) {
  NMM_TRY(bind("safe", arguments, {}, 0));
  TextWriter writer(runtime.budget);
  write_text(runtime, value, writer);
  return finish(writer, true);
}

FilterResult filter_string(Runtime& runtime, const Value& value, const Arguments& arguments) {
  NMM_TRY(bind("string", arguments, {}, 0));
  NMM_ASSIGN(TextPtr text, to_text(runtime, value));
  return Value(std::move(text));
}

FilterResult filter_format(Runtime& runtime, const Value& value, const Arguments& arguments) {
  if (!arguments.positional.empty() && !arguments.named.empty())
    return fail("can't handle positional and keyword arguments at the same time");
  NMM_ASSIGN(const TextPtr format, to_text(runtime, value));
  if (arguments.named.empty()) {
    NMM_ASSIGN(const Value values, make_tuple(runtime, arguments.positional));
    return format_percent(runtime, *format, values);
  }
  DictBuilder named(runtime);
  for (const auto& [name, argument] : arguments.named) {
    NMM_ASSIGN(const Value key, make_text(runtime, name));
    NMM_TRY(named.set(key, argument));
  }
  NMM_ASSIGN(const Value values, named.take());
  return format_percent(runtime, *format, values);
}

FilterResult filter_indent(Runtime& runtime, const Value& value, const Arguments& arguments) {
  NMM_ASSIGN(const BoundArguments bound, bind("indent", arguments, {"width", "first", "blank"}, 0));
  if (value.is_undefined()) return fail("{}", value.undefined_message());
  if (value.text() == nullptr)
    return fail("indent(): expected a string, found '{}'", value.type_name());
  const bool blank = truth_argument(bound[2]);
  NMM_ASSIGN(const TextPtr indention, indention_of(runtime, bound[0]));
  const TextPtr& text = value.text_ptr();
  // Jinja appends a newline before it splits the lines, so that a last empty line counts.
  NMM_TRY(runtime.budget.scan(text->bytes.size()));
  const size_t most = runtime.budget.remaining_bytes() / sizeof(Span);
  std::vector<Span> lines = lines_of(*text, false, most);
  if (lines.size() > most) return fail("indent(): a text of more than {} lines", most);
  const size_t end = text->bytes.size();
  if (end == 0 || is_line_end(decode_before(text->bytes, end).value)) lines.push_back({end, end});
  TextWriter writer(runtime.budget);
  for (size_t i = 0; i < lines.size() && !writer.full(); ++i) {
    const bool empty = lines[i].begin == lines[i].end;
    if (i > 0) writer.append("\n");
    if (i > 0 ? blank || !empty : truth_argument(bound[1])) writer.append(*indention);
    writer.append(*text, lines[i].begin, lines[i].end);
  }
  return finish(writer, text->markup);
}

FilterResult filter_join(Runtime& runtime, const Value& value, const Arguments& arguments) {
  NMM_ASSIGN(const BoundArguments bound, bind("join", arguments, {"d", "attribute"}, 0));
  NMM_ASSIGN(const Values values, to_values(runtime, value));
  std::vector<TextPtr> parts;
  for (const Value& item : values) {
    NMM_ASSIGN(const Value attribute, attribute_path(runtime, item, bound[1]));
    NMM_ASSIGN(parts.emplace_back(), to_text(runtime, attribute));
  }
  static const Value kNothing(std::make_shared<const Text>());
  NMM_ASSIGN(const TextPtr separator, to_text(runtime, bound[0] != nullptr ? *bound[0] : kNothing));
  return join(runtime, *separator, parts);
}

FilterResult filter_replace(Runtime& runtime, const Value& value, const Arguments& arguments) {
  NMM_ASSIGN(const BoundArguments bound, bind("replace", arguments, {"old", "new", "count"}, 2));
  NMM_ASSIGN(const TextPtr text, to_text(runtime, value));
  NMM_ASSIGN(const TextPtr old, to_text(runtime, *bound[0]));
  NMM_ASSIGN(const TextPtr by, to_text(runtime, *bound[1]));
  const bool all = bound[2] == nullptr || bound[2]->is_none();
  NMM_ASSIGN(const int64_t count, integer_argument("replace", all ? nullptr : bound[2], -1));
  return replace(runtime, text, *old, *by, count);
}

// Follows transformers instead of Jinja: nothing is escaped for HTML.
FilterResult filter_tojson(Runtime& runtime, const Value& value, const Arguments& arguments) {
  NMM_ASSIGN(const BoundArguments bound,
             bind("tojson", arguments, {"ensure_ascii", "indent", "separators", "sort_keys"}, 0));
  JsonStyle style{.ensure_ascii = truth_argument(bound[0]), .sort_keys = truth_argument(bound[3])};
  TextPtr indent;
  if (bound[1] != nullptr && !bound[1]->is_none()) {
    NMM_ASSIGN(indent, indention_of(runtime, bound[1]));
    style.indent = indent.get();
  }
  Values separators;
  if (bound[2] != nullptr && !bound[2]->is_none()) {
    NMM_ASSIGN(separators, to_values(runtime, *bound[2]));
    if (separators.size() != 2 || separators[0].text() == nullptr ||
        separators[1].text() == nullptr)
      return fail("tojson(): expected two strings as separators");
    style.item_separator = separators[0].text();
    style.key_separator = separators[1].text();
  }
  TextWriter writer(runtime.budget);
  NMM_TRY(write_json(runtime, value, style, writer));
  return finish(writer);
}

FilterResult filter_trim(Runtime& runtime, const Value& value, const Arguments& arguments) {
  NMM_ASSIGN(const BoundArguments bound, bind("trim", arguments, {"chars"}, 0));
  const bool white_space = bound[0] == nullptr || bound[0]->is_none();
  NMM_ASSIGN(const Text* characters, text_argument("trim", white_space ? nullptr : bound[0]));
  NMM_ASSIGN(const TextPtr text, to_text(runtime, value));
  return strip(runtime, text, characters, true, true);
}

FilterResult filter_truncate(Runtime& runtime, const Value& value, const Arguments& arguments) {
  NMM_ASSIGN(const BoundArguments bound,
             bind("truncate", arguments, {"length", "killwords", "end", "leeway"}, 0));
  static const Text kDots{.bytes = "...", .from_messages = {}};
  NMM_ASSIGN(const int64_t length, integer_argument("truncate", bound[0], 255));
  NMM_ASSIGN(const Text* end, text_argument("truncate", bound[2], &kDots));
  const bool given = bound[3] != nullptr && !bound[3]->is_none();
  NMM_ASSIGN(const int64_t leeway, integer_argument("truncate", given ? bound[3] : nullptr, 5));
  const auto end_length = static_cast<int64_t>(end->length());
  if (length < end_length || leeway < 0)
    return fail("truncate(): expected a length of {} and a leeway of 0 at least", end_length);
  const auto size = length_of(value);
  if (size && static_cast<int64_t>(*size) - length <= leeway) return value;
  if (value.text() == nullptr)
    return fail("truncate(): expected a string, found '{}'", value.type_name());
  const Text& text = *value.text();
  NMM_TRY(runtime.budget.scan(text.bytes.size()));
  size_t cut = text.byte_of(static_cast<size_t>(length - end_length));
  if (!truth_argument(bound[1])) {
    const size_t space = std::string_view(text.bytes).substr(0, cut).rfind(' ');
    if (space != std::string_view::npos) cut = space;
  }
  TextWriter writer(runtime.budget);
  writer.append(text, 0, cut);
  writer.append(*end);
  return finish(writer);
}

FilterResult filter_wordcount(Runtime& runtime, const Value& value, const Arguments& arguments) {
  NMM_TRY(bind("wordcount", arguments, {}, 0));
  NMM_ASSIGN(const TextPtr text, to_text(runtime, value));
  NMM_TRY(runtime.budget.scan(text->bytes.size()));
  int64_t words = 0;
  bool in_word = false;
  for (size_t at = 0; at < text->bytes.size(); at += decode(text->bytes, at).length) {
    const bool word = is_word(decode(text->bytes, at).value);
    words += word && !in_word;
    in_word = word;
  }
  return Value(words);
}

}  // namespace neuronmm::text::jinja
