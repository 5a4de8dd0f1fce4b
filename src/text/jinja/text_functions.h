#pragma once
// The functions of Python's str, for the methods and filters of texts. Their results keep the
// knowledge which bytes come from messages. They fail if the budget is spent.

#include <cstdint>
#include <optional>
#include <vector>

#include "text/jinja/runtime.h"

namespace neuronmm::text::jinja {

// The following functions are in text_functions.cc.

// Removes these characters from the ends of a text; null means white space.
Result<Value> strip(Runtime& runtime, const TextPtr& text, const Text* characters, bool left,
                    bool right);
// Replaces at most `count` occurrences, or all of them if `count` is -1.
Result<Value> replace(Runtime& runtime, const TextPtr& text, const Text& old, const Text& by,
                      int64_t count);
Result<Value> join(Runtime& runtime, const Text& separator, const std::vector<TextPtr>& parts);
// Fills a text to `width` characters. kLeft puts the text at the left and fills the right side.
enum class Align { kLeft, kRight, kCenter };
Result<Value> pad(Runtime& runtime, const TextPtr& text, int64_t width, Align align,
                  char32_t fill = ' ');
Result<Value> reverse(Runtime& runtime, const TextPtr& text);

// The following functions are in text_case.cc.

enum class Case { kUpper, kLower, kFold, kSwap, kCapitalize, kTitle };
Result<Value> change_case(Runtime& runtime, const TextPtr& text, Case to);
// Applies the filter `title`, for which words begin after white space and -({[<.
Result<Value> title_words(Runtime& runtime, const TextPtr& text);

// The following functions are in text_split.cc.

// Splits at `separator`, or at white space if it is null. There are at most `count` splits, or any
// number if `count` is -1.
Result<Value> split(Runtime& runtime, const TextPtr& text, const Text* separator, int64_t count,
                    bool from_right);
// Returns the lines of a text, as Python's str.splitlines(). If there are more than `most` lines,
// the search ends early and the result has more than `most` lines, too.
std::vector<Span> lines_of(const Text& text, bool keep_ends, size_t most);
// Returns how many substrings the budget has memory for. If more are found, making them fails.
size_t most_substrings(const Budget& budget);
// Returns a list or tuple of these parts of the text.
Result<Value> substrings(Runtime& runtime, const TextPtr& text, const std::vector<Span>& spans,
                         List::Kind kind = List::Kind::kList);

// Computes "{} and {name:>8}".format(...), in str_format.cc.
Result<Value> format_braces(Runtime& runtime, const Text& format, const Arguments& arguments);
// Writes format(value, specification) of Python.
Status write_formatted(Runtime& runtime, const Value& value, std::string_view specification,
                       TextWriter& out);

}  // namespace neuronmm::text::jinja
