#include "serve/requests/llama_cpp_values.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace neuronmm::serve {
namespace {

constexpr size_t kMostTextBiases = 10'000;  // assumed

}  // namespace

std::optional<MixedText> mixed_text(const Json& value) {
  if (value.is_string()) return MixedText{value.get<std::string>()};
  if (!value.is_array()) return std::nullopt;
  MixedText mixed;
  for (const Json& part : value) {
    const auto id = as_token_id(part);
    if (!id && !part.is_string()) return std::nullopt;
    if (id) mixed.emplace_back(*id);
    if (!id) mixed.emplace_back(part.get<std::string>());
  }
  return mixed;
}

std::vector<TextBias> read_text_biases(const Json& value, FieldReader& fields) {
  std::vector<TextBias> biases;
  const auto add = [&](std::variant<std::string, TokenId> token, const Json& bias) {
    const bool forbids = bias.is_boolean() && !bias.get<bool>();
    if (!forbids && !bias.is_number()) return false;
    const double number = forbids ? kForbiddingBias : bias.get<double>();
    biases.push_back({std::move(token), number});
    return std::abs(number) <= kLargestBias;
  };
  bool good = value.is_null() || value.is_array() || value.is_object();
  for (const auto& item : value.items()) {
    const Json& pair = item.value();
    if (value.is_object()) {
      const auto id = token_id_of_digits(item.key());
      good = good && (id ? add(*id, pair) : add(item.key(), pair));
      continue;
    }
    good = good && pair.is_array() && pair.size() == 2;
    if (!good) break;
    const auto id = as_token_id(pair[0]);
    good = (id || pair[0].is_string()) &&
           (id ? add(*id, pair[1]) : add(pair[0].get<std::string>(), pair[1]));
  }
  if (!good || biases.size() > kMostTextBiases)
    fields.add_error(
        "logit_bias",
        fmt::format("expected at most {} pairs of a token id or a text and a number or "
                    "false, such as [[15043, -1.0], [\"Hello\", false]], found {}",
                    kMostTextBiases, describe(value)));
  return biases;
}

std::vector<std::string> read_text_list(FieldReader& fields, const char* key, size_t most) {
  const Json* list = fields.array(key);
  if (list == nullptr) return {};
  const auto is_text = [](const Json& text) { return text.is_string(); };
  if (list->size() > most || !std::ranges::all_of(*list, is_text)) {
    fields.add_mismatch(key, fmt::format("an array of at most {} strings", most));
    return {};
  }
  return list->get<std::vector<std::string>>();
}

}  // namespace neuronmm::serve
