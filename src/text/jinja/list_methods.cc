// The methods of lists, tuples and dicts that change nothing.

#include <algorithm>
#include <utility>

#include "text/jinja/arguments.h"
#include "text/jinja/iterator.h"
#include "text/jinja/objects.h"

namespace neuronmm::text::jinja {
namespace {

Result<Value> list_count(Runtime& runtime, const Value& self, const Arguments& arguments) {
  NMM_ASSIGN(const BoundArguments bound, bind("count", arguments, {""}, 1));
  int64_t count = 0;
  for (const Value& item : self.list()->items) {
    NMM_ASSIGN(const bool same, equal(runtime, item, *bound[0]));
    count += same;
  }
  return Value(count);
}

Result<Value> list_index(Runtime& runtime, const Value& self, const Arguments& arguments) {
  NMM_ASSIGN(const BoundArguments bound, bind("index", arguments, {"", "", ""}, 1));
  const auto size = static_cast<int64_t>(self.list()->items.size());
  NMM_ASSIGN(int64_t begin, integer_argument("index", bound[1], 0));
  NMM_ASSIGN(int64_t end, integer_argument("index", bound[2], size));
  begin = std::clamp<int64_t>(begin < 0 ? begin + size : begin, 0, size);
  end = std::clamp<int64_t>(end < 0 ? end + size : end, 0, size);
  for (int64_t i = begin; i < end; ++i) {
    NMM_ASSIGN(const bool same,
               equal(runtime, self.list()->items[static_cast<size_t>(i)], *bound[0]));
    if (same) return Value(i);
  }
  return fail("index(): the value is not in the list");
}

// Lists and dicts never change, so a copy would be the same as the value itself.
Result<Value> copy(Runtime&, const Value& self, const Arguments& arguments) {
  NMM_TRY(bind("copy", arguments, {}, 0));
  return self;
}

template <DictView::Kind kind>
Result<Value> view(Runtime&, const Value& self, const Arguments& arguments) {
  NMM_TRY(bind("items", arguments, {}, 0));
  return Value(ObjectPtr(std::make_shared<DictView>(self.dict_ptr(), kind)));
}

Result<Value> dict_get(Runtime& runtime, const Value& self, const Arguments& arguments) {
  NMM_ASSIGN(const BoundArguments bound, bind("get", arguments, {"", ""}, 1));
  NMM_ASSIGN(const std::string key, hash_key(runtime, *bound[0]));
  if (const Value* found = self.dict()->find(key)) return *found;
  return bound[1] != nullptr ? *bound[1] : Value();
}

Result<Value> dict_fromkeys(Runtime& runtime, const Value&, const Arguments& arguments) {
  NMM_ASSIGN(const BoundArguments bound, bind("fromkeys", arguments, {"", ""}, 1));
  NMM_ASSIGN(const Values keys, to_values(runtime, *bound[0]));
  DictBuilder dict(runtime);
  for (const Value& key : keys) {
    NMM_TRY(dict.set(key, bound[1] != nullptr ? *bound[1] : Value()));
  }
  return dict.take();
}

template <size_t count>
Method find(const std::pair<std::string_view, Method> (&methods)[count], std::string_view name) {
  for (const auto& [known, method] : methods) {
    if (known == name) return method;
  }
  return nullptr;
}

}  // namespace

Method find_list_method(std::string_view name) {
  static constexpr std::pair<std::string_view, Method> kMethods[] = {
      {"copy", copy}, {"count", list_count}, {"index", list_index}};
  return find(kMethods, name);
}

Method find_tuple_method(std::string_view name) {
  static constexpr std::pair<std::string_view, Method> kMethods[] = {{"count", list_count},
                                                                     {"index", list_index}};
  return find(kMethods, name);
}

Method find_dict_method(std::string_view name) {
  static constexpr std::pair<std::string_view, Method> kMethods[] = {
      {"copy", copy},
      {"fromkeys", dict_fromkeys},
      {"get", dict_get},
      {"items", view<DictView::Kind::kItems>},
      {"keys", view<DictView::Kind::kKeys>},
      {"values", view<DictView::Kind::kValues>}};
  return find(kMethods, name);
}

}  // namespace neuronmm::text::jinja
