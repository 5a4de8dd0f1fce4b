// Decides value.name, value[key] and value(...) as the sandbox of Jinja does.

#include <algorithm>
#include <array>

#include "text/jinja/iterator.h"
#include "text/jinja/objects.h"
#include "text/jinja/unicode.h"

namespace neuronmm::text::jinja {
namespace {

// The methods that would change a list or a dict. The immutable sandbox makes them undefined.
constexpr std::array<std::string_view, 8> kListChanges = {"append", "clear", "pop",    "reverse",
                                                          "insert", "sort",  "extend", "remove"};
constexpr std::array<std::string_view, 5> kDictChanges = {"clear", "pop", "popitem", "setdefault",
                                                          "update"};

// The attributes that every object of Python has, including one that stands for an undefined value.
constexpr std::array<std::string_view, 23> kObjectAttributes = {
    "__class__", "__delattr__",  "__dir__",          "__doc__", "__eq__",          "__format__",
    "__ge__",    "__getstate__", "__getattribute__", "__gt__",  "__hash__",        "__init__",
    "__le__",    "__lt__",       "__module__",       "__ne__",  "__new__",         "__reduce__",
    "__repr__",  "__setattr__",  "__sizeof__",       "__str__", "__subclasshook__"};

bool is_dunder(std::string_view name) { return name.starts_with("__"); }

Value unsafe(const Value& value, std::string_view name) {
  return Value::undefined(
      fmt::format("access to attribute '{}' of '{}' object is unsafe.", name, value.type_name()));
}

Value no_attribute(const Value& value, std::string_view name) {
  const bool is_none = value.is_none();
  return Value::undefined(fmt::format("'{}{}' has no attribute '{}'",
                                      is_none ? "None" : value.type_name(),
                                      is_none ? "" : " object", name));
}

Method find_method(const Value& value, std::string_view name) {
  if (value.text() != nullptr) return find_text_method(name);
  if (value.dict() != nullptr) return find_dict_method(name);
  if (value.list() == nullptr) return nullptr;
  return value.list()->kind == List::Kind::kList ? find_list_method(name) : find_tuple_method(name);
}

// Returns getattr(value, name) of Python as the sandbox allows it, or nothing where Python has an
// AttributeError.
Result<std::optional<Value>> own_attribute(Runtime& runtime, const Value& value,
                                           std::string_view name) {
  if (is_dunder(name)) return std::optional<Value>();
  if (const Method method = find_method(value, name))
    return std::optional(Value(ObjectPtr(std::make_shared<BoundMethod>(value, method))));
  const auto changes = [&](const auto& names) {
    return std::ranges::find(names, name) != names.end();
  };
  const List* list = value.list();
  if ((value.dict() != nullptr && changes(kDictChanges)) ||
      (list != nullptr && list->kind == List::Kind::kList && changes(kListChanges)))
    return std::optional(unsafe(value, name));
  if (list != nullptr && list->kind == List::Kind::kGroup) {
    if (name == "grouper") return std::optional(list->items[0]);
    if (name == "list") return std::optional(list->items[1]);
  }
  if (value.object() != nullptr) return value.object()->attribute(runtime, name);
  return std::optional<Value>();
}

// Returns the item at an integer index, or nothing if the index is out of range.
Result<std::optional<Value>> indexed(Runtime& runtime, const Value& value, int64_t index) {
  const auto length = length_of(value);
  if (!length) return std::optional<Value>();
  const auto count = static_cast<int64_t>(*length);
  if (index < 0) index += count;
  if (index < 0 || index >= count) return std::optional<Value>();
  const auto i = static_cast<size_t>(index);
  if (value.list() != nullptr) return std::optional(value.list()->items[i]);
  if (const Text* text = value.text()) {
    NMM_TRY(runtime.budget.scan(text->ascii ? 0 : text->bytes.size()));
    const size_t begin = text->byte_of(i);
    const size_t next = begin + decode(text->bytes, begin).length;
    NMM_ASSIGN(TextPtr one, substring(runtime.budget, value.text_ptr(), begin, next));
    return std::optional(Value(std::move(one)));
  }
  if (const auto* range = value.object_as<Range>()) return std::optional(Value(range->at(i)));
  return std::optional<Value>();
}

// Returns value[key] of Python, or nothing where Python has a TypeError, KeyError or IndexError.
Result<std::optional<Value>> own_item(Runtime& runtime, const Value& value, const Value& key) {
  if (const Dict* dict = value.dict()) {
    if (key.list() == nullptr || key.list()->kind != List::Kind::kList) {
      const auto hash = hash_key(runtime, key);
      const Value* found = hash.ok() ? dict->find(*hash) : nullptr;
      if (found != nullptr) return std::optional(*found);
    }
    return std::optional<Value>();
  }
  if (const auto index = key.integer()) return indexed(runtime, value, *index);
  return std::optional<Value>();
}

}  // namespace

Result<Value> Object::call(Runtime&, const Arguments&) {
  return fail("'{}' object is not callable", type_name());
}

Result<std::optional<Value>> Object::attribute(Runtime&, std::string_view) {
  return std::optional<Value>();
}

Result<Value> get_attribute(Runtime& runtime, const Value& value, std::string_view name) {
  NMM_TRY(runtime.budget.spend(1));
  if (value.is_undefined()) {
    const bool exists = std::ranges::find(kObjectAttributes, name) != kObjectAttributes.end();
    return exists ? Result<Value>(unsafe(value, name)) : fail("{}", value.undefined_message());
  }
  NMM_ASSIGN(auto own, own_attribute(runtime, value, name));
  if (own) return *std::move(own);
  if (const Dict* dict = value.dict()) {
    if (const Value* item = dict->find(hash_key(name))) return *item;
  }
  return is_dunder(name) ? unsafe(value, name) : no_attribute(value, name);
}

Result<Value> get_item(Runtime& runtime, const Value& value, const Value& key) {
  NMM_TRY(runtime.budget.spend(1));
  if (value.is_undefined()) return fail("{}", value.undefined_message());
  NMM_ASSIGN(auto item, own_item(runtime, value, key));
  if (item) return *std::move(item);
  if (const Text* name = key.text()) {
    NMM_ASSIGN(auto own, own_attribute(runtime, value, name->bytes));
    if (own) return *std::move(own);
    return is_dunder(name->bytes) ? unsafe(value, name->bytes) : no_attribute(value, name->bytes);
  }
  TextWriter writer(runtime.budget, 200);
  write_representation(runtime, key, writer);
  const auto shown = writer.take();
  return Value::undefined(fmt::format("{} object has no element {}", value.type_name(),
                                      shown.ok() ? (*shown)->bytes : "of that name"));
}

Result<Value> call(Runtime& runtime, const Value& function, const Arguments& arguments) {
  NMM_TRY(runtime.budget.spend(1));
  if (function.is_undefined()) return fail("{}", function.undefined_message());
  if (function.object() == nullptr)
    return fail("'{}' object is not callable", function.type_name());
  // The call may replace the variable that holds the function, so a copy keeps it alive.
  // NOLINTNEXTLINE(performance-unnecessary-copy-initialization)
  const ObjectPtr object = function.object_ptr();
  return object->call(runtime, arguments);
}

}  // namespace neuronmm::text::jinja
