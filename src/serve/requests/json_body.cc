#include "serve/requests/json_body.h"

#include <cmath>
#include <utility>

#include "io/json_file.h"
#include "serve/requests/lone_surrogates.h"
#include "serve/requests/request_json_builder.h"

namespace neuronmm::serve {

ApiResult<Json> parse_json_text(std::string_view text, const std::string& param, JsonOf what) {
  RequestJsonBuilder builder(what);
  // The parser would take a zero byte for the end of the text.
  if (text.find('\0') != std::string_view::npos)
    return invalid_request(
        param, fmt::format("{}: malformed JSON: a byte of 0", param.empty() ? "body" : param));
  const std::optional<std::string> changed_text = without_lone_surrogates(text);
  const bool parsed = Json::sax_parse(changed_text ? *changed_text : text, &builder);
  if (const auto& changed = builder.changed_number())
    return invalid_request(param.empty() ? changed->field : param,
                           (param.empty() ? "" : param + ": ") + changed->message);
  if (!parsed)
    return invalid_request(param, fmt::format("{}: malformed JSON: {}",
                                              param.empty() ? "body" : param, builder.error()));
  return std::move(builder.value());
}

ApiResult<Json> parse_body(std::string_view body) {
  NMM_ASSIGN(Json value, parse_json_text(body, "", JsonOf::kBody));
  if (!value.is_object())
    return invalid_request("", "body: expected a JSON object, found " + describe(value));
  return value;
}

std::optional<int64_t> as_integer(const Json& value) {
  if (value.is_number_float()) {
    constexpr double kExact =
        9007199254740992.0;  // 2^53: doubles represent all whole numbers up to it
    const double number = value.get<double>();
    const bool whole = std::abs(number) <= kExact && std::trunc(number) == number;
    return whole ? std::optional(static_cast<int64_t>(number)) : std::nullopt;
  }
  // The parser stores numbers that are not negative as unsigned ones, which may exceed int64_t.
  const bool fits =
      value.is_number_unsigned() ? value.get<uint64_t>() <= INT64_MAX : value.is_number_integer();
  return fits ? std::optional(value.get<int64_t>()) : std::nullopt;
}

std::string dump_json(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string describe(const Json& value) {
  if (value.is_object()) return fmt::format("an object of {}", value.size());
  if (value.is_array()) return fmt::format("an array of {}", value.size());
  return io::describe_json(nlohmann::json(value));
}

}  // namespace neuronmm::serve
