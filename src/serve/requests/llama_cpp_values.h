#pragma once
// The values that only the fields of llama.cpp's endpoints have: texts mixed with token ids,
// biases, and lists of texts. The reader of these requests (llama_cpp_request.h) uses them.

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "serve/engine/request.h"
#include "serve/requests/field_reader.h"

namespace neuronmm::serve {

using text::TokenId;

// Texts and token ids that follow each other.
using MixedText = std::vector<std::variant<std::string, TokenId>>;

// Returns a text, or an array of texts and token ids; nothing for another value.
std::optional<MixedText> mixed_text(const Json& value);

// A number that is added to the logits of a token, or of all tokens of a text.
struct TextBias {
  std::variant<std::string, TokenId> token;
  double bias = 0.0;
};

// The bias that stands for "never", which llama.cpp's clients write as false.
inline constexpr double kForbiddingBias = -kLargestBias;

// Reads the field logit_bias, whose value is `biases`: [[id or text, number or false], ...] or {id
// or text: number or false}. A wrong value is recorded as an error.
std::vector<TextBias> read_text_biases(const Json& biases, FieldReader& fields);
// Reads an array of at most `most` strings. It is empty if the field is absent.
std::vector<std::string> read_text_list(FieldReader& fields, const char* key, size_t most);

}  // namespace neuronmm::serve
