#pragma once
// A template's source as tokens, with the white space control of Jinja: trim_blocks and
// lstrip_blocks are on, as transformers has them for chat templates.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace neuronmm::text::jinja {

// Where something stands in the source, both from 1. Columns count bytes.
struct Place {
  int line = 1, column = 1;
};

struct Token {
  enum class Kind {
    kData,           // text outside of all tags
    kVariableBegin,  // {{
    kVariableEnd,
    kBlockBegin,  // {%
    kBlockEnd,
    kName,
    kString,  // `text` is what it means
    kInteger,
    kFloat,
    kOperator,  // `text` is it
    kEnd,
  };
  Kind kind;
  std::string text;
  Place place;
  int64_t integer = 0;
  double real = 0.0;
};

// An error begins with "LINE:COLUMN: ". The last token is kEnd.
Result<std::vector<Token>> tokenize(std::string_view source);

}  // namespace neuronmm::text::jinja
