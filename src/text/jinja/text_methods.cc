// The methods of strings.

#include <algorithm>
#include <utility>

#include "text/jinja/arguments.h"
#include "text/jinja/iterator.h"
#include "text/jinja/objects.h"
#include "text/jinja/text_functions.h"
#include "text/jinja/unicode.h"

namespace neuronmm::text::jinja {
namespace {

// Returns a text argument. None counts as an argument that was not given.
Result<const Text*> optional_text(std::string_view function, const Value* value) {
  return text_argument(function, value != nullptr && value->is_none() ? nullptr : value);
}

template <Case to>
Result<Value> case_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
  NMM_TRY(bind("str", arguments, {}, 0));
  return change_case(runtime, self.text_ptr(), to);
}

template <bool left, bool right>
Result<Value> strip_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
  NMM_ASSIGN(const BoundArguments bound, bind("strip", arguments, {""}, 0));
  NMM_ASSIGN(const Text* characters, optional_text("strip", bound[0]));
  return strip(runtime, self.text_ptr(), characters, left, right);
}

template <bool from_right>
Result<Value> split_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
  NMM_ASSIGN(const BoundArguments bound, bind("split", arguments, {"sep", "maxsplit"}, 0));
  NMM_ASSIGN(const Text* separator, optional_text("split", bound[0]));
  NMM_ASSIGN(const int64_t count, integer_argument("split", bound[1], -1));
  return split(runtime, self.text_ptr(), separator, count, from_right);
}

Result<Value> splitlines(Runtime& runtime, const Value& self, const Arguments& arguments) {
  NMM_ASSIGN(const BoundArguments bound, bind("splitlines", arguments, {"keepends"}, 0));
  NMM_TRY(runtime.budget.scan(self.text()->bytes.size()));
  return substrings(
      runtime, self.text_ptr(),
      lines_of(*self.text(), truth_argument(bound[0]), most_substrings(runtime.budget)));
}

template <bool from_right>
Result<Value> partition(Runtime& runtime, const Value& self, const Arguments& arguments) {
  NMM_ASSIGN(const BoundArguments bound, bind("partition", arguments, {""}, 1));
  NMM_ASSIGN(const Text* separator, text_argument("partition", bound[0]));
  if (separator->bytes.empty()) return fail("partition(): empty separator");
  const std::string& bytes = self.text()->bytes;
  const size_t end = bytes.size();
  NMM_TRY(from_right ? charge_backward_search(runtime.budget, bytes, separator->bytes)
                     : runtime.budget.scan(end));
  const size_t found =
      from_right ? bytes.rfind(separator->bytes) : find_bytes(bytes, separator->bytes);
  std::vector<Span> spans = {{0, end}, {end, end}, {end, end}};
  if (found != std::string::npos)
    spans = {{0, found},
             {found, found + separator->bytes.size()},
             {found + separator->bytes.size(), end}};
  else if (from_right)
    spans = {{0, 0}, {0, 0}, {0, end}};
  return substrings(runtime, self.text_ptr(), spans, List::Kind::kTuple);
}

template <bool prefix>
Result<Value> remove_affix(Runtime& runtime, const Value& self, const Arguments& arguments) {
  NMM_ASSIGN(const BoundArguments bound, bind("removeprefix", arguments, {""}, 1));
  NMM_ASSIGN(const Text* affix, text_argument("removeprefix", bound[0]));
  const std::string& bytes = self.text()->bytes;
  const size_t size = affix->bytes.size();
  NMM_TRY(runtime.budget.scan(size));
  Span remaining{0, bytes.size()};
  if (prefix && bytes.starts_with(affix->bytes)) remaining.begin = size;
  if (!prefix && bytes.ends_with(affix->bytes)) remaining.end -= size;
  NMM_ASSIGN(TextPtr result,
             substring(runtime.budget, self.text_ptr(), remaining.begin, remaining.end));
  return Value(std::move(result));
}

// The bytes between two optional indices. `valid` is false if the start lies after the end.
struct IndexRange {
  Span span;
  bool valid;
};

