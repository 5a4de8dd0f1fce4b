#include "serve/protocol/json_body.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "io/json_file.h"

namespace neuronmm::serve {
namespace {

constexpr size_t kMaxDepth = 100;

// nlohmann's own parser looks for every key among those before it, which takes an hour for an
// object with millions of them.
class OrderedBuilder : public nlohmann::json_sax<Json> {
 public:
  Json& value() { return root_; }
  const std::string& error() const { return error_; }

  bool null() override { return add(nullptr) != nullptr; }
  bool boolean(bool value) override { return add(value) != nullptr; }
  bool number_integer(int64_t value) override { return add(value) != nullptr; }
  bool number_unsigned(uint64_t value) override { return add(value) != nullptr; }
  bool number_float(double value, const std::string&) override { return add(value) != nullptr; }
  bool string(std::string& value) override { return add(std::move(value)) != nullptr; }
  bool binary(Json::binary_t&) override { return refuse("binary data"); }
  bool start_object(size_t) override { return open(Json::object()); }
  bool start_array(size_t) override { return open(Json::array()); }
  bool end_array() override { return close(); }

  bool end_object() override {
    std::vector<std::string_view> keys;
    for (const auto& [key, value] : open_.back()->get_ref<Json::object_t&>()) keys.push_back(key);
    std::sort(keys.begin(), keys.end());
    const auto twice = std::adjacent_find(keys.begin(), keys.end());
    if (twice != keys.end()) return refuse(fmt::format("the key {:?} occurs twice", *twice));
    return close();
  }
  bool key(std::string& key) override {
    auto& members = open_.back()->get_ref<Json::object_t&>();
    members.emplace_back(std::move(key), nullptr);
    member_ = &members.back().second;
    return true;
  }
  bool parse_error(size_t, const std::string&, const Json::exception& error) override {
    const std::string_view message = error.what();
    const size_t tag = message.find("] ");  // "[json.exception.parse_error.101] "
    return refuse(std::string(tag == std::string_view::npos ? message : message.substr(tag + 2)));
  }

 private:
  bool refuse(std::string reason) {
    error_ = std::move(reason);
    return false;
  }
  Json* add(Json value) {
    if (open_.empty()) return &(root_ = std::move(value));
    if (open_.back()->is_object()) return &(*member_ = std::move(value));
    return &open_.back()->get_ref<Json::array_t&>().emplace_back(std::move(value));
  }
  bool open(Json container) {
    if (open_.size() >= kMaxDepth) return refuse(fmt::format("nested deeper than {}", kMaxDepth));
    open_.push_back(add(std::move(container)));
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  Json root_;
  std::vector<Json*> open_;  // the objects and arrays around the parser's place, outermost first
  Json* member_ = nullptr;   // of the innermost object: what its last key names
  std::string error_;
};

}  // namespace

ApiResult<Json> parse_json_text(std::string_view text, const std::string& param) {
  OrderedBuilder builder;
  // The parser takes it for the end.
  if (text.find('\0') != std::string_view::npos)
    return invalid_request(
        param, fmt::format("{}: malformed JSON: a byte of 0", param.empty() ? "body" : param));
  if (!Json::sax_parse(text, &builder))
    return invalid_request(param, fmt::format("{}: malformed JSON: {}",
                                              param.empty() ? "body" : param, builder.error()));
  return std::move(builder.value());
}

ApiResult<Json> parse_body(std::string_view body) {
  NMM_ASSIGN(Json value, parse_json_text(body, ""));
  if (!value.is_object())
    return invalid_request("", "body: expected a JSON object, found " + describe(value));
  return value;
}

std::optional<int64_t> as_integer(const Json& value) {
  if (value.is_number_float()) {
    constexpr double kExact = 9007199254740992.0;  // 2^53: every whole number up to it is a double
    const double number = value.get<double>();
    const bool whole = std::abs(number) <= kExact && std::trunc(number) == number;
    return whole ? std::optional(static_cast<int64_t>(number)) : std::nullopt;
  }
  // Unsigned is how the parser stores what is not negative; it may exceed int64_t.
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
