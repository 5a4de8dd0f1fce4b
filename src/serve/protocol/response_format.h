#pragma once
// The shape that a request asks for its answer, in any of the ways that clients write it: OpenAI's
// response_format, vLLM's structured_outputs and guided_*, llama.cpp's json_schema.

#include <string>
#include <vector>

#include "serve/protocol/field_reader.h"

namespace neuronmm::serve {

struct ResponseFormat {
  enum class Kind {
    kText,        // any
    kJsonObject,  // any JSON object
    kJsonSchema,  // JSON of `schema`
    kPattern,     // a text that `pattern` matches from end to end
  };
  Kind kind = Kind::kText;
  Json schema = {};
  std::string pattern = {};
  std::string param = {};  // the field that asked for it
};

// The fields that read_response_format reads.
std::vector<RequestField> response_format_fields();
// At most one field may ask for a shape.
ResponseFormat read_response_format(FieldReader& fields);
// Of these OpenAI's: an object whose "type" is text, json_object or json_schema.
ResponseFormat read_openai_format(FieldReader& fields, const char* key);

}  // namespace neuronmm::serve
