#pragma once
// Builds a JSON value from the events of nlohmann's parser. parse_json() uses it, and readers that
// look at the events themselves derive from it or pass events to it.

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "io/json_file.h"

namespace neuronmm::io {

// Unlike nlohmann's own builder, this one refuses duplicate keys and deep nesting. It is also fast
// for large objects of an ordered `json`: n keys take n log n steps. nlohmann's builder compares
// every key with all earlier ones, which takes an hour for millions of keys.
template <typename json>
class BasicJsonBuilder : public nlohmann::json_sax<json> {
 public:
  json& value() { return root_; }
  const std::string& error() const { return error_; }

  bool null() override { return add(nullptr) != nullptr; }
  bool boolean(bool value) override { return add(value) != nullptr; }
  bool number_integer(int64_t value) override { return add(value) != nullptr; }
  bool number_unsigned(uint64_t value) override { return add(value) != nullptr; }
  bool number_float(double value, const std::string&) override { return add(value) != nullptr; }
  bool string(std::string& value) override { return add(std::move(value)) != nullptr; }
  bool binary(typename json::binary_t&) override { return refuse("binary data"); }

  bool start_object(size_t) override { return open(json::object()); }
  bool end_object() override {
    if constexpr (kOrdered) {
      if (const auto twice = repeated_key()) return refuse_key(*twice);
    }
    return close();
  }
  bool start_array(size_t) override { return open(json::array()); }
  bool end_array() override { return close(); }
  // A key that occurs twice means different things to different parsers. An attacker may use that,
  // and a typo may cause it.
  bool key(std::string& key) override {
    auto& object = members();
    if constexpr (kOrdered) {
      object.emplace_back(std::move(key), nullptr);
      member_ = &object.back().second;
    } else {
      const auto [entry, is_new] = object.try_emplace(std::move(key));
      member_ = &entry->second;
      if (!is_new) return repeat_key(entry->first, entry->second);
    }
    return true;
  }

  bool parse_error(size_t, const std::string&, const nlohmann::json::exception& error) override {
    return refuse(std::string(without_tag(error.what())));
  }
  bool refuse(std::string reason) {
    error_ = std::move(reason);
    return false;
  }

 protected:
  // Decides about a key that occurs again, whose value so far is `value`. True lets the next value
  // replace it. Ordered objects never ask.
  virtual bool repeat_key(const std::string& key, json& value) {
    static_cast<void>(value);
    return refuse_key(key);
  }
  bool refuse_key(std::string_view key) {
    return refuse(fmt::format("the key {} occurs twice", describe_json(std::string(key))));
  }
  // The members of the innermost object, and one of the keys that occur twice among them.
  typename json::object_t& members() {
    return open_.back()->template get_ref<typename json::object_t&>();
  }
  std::optional<std::string_view> repeated_key() {
    std::vector<std::string_view> keys;
    for (const auto& [key, value] : members()) keys.push_back(key);
    std::sort(keys.begin(), keys.end());
    const auto twice = std::adjacent_find(keys.begin(), keys.end());
    return twice == keys.end() ? std::nullopt : std::optional(*twice);
  }
  // The objects and arrays around the parser's place, outermost first. The last one is the
  // innermost.
  const std::vector<json*>& open_values() const { return open_; }

 private:
  // The deepest nesting. Real files nest less than 10 deep. Serializing a value recurses once per
  // level.
  static constexpr size_t kMaxDepth = 100;

  // An ordered object is a vector of its members.
  static constexpr bool kOrdered = std::is_same_v<json, nlohmann::ordered_json>;

  // Removes the tag "[json.exception.parse_error.101] " from one of nlohmann's messages.
  static std::string_view without_tag(std::string_view message) {
    const size_t end = message.find("] ");
    return end == std::string_view::npos ? message : message.substr(end + 2);
  }
  // Puts the value at the parser's place: at the top, after the last key, or at the end of an
  // array.
  json* add(json value) {
    if (open_.empty()) return &(root_ = std::move(value));
    if (open_.back()->is_object()) return &(*member_ = std::move(value));
    return &open_.back()->template get_ref<typename json::array_t&>().emplace_back(
        std::move(value));
  }
  bool open(json container) {
    if (open_.size() >= kMaxDepth) return refuse(fmt::format("nested deeper than {}", kMaxDepth));
    open_.push_back(add(std::move(container)));
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  json root_;
  std::vector<json*> open_;
  // The value of the innermost object's last key.
  json* member_ = nullptr;
  std::string error_;
};

using JsonBuilder = BasicJsonBuilder<nlohmann::json>;

}  // namespace neuronmm::io
