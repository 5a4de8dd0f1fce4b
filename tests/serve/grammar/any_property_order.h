#pragma once
// Tells whether a grammar accepts a document in some order of its properties. A grammar accepts
// only one order, which depends on the schema. Documents are written without white space, and
// numbers without an exponent and without trailing zeros (1.0 as 1).

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "accepts.h"
#include "serve/schema/decimal.h"
#include "serve/schema/schema_document.h"

namespace neuronmm::grammar {

class AnyPropertyOrder {
 public:
  // The first order that is tried is the one in which the schema names the properties.
  AnyPropertyOrder(Automaton& automaton, const Json& schema) : automaton_(automaton) {
    rank(schema);
  }

  bool accepts(const Json& value) {
    text_.clear();
    steps_ = kMostSteps;
    return write(value, automaton_.start(), [this](StateId state) {
      return automaton_.is_complete(state) && grammar::accepts(automaton_, text_);
    });
  }
  // Returns whether there were too many orders to try all of them.
  bool gave_up() const { return steps_ <= 0; }

 private:
  static constexpr int64_t kMostSteps = 20'000;
  using Then = std::function<bool(StateId)>;  // writes the rest of the document
  struct Property {
    std::string key;
    const Json* value;
    size_t rank;
    bool used = false;
  };

  void rank(const Json& schema) {
    for (const auto& item : schema.items()) {
      if (schema.is_object()) ranks_.try_emplace(item.key(), ranks_.size());
      if (schema.is_structured()) rank(item.value());
    }
  }

  bool put(StateId state, std::string_view bytes, const Then& then) {
    if (state == Automaton::kDead || --steps_ <= 0) return false;
    const StateId next = automaton_.step(state, bytes);
    if (next == Automaton::kDead) return false;
    text_ += bytes;
    const bool found = then(next);
    text_.resize(text_.size() - bytes.size());
    return found;
  }

  bool write(const Json& value, StateId state, const Then& then) {
    if (value.is_object()) return write_object(value, state, then);
    if (value.is_array()) {
      return put(state, "[", [&](StateId inside) { return write_items(value, 0, inside, then); });
    }
    return put(state, value.is_number() ? Decimal::of(value).text() : value.dump(), then);
  }

  bool write_items(const Json& array, size_t index, StateId state, const Then& then) {
    if (index == array.size()) return put(state, "]", then);
    return put(state, index == 0 ? "" : ",", [&](StateId before) {
      return write(array[index], before,
                   [&](StateId after) { return write_items(array, index + 1, after, then); });
    });
  }

  bool write_object(const Json& object, StateId state, const Then& then) {
    std::vector<Property> properties;
    for (const auto& item : object.items()) {
      const auto found = ranks_.find(item.key());
      properties.push_back({Json(item.key()).dump() + ":", &item.value(),
                            found == ranks_.end() ? ranks_.size() : found->second});
    }
    std::ranges::stable_sort(properties, {}, &Property::rank);
    return put(state, "{",
               [&](StateId inside) { return write_properties(properties, 0, inside, then); });
  }

  bool write_properties(std::vector<Property>& properties, size_t written, StateId state,
                        const Then& then) {
    if (written == properties.size()) return put(state, "}", then);
    return std::ranges::any_of(properties, [&](Property& property) {
      if (property.used) return false;
      property.used = true;
      const bool found = put(state, (written == 0 ? "" : ",") + property.key, [&](StateId before) {
        return write(*property.value, before, [&](StateId after) {
          return write_properties(properties, written + 1, after, then);
        });
      });
      property.used = false;
      return found;
    });
  }

  Automaton& automaton_;
  std::map<std::string, size_t> ranks_;
  std::string text_;
  int64_t steps_ = 0;
};

}  // namespace neuronmm::grammar
