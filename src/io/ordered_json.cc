#include "io/ordered_json.h"

#include <unordered_set>
#include <utility>

#include <nlohmann/json.hpp>

#include "io/json_builder.h"

namespace neuronmm::io {
namespace {

using nlohmann::ordered_json;

// Builds a value of a text whose repeated keys have one value.
class OrderedBuilder : public BasicJsonBuilder<ordered_json> {
 public:
  bool end_object() override {
    if (repeated_key()) remove_repeated(members());
    return BasicJsonBuilder::end_object();
  }

 private:
  static void remove_repeated(ordered_json::object_t& members) {
    std::unordered_set<std::string_view> seen;
    ordered_json::object_t kept;
    for (auto& [key, value] : members) {
      if (seen.insert(key).second) kept.emplace_back(key, std::move(value));
    }
    members.swap(kept);
  }
};

}  // namespace

ordered_json parse_ordered_json(std::string_view text) {
  OrderedBuilder builder;
  ordered_json::sax_parse(text, &builder);
  return std::move(builder.value());
}

}  // namespace neuronmm::io
