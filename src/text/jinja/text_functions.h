#pragma once
// What Python's str does, on texts that know what was said: each result knows it too.

#include <cstdint>
#include <optional>
#include <vector>

#include "text/jinja/runtime.h"

namespace neuronmm::text::jinja {

// text_functions.cc
// Without these characters (null: white space) at its ends.
Result<Value> strip(Runtime& runtime, const TextPtr& text, const Text* characters, bool left,
                    bool right);
// At most `count` times; -1: all.
Result<Value> replace(Runtime& runtime, const TextPtr& text, const Text& old, const Text& by,
                      int64_t count);
Result<Value> join(Runtime& runtime, const Text& separator, const std::vector<TextPtr>& parts);
// Filled to `width` characters: on the right, on the left, or on both sides.
enum class Align { kLeft, kRight, kCenter };
Result<Value> pad(Runtime& runtime, const TextPtr& text, int64_t width, Align align,
                  char32_t fill = ' ');
Result<Value> reverse(Runtime& runtime, const TextPtr& text);

// text_case.cc
enum class Case { kUpper, kLower, kFold, kSwap, kCapitalize, kTitle };
Result<Value> change_case(Runtime& runtime, const TextPtr& text, Case to);
// The filter `title`, where words begin after white space and -({[<.
Result<Value> title_words(Runtime& runtime, const TextPtr& text);

// text_split.cc
// By white space where `separator` is null. At most `count` times; -1: everywhere.
Result<Value> split(Runtime& runtime, const TextPtr& text, const Text* separator, int64_t count,
                    bool from_right);
std::vector<Span> lines_of(const Text& text, bool keep_ends);
Result<Value> parts_of(Runtime& runtime, const TextPtr& text, const std::vector<Span>& spans,
                       List::Kind kind = List::Kind::kList);

// str_format.cc: "{} and {name:>8}".format(...)
Result<Value> format_braces(Runtime& runtime, const Text& format, const Arguments& arguments);
// format(value, specification) of Python.
Status write_formatted(Runtime& runtime, const Value& value, std::string_view specification,
                       TextWriter& out);

}  // namespace neuronmm::text::jinja
