// The filters that go through the items of a value.

#include <algorithm>
#include <utility>

#include "text/jinja/filters.h"
#include "text/jinja/iterator.h"
#include "text/jinja/number.h"
#include "text/jinja/operators.h"
#include "text/jinja/text_functions.h"

namespace neuronmm::text::jinja {
namespace {

int nesting_of(const Value& value, const Arguments& arguments) {
  int nesting = value.nesting();
  for (const Value& argument : arguments.positional)
    nesting = std::max(nesting, argument.nesting());
  for (const auto& [name, argument] : arguments.named)
    nesting = std::max(nesting, argument.nesting());
  return nesting;
}

// Any false value has no items for `map` and `select`: {{ 0 | select | list }} is [].
Value items_or_none(const Value& value) {
  return truth(value) ? value : Value(std::make_shared<const List>());
}

// Returns an iterator over a list that is made of the input's items when its first item is asked
// for.
template <typename Make>
FilterResult lazy_list_iterator(const Value& value, const Arguments& arguments, Make make) {
  auto made = [value, make](Runtime& runtime) -> Result<Values> {
    NMM_ASSIGN(Values items, to_values(runtime, value));
    return make(runtime, std::move(items));
  };
  return make_iterator(
      std::make_shared<LazyListIterator>(std::move(made), nesting_of(value, arguments)));
}

// Returns the arguments after the first `count`, which belong to the filter or test that they name.
Arguments without_first(const Arguments& arguments, size_t count) {
  Arguments remaining = arguments;
  remaining.positional.erase(remaining.positional.begin(),
                             remaining.positional.begin() + static_cast<std::ptrdiff_t>(count));
  return remaining;
}

// Selects the items for which the test that the arguments name gives `wanted`. Without a test, the
// truth of the item counts.
FilterResult select(const Value& value, const Arguments& arguments, bool of_attribute,
                    bool wanted) {
  const size_t name_at = of_attribute ? 1 : 0;
  auto passes = [=](Runtime& runtime, const Value& item) -> Result<std::optional<Value>> {
    if (arguments.positional.size() < name_at) return fail("missing parameter for attribute name");
    Value subject = item;
    if (of_attribute) {
      NMM_ASSIGN(subject, attribute_path(runtime, item, &arguments.positional[0]));
    }
    bool holds = truth(subject);
    if (arguments.positional.size() > name_at) {
      const Text* name = arguments.positional[name_at].text();
      const TestFunction test = name == nullptr ? nullptr : find_test(name->bytes);
      if (test == nullptr) return fail("no test named '{}'", name == nullptr ? "" : name->bytes);
      NMM_ASSIGN(holds, test(runtime, subject, without_first(arguments, name_at + 1)));
    }
    return holds == wanted ? std::optional(item) : std::nullopt;
  };
  return make_iterator(std::make_shared<TransformIterator>(items_or_none(value), std::move(passes),
                                                           nesting_of(value, arguments)));
}

}  // namespace

Result<Value> attribute_path(Runtime& runtime, Value item, const Value* path,
                             const Value* otherwise) {
  if (path == nullptr || path->is_none()) return item;
  Values keys = {*path};
  if (path->text() != nullptr) {
    static const Text kDot{.bytes = ".", .from_messages = {}};
    NMM_ASSIGN(const Value parts, split(runtime, path->text_ptr(), &kDot, -1, false));
    keys = parts.list()->items;
  }
  for (const Value& key : keys) {
    const auto digits =
        key.text() == nullptr ? std::string_view() : std::string_view(key.text()->bytes);
    const bool number =
        !digits.empty() && digits.find_first_not_of("0123456789") == std::string_view::npos;
    Value index = key;
    if (number) {
      NMM_ASSIGN(const auto parsed, parse_integer(digits, 10));
      index = Value(*parsed);
    }
    NMM_ASSIGN(item, get_item(runtime, item, index));
    if (item.is_undefined() && otherwise != nullptr && !otherwise->is_none()) item = *otherwise;
  }
  return item;
}

FilterResult filter_first(Runtime& runtime, const Value& value, const Arguments& arguments) {
  NMM_TRY(bind("first", arguments, {}, 0));
  NMM_ASSIGN(const auto items, iterate(runtime, value));
  NMM_ASSIGN(auto item, items->next(runtime));
  return item ? *std::move(item) : Value::undefined("No first item, sequence was empty.");
}

// Python cannot go through an iterator from its end, so only values with a length are accepted.
FilterResult filter_last(Runtime& runtime, const Value& value, const Arguments& arguments) {
  NMM_TRY(bind("last", arguments, {}, 0));
  if (!length_of(value)) return fail("'{}' object is not reversible", value.type_name());
  NMM_ASSIGN(Values items, to_values(runtime, value));
  return items.empty() ? Value::undefined("No last item, sequence was empty.") : items.back();
}

FilterResult filter_length(Runtime&, const Value& value, const Arguments& arguments) {
  NMM_TRY(bind("length", arguments, {}, 0));
  const auto length = length_of(value);
  if (!length) return fail("object of type '{}' has no len()", value.type_name());
  return Value(static_cast<int64_t>(*length));
}

FilterResult filter_list(Runtime& runtime, const Value& value, const Arguments& arguments) {
  NMM_TRY(bind("list", arguments, {}, 0));
  NMM_ASSIGN(Values items, to_values(runtime, value));
  return make_list(runtime, std::move(items));
}

FilterResult filter_items(Runtime& runtime, const Value& value, const Arguments& arguments) {
  NMM_TRY(bind("items", arguments, {}, 0));
  auto make = [value](Runtime& inner) -> Result<Values> {
    if (value.is_undefined()) return Values();
    if (value.dict() == nullptr) return fail("can only get item pairs from a mapping");
    return to_values(
        inner,
        Value(ObjectPtr(std::make_shared<DictView>(value.dict_ptr(), DictView::Kind::kItems))));
  };
  (void)runtime;
  return make_iterator(std::make_shared<LazyListIterator>(std::move(make), value.nesting()));
}

// The filter has the forms map("upper"), map("replace", "a", "b") and map(attribute="name",
// default="").
FilterResult filter_map(Runtime&, const Value& value, const Arguments& arguments) {
  auto apply = [=](Runtime& runtime, const Value& item) -> Result<std::optional<Value>> {
    if (arguments.positional.empty() && arguments.find("attribute") != nullptr) {
      NMM_ASSIGN(const BoundArguments bound, bind("map", arguments, {"attribute", "default"}, 0));
      NMM_ASSIGN(Value result, attribute_path(runtime, item, bound[0], bound[1]));
      return std::optional(std::move(result));
    }
    if (arguments.positional.empty()) return fail("map requires a filter argument");
    const Text* name = arguments.positional[0].text();
    const FilterFunction filter = name == nullptr ? nullptr : find_filter(name->bytes);
    if (filter == nullptr) return fail("no filter named '{}'", name == nullptr ? "" : name->bytes);
    NMM_ASSIGN(Value result, filter(runtime, item, without_first(arguments, 1)));
    return std::optional(std::move(result));
  };
  return make_iterator(std::make_shared<TransformIterator>(items_or_none(value), std::move(apply),
                                                           nesting_of(value, arguments)));
}

FilterResult filter_select(Runtime&, const Value& value, const Arguments& arguments) {
  return select(value, arguments, false, true);
}

FilterResult filter_reject(Runtime&, const Value& value, const Arguments& arguments) {
  return select(value, arguments, false, false);
}

FilterResult filter_selectattr(Runtime&, const Value& value, const Arguments& arguments) {
  return select(value, arguments, true, true);
}

FilterResult filter_rejectattr(Runtime&, const Value& value, const Arguments& arguments) {
  return select(value, arguments, true, false);
}

// A text gives a text. A value with a length gives an iterator, and other values give a list.
FilterResult filter_reverse(Runtime& runtime, const Value& value, const Arguments& arguments) {
  NMM_TRY(bind("reverse", arguments, {}, 0));
  if (value.text() != nullptr) return reverse(runtime, value.text_ptr());
  NMM_ASSIGN(Values items, to_values(runtime, value));
  std::ranges::reverse(items);
  NMM_ASSIGN(const Value list, make_list(runtime, std::move(items)));
  if (!length_of(value)) return list;
  return make_iterator(std::make_shared<ListIterator>(list.list_ptr()));
}

FilterResult filter_sum(Runtime& runtime, const Value& value, const Arguments& arguments) {
  NMM_ASSIGN(const BoundArguments bound, bind("sum", arguments, {"attribute", "start"}, 0));
  NMM_ASSIGN(const Values items, to_values(runtime, value));
  Value sum = bound[1] != nullptr ? *bound[1] : Value(int64_t{0});
  if (sum.text() != nullptr) return fail("sum() can't sum strings");
  for (const Value& item : items) {
    NMM_ASSIGN(const Value attribute, attribute_path(runtime, item, bound[0]));
    NMM_ASSIGN(sum, arithmetic(runtime, Arithmetic::kAdd, sum, attribute));
  }
  return sum;
}

// Makes lists of `linecount` items. The last list is filled up with `fill_with`.
FilterResult filter_batch(Runtime&, const Value& value, const Arguments& arguments) {
  NMM_ASSIGN(const BoundArguments bound, bind("batch", arguments, {"linecount", "fill_with"}, 1));
  NMM_ASSIGN(const int64_t count, integer_argument("batch", bound[0], 0));
  const Value fill = bound[1] != nullptr ? *bound[1] : Value();
  return lazy_list_iterator(
      value, arguments, [=](Runtime& runtime, Values items) -> Result<Values> {
        const auto size = static_cast<size_t>(std::max<int64_t>(count, 0));
        Values batches, batch;
        for (size_t i = 0; i < items.size(); ++i) {
          if (i > 0 && batch.size() == size) {
            NMM_ASSIGN(batches.emplace_back(), make_list(runtime, std::exchange(batch, {})));
          }
          batch.push_back(std::move(items[i]));
        }
        if (batch.empty()) return batches;
        if (!fill.is_none() && batch.size() < size) {
          if (size > runtime.budget.remaining_bytes() / sizeof(Value))
            return fail("too many items");
          batch.resize(size, fill);
        }
        NMM_ASSIGN(batches.emplace_back(), make_list(runtime, std::move(batch)));
        return batches;
      });
}

// Makes `slices` lists of about equal length. The longer lists come first.
FilterResult filter_slice(Runtime&, const Value& value, const Arguments& arguments) {
  NMM_ASSIGN(const BoundArguments bound, bind("slice", arguments, {"slices", "fill_with"}, 1));
  NMM_ASSIGN(const int64_t count, integer_argument("slice", bound[0], 0));
  const Value fill = bound[1] != nullptr ? *bound[1] : Value();
  return lazy_list_iterator(
      value, arguments, [=](Runtime& runtime, Values items) -> Result<Values> {
        if (count == 0) return fail("integer division or modulo by zero");
        const auto slices = static_cast<size_t>(std::max<int64_t>(count, 0));
        if (slices > runtime.budget.remaining_bytes() / sizeof(Value))
          return fail("too many slices");
        Values all;
        size_t begin = 0;
        for (size_t i = 0; i < slices; ++i) {
          const bool longer = i < items.size() % slices;
          const size_t end = begin + items.size() / slices + longer;
          Values slice(items.begin() + static_cast<std::ptrdiff_t>(begin),
                       items.begin() + static_cast<std::ptrdiff_t>(end));
          if (!fill.is_none() && !longer) slice.push_back(fill);
          NMM_ASSIGN(all.emplace_back(), make_list(runtime, std::move(slice)));
          begin = end;
        }
        return all;
      });
}

}  // namespace neuronmm::text::jinja