Result<IndexRange> range_of(std::string_view function, const Text& text, const Value* start,
                            const Value* end) {
  const auto absent = [](const Value* value) { return value == nullptr || value->is_none(); };
  const auto length = static_cast<int64_t>(text.length());
  NMM_ASSIGN(int64_t first, integer_argument(function, absent(start) ? nullptr : start, 0));
  NMM_ASSIGN(int64_t last, integer_argument(function, absent(end) ? nullptr : end, length));
  if (first < 0) first = std::max<int64_t>(0, first + length);
  if (last < 0) last = std::max<int64_t>(0, last + length);
  last = std::min(last, length);
  if (first > last) return IndexRange{{0, 0}, false};
  return IndexRange{
      {text.byte_of(static_cast<size_t>(first)), text.byte_of(static_cast<size_t>(last))}, true};
}

template <bool from_right, bool must_exist>
Result<Value> find(Runtime& runtime, const Value& self, const Arguments& arguments) {
  NMM_ASSIGN(const BoundArguments bound, bind("find", arguments, {"", "", ""}, 1));
  NMM_ASSIGN(const Text* wanted, text_argument("find", bound[0]));
  NMM_TRY(runtime.budget.scan(self.text()->bytes.size()));
  NMM_ASSIGN(const IndexRange range, range_of("find", *self.text(), bound[1], bound[2]));
  const std::string_view within = std::string_view(self.text()->bytes)
                                      .substr(range.span.begin, range.span.end - range.span.begin);
  if (from_right) NMM_TRY(charge_backward_search(runtime.budget, within, wanted->bytes));
  const size_t found = !range.valid ? std::string_view::npos
                       : from_right ? within.rfind(wanted->bytes)
                                    : find_bytes(within, wanted->bytes);
  if (found != std::string_view::npos)
    return Value(static_cast<int64_t>(self.text()->index_of(range.span.begin + found)));
  if (must_exist) return fail("index(): substring not found");
  return Value(int64_t{-1});
}

Result<Value> count(Runtime& runtime, const Value& self, const Arguments& arguments) {
  NMM_ASSIGN(const BoundArguments bound, bind("count", arguments, {"", "", ""}, 1));
  NMM_ASSIGN(const Text* wanted, text_argument("count", bound[0]));
  NMM_TRY(runtime.budget.scan(self.text()->bytes.size()));
  NMM_ASSIGN(const IndexRange range, range_of("count", *self.text(), bound[1], bound[2]));
  if (!range.valid) return Value(int64_t{0});
  const std::string_view within = std::string_view(self.text()->bytes)
                                      .substr(range.span.begin, range.span.end - range.span.begin);
  if (wanted->bytes.empty()) return Value(static_cast<int64_t>(count_code_points(within)) + 1);
  int64_t times = 0;
  for (size_t at = find_bytes(within, wanted->bytes); at != std::string_view::npos;
       at = find_bytes(within, wanted->bytes, at + wanted->bytes.size()))
    ++times;
  return Value(times);
}

template <bool at_start>
Result<Value> has_affix(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const std::string_view function = at_start ? "startswith" : "endswith";
  NMM_ASSIGN(const BoundArguments bound, bind(function, arguments, {"", "", ""}, 1));
  NMM_TRY(runtime.budget.scan(self.text()->ascii ? 0 : self.text()->bytes.size()));
  NMM_ASSIGN(const IndexRange range, range_of(function, *self.text(), bound[1], bound[2]));
  const std::string_view within = std::string_view(self.text()->bytes)
                                      .substr(range.span.begin, range.span.end - range.span.begin);
  Values affixes = {*bound[0]};
  if (const List* list = bound[0]->list(); list != nullptr && list->kind != List::Kind::kList)
    affixes = list->items;
  for (const Value& affix : affixes) {
    NMM_ASSIGN(const Text* text, text_argument(function, &affix));
    NMM_TRY(runtime.budget.scan(text->bytes.size()));
    if (range.valid && (at_start ? within.starts_with(text->bytes) : within.ends_with(text->bytes)))
      return Value(true);
  }
  return Value(false);
}

Result<Value> replace_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
  NMM_ASSIGN(const BoundArguments bound, bind("replace", arguments, {"", "", ""}, 2));
  NMM_ASSIGN(const Text* old, text_argument("replace", bound[0]));
  NMM_ASSIGN(const Text* by, text_argument("replace", bound[1]));
  NMM_ASSIGN(const int64_t times, integer_argument("replace", bound[2], -1));
  return replace(runtime, self.text_ptr(), *old, *by, times);
}

