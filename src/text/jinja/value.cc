#include "text/jinja/value.h"

#include <algorithm>
#include <cmath>

#include "text/jinja/iterator.h"
#include "text/jinja/runtime.h"

namespace neuronmm::text::jinja {
namespace {

Result<bool> equal_lists(Runtime& runtime, const List& a, const List& b) {
  const bool tuples = a.kind != List::Kind::kList;
  if (tuples != (b.kind != List::Kind::kList) || a.items.size() != b.items.size()) return false;
  for (size_t i = 0; i < a.items.size(); ++i) {
    NMM_ASSIGN(const bool same, equal(runtime, a.items[i], b.items[i]));
    if (!same) return false;
  }
  return true;
}

Result<bool> equal_dicts(Runtime& runtime, const Dict& a, const Dict& b) {
  if (a.entries.size() != b.entries.size()) return false;
  for (const auto& [key, position] : a.index) {
    const Value* other = b.find(key);
    if (other == nullptr) return false;
    NMM_ASSIGN(const bool same, equal(runtime, a.entries[position].second, *other));
    if (!same) return false;
  }
  return true;
}

Result<bool> equal_objects(Runtime& runtime, Object* a, Object* b) {
  const auto* range_a = dynamic_cast<Range*>(a);
  const auto* range_b = dynamic_cast<Range*>(b);
  if (range_a == nullptr || range_b == nullptr) {
    const auto* view_a = dynamic_cast<DictView*>(a);
    const auto* view_b = dynamic_cast<DictView*>(b);
    if (view_a == nullptr || view_b == nullptr || view_a->kind() != view_b->kind() ||
        view_a->kind() == DictView::Kind::kValues)
      return false;
    if (view_a->kind() == DictView::Kind::kItems)
      return equal_dicts(runtime, *view_a->dict(), *view_b->dict());
    const Dict &keys_a = *view_a->dict(), &keys_b = *view_b->dict();
    return keys_a.entries.size() == keys_b.entries.size() &&
           std::ranges::all_of(
               keys_a.index, [&](const auto& entry) { return keys_b.index.contains(entry.first); });
  }
  const size_t count = *range_a->length();
  return count == *range_b->length() &&
         (count == 0 || (range_a->start() == range_b->start() &&
                         (count == 1 || range_a->step() == range_b->step())));
}

template <typename T>
bool holds(Comparison comparison, const T& a, const T& b) {
  switch (comparison) {
    case Comparison::kLess:
      return a < b;
    case Comparison::kLessEqual:
      return a <= b;
    case Comparison::kGreater:
      return a > b;
    default:
      return a >= b;
  }
}

// Returns a number exactly, because the significand of a long double has at least 64 bits.
std::optional<long double> exact_number(const Value& value) {
  if (const auto integer = value.integer()) return static_cast<long double>(*integer);
  if (value.real() != nullptr) return static_cast<long double>(*value.real());
  return std::nullopt;
}

std::string_view sign_of(Comparison comparison) {
  constexpr std::string_view kSigns[] = {"==", "!=", "<", "<=", ">", ">=", "in", "not in"};
  return kSigns[static_cast<size_t>(comparison)];
}

// The first items that differ decide; if there are none, the lengths decide.
Result<bool> compare_lists(Runtime& runtime, Comparison comparison, const List& a, const List& b) {
  const size_t common = std::min(a.items.size(), b.items.size());
  for (size_t i = 0; i < common; ++i) {
    NMM_ASSIGN(const bool same, equal(runtime, a.items[i], b.items[i]));
    if (!same) return compare(runtime, comparison, a.items[i], b.items[i]);
  }
  return holds(comparison, a.items.size(), b.items.size());
}

Result<bool> order(Runtime& runtime, Comparison comparison, const Value& a, const Value& b) {
  for (const Value* side : {&a, &b}) {
    if (side->is_undefined()) return fail("{}", side->undefined_message());
  }
  const auto x = exact_number(a), y = exact_number(b);
  if (x && y) return holds(comparison, *x, *y);
  if (a.text() != nullptr && b.text() != nullptr) {
    NMM_TRY(runtime.budget.scan(std::min(a.text()->bytes.size(), b.text()->bytes.size())));
    // The bytes of UTF-8 sort in the order of the code points.
    return holds(comparison, a.text()->bytes, b.text()->bytes);
  }
  if (a.list() != nullptr && b.list() != nullptr &&
      (a.list()->kind == List::Kind::kList) == (b.list()->kind == List::Kind::kList))
    return compare_lists(runtime, comparison, *a.list(), *b.list());
  return fail("'{}' not supported between instances of '{}' and '{}'", sign_of(comparison),
              a.type_name(), b.type_name());
}

std::string number_key(const Value& value) {
  if (const auto integer = value.integer()) return fmt::format("n{}", *integer);
  const double real = *value.real();
  if (real == std::floor(real) && std::abs(real) < 0x1p63)
    return fmt::format("n{}", static_cast<int64_t>(real));
  return fmt::format("f{}", real);
}

}  // namespace

Status check_nesting(int nesting) {
  // The deepest nesting that functions recurse into. JSON files with 100 levels or more are
  // refused.
  constexpr int kMaxNesting = 200;
  if (nesting > kMaxNesting) return fail("a value nested deeper than {} levels", kMaxNesting);
  return {};
}

Value Value::undefined(std::string message) {
  Value value;
  value.state_ = Undefined{std::make_shared<const std::string>(std::move(message))};
  return value;
}

std::optional<int64_t> Value::integer() const {
  if (const bool* truth = boolean()) return *truth ? 1 : 0;
  if (const auto* integer = std::get_if<int64_t>(&state_)) return *integer;
  return std::nullopt;
}

std::optional<double> Value::number() const {
  if (real() != nullptr) return *real();
  if (const auto whole = integer()) return static_cast<double>(*whole);
  return std::nullopt;
}

std::string_view Value::type_name() const {
  if (is_none()) return "NoneType";
  if (is_undefined()) return "Undefined";
  if (is_bool()) return "bool";
  if (integer()) return "int";
  if (real() != nullptr) return "float";
  if (text() != nullptr) return text()->markup ? "Markup" : "str";
  if (list() != nullptr) return list()->kind == List::Kind::kList ? "list" : "tuple";
  if (dict() != nullptr) return "dict";
  return object()->type_name();
}

int Value::nesting() const {
  if (list() != nullptr) return list()->nesting;
  if (dict() != nullptr) return dict()->nesting;
  return object() != nullptr ? object()->nesting() : 0;
}

// Small integers and short texts are one object in CPython. CPython does not document which longer
// ones are, so all equal texts and integers count as the same.
bool Value::same_as(const Value& other) const {
  if (state_.index() != other.state_.index()) return false;
  if (is_none()) return true;
  if (is_bool()) return *boolean() == *other.boolean();
  if (integer()) return *integer() == *other.integer();
  if (text() != nullptr) return text() == other.text() || (text()->bytes == other.text()->bytes);
  if (list() != nullptr) return list() == other.list();
  if (dict() != nullptr) return dict() == other.dict();
  if (object() != nullptr) return object() == other.object();
  return false;
}

const Value* Dict::find(const std::string& key) const {
  const auto found = index.find(key);
  return found == index.end() ? nullptr : &entries[found->second].second;
}

std::string hash_key(std::string_view text) { return std::string("s").append(text); }

Result<std::string> hash_key(Runtime& runtime, const Value& value) {
  if (value.is_none()) return std::string("N");
  if (value.is_undefined()) return std::string("U");
  if (value.number()) return number_key(value);
  if (value.text() != nullptr) {
    NMM_TRY(runtime.budget.scan(value.text()->bytes.size()));
    return hash_key(value.text()->bytes);
  }
  const auto* view = value.object_as<DictView>();
  if (value.object() != nullptr && (view == nullptr || view->kind() == DictView::Kind::kValues))
    return fmt::format("o{}", static_cast<const void*>(value.object()));
  if (value.list() == nullptr || value.list()->kind == List::Kind::kList)
    return fail("unhashable type: '{}'", value.type_name());
  std::string key = "(";
  for (const Value& item : value.list()->items) {
    NMM_ASSIGN(const std::string inner, hash_key(runtime, item));
    key += fmt::format("{}:", inner.size()) + inner;
    NMM_TRY(runtime.budget.scan(key.size()));
    NMM_TRY(runtime.budget.allocate(inner.size()));
  }
  return key;
}

Result<Value> make_list(Runtime& runtime, Values items, List::Kind kind) {
  NMM_TRY(runtime.budget.allocate(sizeof(List) + items.size() * sizeof(Value)));
  NMM_TRY(runtime.budget.spend(1 + items.size() / 16));
  List list{std::move(items), kind};
  for (const Value& item : list.items) list.nesting = std::max(list.nesting, 1 + item.nesting());
  NMM_TRY(check_nesting(list.nesting));
  return Value(std::make_shared<const List>(std::move(list)));
}

Status DictBuilder::set(const Value& key, Value value) {
  NMM_ASSIGN(std::string hash, hash_key(runtime_, key));
  NMM_TRY(runtime_.budget.allocate(hash.size() + 2 * sizeof(Value)));
  dict_.nesting = std::max({dict_.nesting, 1 + key.nesting(), 1 + value.nesting()});
  const auto [found, added] = dict_.index.emplace(std::move(hash), dict_.entries.size());
  if (added)
    dict_.entries.emplace_back(key, std::move(value));
  else
    dict_.entries[found->second].second = std::move(value);
  return {};
}

Result<Value> DictBuilder::take() {
  NMM_TRY(check_nesting(dict_.nesting));
  return Value(std::make_shared<const Dict>(std::move(dict_)));
}

Result<Value> make_text(Runtime& runtime, std::string_view bytes, bool from_messages) {
  TextWriter writer(runtime.budget);
  writer.append(bytes, from_messages);
  NMM_ASSIGN(TextPtr text, writer.take());
  return Value(std::move(text));
}

bool truth(const Value& value) {
  if (value.is_none() || value.is_undefined()) return false;
  if (value.number()) return *value.number() != 0.0;
  if (value.text() != nullptr) return !value.text()->bytes.empty();
  const auto length = length_of(value);
  return !length || *length != 0;
}

Result<bool> equal(Runtime& runtime, const Value& a, const Value& b) {
  NMM_TRY(runtime.budget.spend(1));
  const auto x = exact_number(a), y = exact_number(b);
  if (x && y) return *x == *y;
  if (a.is_undefined() && b.is_undefined()) return true;
  if (a.text() != nullptr && b.text() != nullptr) {
    NMM_TRY(runtime.budget.scan(std::min(a.text()->bytes.size(), b.text()->bytes.size())));
    return a.text()->bytes == b.text()->bytes;
  }
  if (a.same_as(b)) return true;
  if (a.list() != nullptr && b.list() != nullptr) return equal_lists(runtime, *a.list(), *b.list());
  if (a.dict() != nullptr && b.dict() != nullptr) return equal_dicts(runtime, *a.dict(), *b.dict());
  if (a.object() != nullptr && b.object() != nullptr)
    return equal_objects(runtime, a.object(), b.object());
  return false;
}

Result<bool> compare(Runtime& runtime, Comparison comparison, const Value& a, const Value& b) {
  switch (comparison) {
    case Comparison::kEqual:
      return equal(runtime, a, b);
    case Comparison::kNotEqual: {
      NMM_ASSIGN(const bool same, equal(runtime, a, b));
      return !same;
    }
    case Comparison::kIn:
      return contains(runtime, b, a);
    case Comparison::kNotIn: {
      NMM_ASSIGN(const bool found, contains(runtime, b, a));
      return !found;
    }
    default:
      return order(runtime, comparison, a, b);
  }
}

Result<bool> contains(Runtime& runtime, const Value& container, const Value& item) {
  if (const Text* text = container.text()) {
    if (item.text() == nullptr)
      return fail("'in <string>' requires string as left operand, not {}", item.type_name());
    NMM_TRY(runtime.budget.scan(text->bytes.size()));
    return find_bytes(text->bytes, item.text()->bytes) != std::string::npos;
  }
  const auto* view = container.object_as<DictView>();
  if (container.dict() != nullptr || (view != nullptr && view->kind() == DictView::Kind::kKeys)) {
    NMM_ASSIGN(const std::string key, hash_key(runtime, item));
    return (view != nullptr ? *view->dict() : *container.dict()).index.contains(key);
  }
  NMM_ASSIGN(const auto items, try_iterate(runtime, container));
  if (!items) return fail("argument of type '{}' is not iterable", container.type_name());
  while (true) {
    NMM_ASSIGN(const auto other, items->next(runtime));
    if (!other) return false;
    NMM_ASSIGN(const bool same, equal(runtime, *other, item));
    if (same) return true;
  }
}

}  // namespace neuronmm::text::jinja
