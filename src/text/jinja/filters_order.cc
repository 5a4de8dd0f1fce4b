// The filters that compare items.

#include <algorithm>
#include <span>
#include <unordered_set>
#include <utility>

#include "text/jinja/filters.h"
#include "text/jinja/iterator.h"
#include "text/jinja/sorting.h"
#include "text/jinja/text_functions.h"

namespace neuronmm::text::jinja {
namespace {

// Texts are compared in lower case unless `case_sensitive` is true.
Result<Value> comparable(Runtime& runtime, Value value, bool case_sensitive) {
  if (case_sensitive || value.text() == nullptr) return value;
  return change_case(runtime, value.text_ptr(), Case::kLower);
}

struct KeyedItem {
  Value key, item;
};

// Returns the items with their keys. A key is the item's attribute, or the item itself.
Result<std::vector<KeyedItem>> keyed_items(Runtime& runtime, const Value& value,
                                           const Value* attribute, bool case_sensitive,
                                           const Value* otherwise = nullptr) {
  NMM_ASSIGN(const Values items, to_values(runtime, value));
  std::vector<KeyedItem> keyed;
  for (const Value& item : items) {
    NMM_ASSIGN(Value key, attribute_path(runtime, item, attribute, otherwise));
    NMM_ASSIGN(key, comparable(runtime, std::move(key), case_sensitive));
    keyed.push_back({std::move(key), item});
  }
  return keyed;
}

Result<Values> attributes_of(Runtime& runtime, const Value* attribute) {
  if (attribute == nullptr || attribute->text() == nullptr)
    return Values{attribute == nullptr ? Value() : *attribute};
  static const Text kComma{.bytes = ",", .from_messages = {}};
  NMM_ASSIGN(const Value parts, split(runtime, attribute->text_ptr(), &kComma, -1, false));
  return parts.list()->items;
}

FilterResult extreme(Runtime& runtime, const Value& value, const Arguments& arguments,
                     Comparison better) {
  NMM_ASSIGN(const BoundArguments bound,
             bind("min", arguments, {"case_sensitive", "attribute"}, 0));
  NMM_ASSIGN(const auto items, keyed_items(runtime, value, bound[1], truth_argument(bound[0])));
  if (items.empty()) return Value::undefined("No aggregated item, sequence was empty.");
  const KeyedItem* best = &items.front();
  for (const KeyedItem& item : std::span(items).subspan(1)) {
    NMM_ASSIGN(const bool replaces, compare(runtime, better, item.key, best->key));
    if (replaces) best = &item;
  }
  return best->item;
}

}  // namespace

FilterResult filter_min(Runtime& runtime, const Value& value, const Arguments& arguments) {
  return extreme(runtime, value, arguments, Comparison::kLess);
}

FilterResult filter_max(Runtime& runtime, const Value& value, const Arguments& arguments) {
  return extreme(runtime, value, arguments, Comparison::kGreater);
}

FilterResult filter_sort(Runtime& runtime, const Value& value, const Arguments& arguments) {
  NMM_ASSIGN(const BoundArguments bound,
             bind("sort", arguments, {"reverse", "case_sensitive", "attribute"}, 0));
  NMM_ASSIGN(const Values attributes, attributes_of(runtime, bound[2]));
  NMM_ASSIGN(Values items, to_values(runtime, value));
  std::vector<KeyedItem> keyed;
  for (const Value& item : items) {
    Values keys;
    for (const Value& attribute : attributes) {
      NMM_ASSIGN(Value key, attribute_path(runtime, item, &attribute));
      NMM_ASSIGN(keys.emplace_back(),
                 comparable(runtime, std::move(key), truth_argument(bound[1])));
    }
    NMM_ASSIGN(Value key, make_list(runtime, std::move(keys)));
    keyed.push_back({std::move(key), item});
  }
  NMM_TRY(sort_by_key(
      runtime, keyed, [](const KeyedItem& item) { return item.key; }, truth_argument(bound[0])));
  std::ranges::transform(keyed, items.begin(), &KeyedItem::item);
  return make_list(runtime, std::move(items));
}

FilterResult filter_dictsort(Runtime& runtime, const Value& value, const Arguments& arguments) {
  NMM_ASSIGN(const BoundArguments bound,
             bind("dictsort", arguments, {"case_sensitive", "by", "reverse"}, 0));
  NMM_ASSIGN(const Text* by, text_argument("dictsort", bound[1]));
  if (by != nullptr && by->bytes != "key" && by->bytes != "value")
    return fail("you can only sort by either \"key\" or \"value\"");
  if (value.is_undefined()) return fail("{}", value.undefined_message());
  if (value.dict() == nullptr)
    return fail("dictsort(): expected a dict, found '{}'", value.type_name());
  std::vector<KeyedItem> keyed;
  for (const auto& [key, entry] : value.dict()->entries) {
    NMM_ASSIGN(Value sort_key,
               comparable(runtime, by != nullptr && by->bytes == "value" ? entry : key,
                          truth_argument(bound[0])));
    NMM_ASSIGN(Value pair, make_tuple(runtime, {key, entry}));
    keyed.push_back({std::move(sort_key), std::move(pair)});
  }
  NMM_TRY(sort_by_key(
      runtime, keyed, [](const KeyedItem& item) { return item.key; }, truth_argument(bound[2])));
  Values items;
  for (KeyedItem& item : keyed) items.push_back(std::move(item.item));
  return make_list(runtime, std::move(items));
}

FilterResult filter_unique(Runtime&, const Value& value, const Arguments& arguments) {
  NMM_ASSIGN(const BoundArguments bound,
             bind("unique", arguments, {"case_sensitive", "attribute"}, 0));
  const bool case_sensitive = truth_argument(bound[0]);
  const Value attribute = bound[1] != nullptr ? *bound[1] : Value();
  auto seen = std::make_shared<std::unordered_set<std::string>>();
  auto is_new = [=](Runtime& runtime, const Value& item) -> Result<std::optional<Value>> {
    NMM_ASSIGN(Value key, attribute_path(runtime, item, &attribute));
    NMM_ASSIGN(key, comparable(runtime, std::move(key), case_sensitive));
    NMM_ASSIGN(std::string hash, hash_key(runtime, key));
    NMM_TRY(runtime.budget.allocate(hash.size()));
    return seen->insert(std::move(hash)).second ? std::optional(item) : std::nullopt;
  };
  return make_iterator(std::make_shared<TransformIterator>(
      value, std::move(is_new), std::max(value.nesting(), attribute.nesting())));
}

// Sorts the items by an attribute and groups those with equal ones. A group is (attribute, items).
FilterResult filter_groupby(Runtime& runtime, const Value& value, const Arguments& arguments) {
  NMM_ASSIGN(const BoundArguments bound,
             bind("groupby", arguments, {"attribute", "default", "case_sensitive"}, 1));
  const bool case_sensitive = truth_argument(bound[2]);
  NMM_ASSIGN(auto items, keyed_items(runtime, value, bound[0], case_sensitive, bound[1]));
  NMM_TRY(sort_by_key(
      runtime, items, [](const KeyedItem& item) { return item.key; }, false));
  Values groups;
  for (size_t begin = 0; begin < items.size();) {
    Values members;
    size_t end = begin;
    for (bool same = true; end < items.size() && same; end += same) {
      NMM_ASSIGN(same, equal(runtime, items[end].key, items[begin].key));
      if (same) members.push_back(items[end].item);
    }
    NMM_ASSIGN(const Value name, attribute_path(runtime, members.front(), bound[0], bound[1]));
    NMM_ASSIGN(Value list, make_list(runtime, std::move(members)));
    NMM_ASSIGN(groups.emplace_back(),
               make_list(runtime, {name, std::move(list)}, List::Kind::kGroup));
    begin = end;
  }
  return make_list(runtime, std::move(groups));
}

}  // namespace neuronmm::text::jinja