Result<Value> join_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
  NMM_ASSIGN(const BoundArguments bound, bind("join", arguments, {""}, 1));
  NMM_ASSIGN(const Values values, to_values(runtime, *bound[0]));
  std::vector<TextPtr> parts;
  for (const Value& value : values) {
    if (value.text() == nullptr)
      return fail("join(): expected strings, found '{}'", value.type_name());
    parts.push_back(value.text_ptr());
  }
  return join(runtime, *self.text(), parts);
}

template <Align align>
Result<Value> pad_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
  NMM_ASSIGN(const BoundArguments bound, bind("center", arguments, {"", ""}, 1));
  NMM_ASSIGN(const int64_t width, integer_argument("center", bound[0], 0));
  NMM_ASSIGN(const Text* fill, text_argument("center", bound[1]));
  if (fill != nullptr && fill->length() != 1)
    return fail("center(): the fill character must be exactly one character long");
  return pad(runtime, self.text_ptr(), width, align,
             fill == nullptr ? U' ' : decode(fill->bytes, 0).value);
}

Result<Value> zfill(Runtime& runtime, const Value& self, const Arguments& arguments) {
  NMM_ASSIGN(const BoundArguments bound, bind("zfill", arguments, {""}, 1));
  NMM_ASSIGN(const int64_t width, integer_argument("zfill", bound[0], 0));
  const Text& text = *self.text();
  const auto length = static_cast<int64_t>(text.length());
  if (width <= length) return self;
  const size_t sign = text.bytes.starts_with('+') || text.bytes.starts_with('-');
  TextWriter writer(runtime.budget);
  writer.append(text, 0, sign);
  writer.append(U'0', static_cast<size_t>(width - length));
  writer.append(text, sign, text.bytes.size());
  NMM_ASSIGN(TextPtr filled, writer.take());
  return Value(std::move(filled));
}

Result<Value> expandtabs(Runtime& runtime, const Value& self, const Arguments& arguments) {
  NMM_ASSIGN(const BoundArguments bound, bind("expandtabs", arguments, {"tabsize"}, 0));
  NMM_ASSIGN(const int64_t size, integer_argument("expandtabs", bound[0], 8));
  const Text& text = *self.text();
  TextWriter writer(runtime.budget);
  int64_t column = 0;
  for (size_t at = 0; at < text.bytes.size() && !writer.full();) {
    const CodePoint c = decode(text.bytes, at);
    if (c.value == '\t') {
      const int64_t spaces = size > 0 ? size - column % size : 0;
      writer.append(U' ', static_cast<size_t>(spaces));
      column += spaces;
    } else {
      writer.append(text, at, at + c.length);
      column = c.value == '\n' || c.value == '\r' ? 0 : column + 1;
    }
    at += c.length;
  }
  NMM_ASSIGN(TextPtr expanded, writer.take());
  return Value(std::move(expanded));
}

Result<Value> format_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
  return format_braces(runtime, *self.text(), arguments);
}

// Returns whether all characters are of this kind. An empty text gives `of_empty`.
template <bool (*is_kind)(char32_t), bool of_empty = false>
Result<Value> all_characters_are(Runtime& runtime, const Value& self, const Arguments& arguments) {
  NMM_TRY(bind("str", arguments, {}, 0));
  const std::string& bytes = self.text()->bytes;
  NMM_TRY(runtime.budget.scan(bytes.size()));
  for (size_t at = 0; at < bytes.size(); at += decode(bytes, at).length) {
    if (!is_kind(decode(bytes, at).value)) return Value(false);
  }
  return Value(of_empty || !bytes.empty());
}

bool is_alphanumeric(char32_t c) { return is_alpha(c) || is_numeric(c); }
bool is_ascii_character(char32_t c) { return c < 0x80; }

// Returns whether the text has cased characters and all of them have this case.
template <bool (*is_case)(char32_t)>
Result<Value> all_cased_characters_are(Runtime& runtime, const Value& self,
                                       const Arguments& arguments) {
  NMM_TRY(bind("str", arguments, {}, 0));
  const std::string& bytes = self.text()->bytes;
  NMM_TRY(runtime.budget.scan(bytes.size()));
  bool has_cased = false;
  for (size_t at = 0; at < bytes.size(); at += decode(bytes, at).length) {
    const char32_t c = decode(bytes, at).value;
    if (is_cased(c) && !is_case(c)) return Value(false);
    has_cased = has_cased || is_case(c);
  }
  return Value(has_cased);
}

