#pragma once
// Reads the output format that a request demands, in any of the forms that clients use: OpenAI's
// response_format, vLLM's structured_outputs and guided_*, llama.cpp's json_schema and grammar. The
// readers of requests use it. Errors are recorded in the RequestProblem of the request.

#include <string>
#include <vector>

#include "serve/requests/field_reader.h"

namespace neuronmm::serve {

// An output format.
struct ResponseFormat {
  enum class Kind {
    kText,        // any text
    kJsonObject,  // any JSON object
    kJsonSchema,  // JSON that obeys `schema`
    kPattern,     // a text that the regular expression `pattern` matches fully
    kGrammar,     // a text of the grammar `pattern`, which is GBNF
  };
  Kind kind = Kind::kText;
  Json schema = {};
  std::string pattern = {};
  std::string param = {};  // the field that demands the format, for errors
};

// Sets `all` to the format of another field, unless that is any text. Records an error if `all` is
// a format other than any text already.
void add_format(ResponseFormat format, ResponseFormat& all, RequestProblem& problem);

// Returns the fields that read_response_format reads.
std::vector<RequestField> response_format_fields();
// Reads all fields that can demand a format. At most one of them may.
ResponseFormat read_response_format(FieldReader& fields);
// Reads OpenAI's form from the field `key`: an object whose "type" is text, json_object or
// json_schema.
ResponseFormat read_openai_format(FieldReader& fields, const char* key);

}  // namespace neuronmm::serve
