#pragma once
// Splits the source of a template into tokens, and applies Jinja's white space control. The options
// trim_blocks and lstrip_blocks are on, as transformers has them for chat templates. The parser
// (parser.h) calls tokenize().

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace neuronmm::text::jinja {

// A position in the source. Lines and columns count from 1, and columns count bytes.
struct SourcePosition {
  int line = 1, column = 1;
};

// A piece of the source.
struct Token {
  enum class Kind {
    kData,           // Text outside of all tags.
    kVariableBegin,  // The sign {{.
    kVariableEnd,
    kBlockBegin,  // The sign {%.
    kBlockEnd,
    kName,
    // `text` is the string without quotes and escapes.
    kString,
    kInteger,   // The value is in `integer`.
    kFloat,     // The value is in `real`.
    kOperator,  // `text` is the operator.
    kEnd,       // The end of the source.
  };
  Kind kind;
  std::string text;
  SourcePosition position;
  int64_t integer = 0;
  double real = 0.0;
};

// Splits the source. The last token is kEnd, and there is no other kEnd. Fails for unknown
// characters in a tag, for brackets that do not match, for malformed strings and numbers, and for
// strings, comments or raw blocks that do not end. An error begins with "LINE:COLUMN: ".
Result<std::vector<Token>> tokenize(std::string_view source);

}  // namespace neuronmm::text::jinja