Result<Value> istitle(Runtime& runtime, const Value& self, const Arguments& arguments) {
  NMM_TRY(bind("istitle", arguments, {}, 0));
  const std::string& bytes = self.text()->bytes;
  NMM_TRY(runtime.budget.scan(bytes.size()));
  bool has_cased = false, in_word = false;
  for (size_t at = 0; at < bytes.size(); at += decode(bytes, at).length) {
    const char32_t c = decode(bytes, at).value;
    const bool begins = is_upper(c) || is_title(c);
    if ((begins && in_word) || (is_lower(c) && !in_word)) return Value(false);
    in_word = is_cased(c);
    has_cased = has_cased || in_word;
  }
  return Value(has_cased);
}

Result<Value> isidentifier(Runtime& runtime, const Value& self, const Arguments& arguments) {
  NMM_TRY(bind("isidentifier", arguments, {}, 0));
  const std::string& bytes = self.text()->bytes;
  NMM_TRY(runtime.budget.scan(bytes.size()));
  bool is_one = !bytes.empty();
  for (size_t at = 0; at < bytes.size(); at += decode(bytes, at).length) {
    const char32_t c = decode(bytes, at).value;
    is_one = is_one && (at == 0 ? is_identifier_start(c) : is_identifier_part(c));
  }
  return Value(is_one);
}

Result<Value> unsupported(Runtime&, const Value&, const Arguments&) {
  return fail("expected a method of strings that chat templates use, found another");
}

constexpr std::pair<std::string_view, Method> kMethods[] = {
    {"capitalize", case_method<Case::kCapitalize>},
    {"casefold", case_method<Case::kFold>},
    {"center", pad_method<Align::kCenter>},
    {"count", count},
    {"encode", unsupported},
    {"endswith", has_affix<false>},
    {"expandtabs", expandtabs},
    {"find", find<false, false>},
    {"format", format_method},
    {"format_map", unsupported},
    {"index", find<false, true>},
    {"isalnum", all_characters_are<is_alphanumeric>},
    {"isalpha", all_characters_are<is_alpha>},
    {"isascii", all_characters_are<is_ascii_character, true>},
    {"isdecimal", all_characters_are<is_decimal>},
    {"isdigit", all_characters_are<is_digit>},
    {"isidentifier", isidentifier},
    {"islower", all_cased_characters_are<is_lower>},
    {"isnumeric", all_characters_are<is_numeric>},
    {"isprintable", all_characters_are<is_printable, true>},
    {"isspace", all_characters_are<is_space>},
    {"istitle", istitle},
    {"isupper", all_cased_characters_are<is_upper>},
    {"join", join_method},
    {"ljust", pad_method<Align::kLeft>},
    {"lower", case_method<Case::kLower>},
    {"lstrip", strip_method<true, false>},
    {"maketrans", unsupported},
    {"partition", partition<false>},
    {"removeprefix", remove_affix<true>},
    {"removesuffix", remove_affix<false>},
    {"replace", replace_method},
    {"rfind", find<true, false>},
    {"rindex", find<true, true>},
    {"rjust", pad_method<Align::kRight>},
    {"rpartition", partition<true>},
    {"rsplit", split_method<true>},
    {"rstrip", strip_method<false, true>},
    {"split", split_method<false>},
    {"splitlines", splitlines},
    {"startswith", has_affix<true>},
    {"strip", strip_method<true, true>},
    {"swapcase", case_method<Case::kSwap>},
    {"title", case_method<Case::kTitle>},
    {"translate", unsupported},
    {"upper", case_method<Case::kUpper>},
    {"zfill", zfill},
};

}  // namespace

Method find_text_method(std::string_view name) {
  const auto* const found =
      std::ranges::lower_bound(kMethods, name, {}, [](const auto& method) { return method.first; });
  return found != std::end(kMethods) && found->first == name ? found->second : nullptr;
}

}  // namespace neuronmm::text::jinja
