#pragma once
// The values that expressions of a template compute: the values of Python that Jinja's sandbox
// allows. Lists and dicts never change once they are made (the sandbox forbids it), so values can
// share them.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"
#include "text/jinja/text.h"

namespace neuronmm::text::jinja {

class Value;
class Runtime;
struct Arguments;
struct List;
struct Dict;
using Values = std::vector<Value>;
using ListPtr = std::shared_ptr<const List>;
using DictPtr = std::shared_ptr<const Dict>;

// A value that has an identity: a function, macro, iterator, range, namespace or loop.
class Object {
 public:
  virtual ~Object() = default;
  virtual std::string_view type_name() const = 0;  // The name that Python's type(x).__name__ gives.
  virtual std::optional<size_t> length() const { return std::nullopt; }
  virtual bool callable() const { return false; }
  virtual Result<Value> call(Runtime& runtime, const Arguments& arguments);
  // Returns the value of `.name` and ["name"], or nothing if there is none.
  virtual Result<std::optional<Value>> attribute(Runtime& runtime, std::string_view name);
  // The deepest nesting of containers and iterators, including this one.
  virtual int nesting() const { return 1; }
};
using ObjectPtr = std::shared_ptr<Object>;

struct None {};
// The value of a name, item or attribute that does not exist. Most operations on it fail with
// `message`.
struct Undefined {
  std::shared_ptr<const std::string> message;
};

// A value of any type. Copies share texts, lists, dicts and objects.
class Value {
 public:
  Value() = default;
  explicit Value(bool value) : state_(value) {}
  explicit Value(int64_t value) : state_(value) {}
  explicit Value(double value) : state_(value) {}
  explicit Value(TextPtr value) : state_(std::move(value)) {}
  explicit Value(ListPtr value) : state_(std::move(value)) {}
  explicit Value(DictPtr value) : state_(std::move(value)) {}
  explicit Value(ObjectPtr value) : state_(std::move(value)) {}
  static Value undefined(std::string message);

  bool is_none() const { return std::holds_alternative<None>(state_); }
  bool is_undefined() const { return std::holds_alternative<Undefined>(state_); }
  bool is_bool() const { return std::holds_alternative<bool>(state_); }
  const bool* boolean() const { return std::get_if<bool>(&state_); }
  const double* real() const { return std::get_if<double>(&state_); }
  // Returns an integer, which includes True and False.
  std::optional<int64_t> integer() const;
  // Returns the value of an integer or a float.
  std::optional<double> number() const;
  const Text* text() const { return pointee<TextPtr, Text>(); }
  // A tuple is a list, too.
  const List* list() const { return pointee<ListPtr, List>(); }
  const Dict* dict() const { return pointee<DictPtr, Dict>(); }
  Object* object() const {
    const auto* pointer = std::get_if<ObjectPtr>(&state_);
    return pointer == nullptr ? nullptr : pointer->get();
  }
  template <typename T>
  T* object_as() const {
    return dynamic_cast<T*>(object());
  }
  const TextPtr& text_ptr() const { return std::get<TextPtr>(state_); }
  const ListPtr& list_ptr() const { return std::get<ListPtr>(state_); }
  const DictPtr& dict_ptr() const { return std::get<DictPtr>(state_); }
  const ObjectPtr& object_ptr() const { return std::get<ObjectPtr>(state_); }
  const std::string& undefined_message() const { return *std::get<Undefined>(state_).message; }

  std::string_view type_name() const;
  int nesting() const;
  // Returns Python's `is`.
  bool same_as(const Value& other) const;

 private:
  template <typename Pointer, typename T>
  const T* pointee() const {
    const auto* pointer = std::get_if<Pointer>(&state_);
    return pointer == nullptr ? nullptr : pointer->get();
  }

  std::variant<None, Undefined, bool, int64_t, double, TextPtr, ListPtr, DictPtr, ObjectPtr> state_;
};

struct List {
  Values items;
  // The kind kGroup is a tuple that the filter `groupby` made.
  enum class Kind { kList, kTuple, kGroup } kind = Kind::kList;
  int nesting = 1;
};

// A dict, whose entries are in the order of insertion.
struct Dict {
  std::vector<std::pair<Value, Value>> entries;
  // Maps hash_key() to the position of the entry.
  std::unordered_map<std::string, size_t> index;
  int nesting = 1;

  const Value* find(const std::string& hash_key) const;
};

// Returns a string that is equal for keys that Python takes for the same: 1, 1.0 and True. Fails
// for values that Python cannot hash.
Result<std::string> hash_key(Runtime& runtime, const Value& value);
std::string hash_key(std::string_view text);

// Fails if `nesting` is more than a value may have.
Status check_nesting(int nesting);

// Make a list or a tuple. They fail if the budget is spent, or if values are nested so deep that
// recursion could exhaust the stack.
Result<Value> make_list(Runtime& runtime, Values items, List::Kind kind = List::Kind::kList);
inline Result<Value> make_tuple(Runtime& runtime, Values items) {
  return make_list(runtime, std::move(items), List::Kind::kTuple);
}

// Makes a dict.
class DictBuilder {
 public:
  explicit DictBuilder(Runtime& runtime) : runtime_(runtime) {}
  // Sets an entry. A later value of the same key replaces the earlier one and keeps its position.
  Status set(const Value& key, Value value);
  Result<Value> take();

 private:
  Runtime& runtime_;
  Dict dict_;
};

Result<Value> make_text(Runtime& runtime, std::string_view bytes, bool from_messages = false);

// Returns bool(value) of Python.
bool truth(const Value& value);

enum class Comparison {
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kIn,
  kNotIn
};

Result<bool> equal(Runtime& runtime, const Value& a, const Value& b);
// Fails where Python has a TypeError, as for 1 < "a".
Result<bool> compare(Runtime& runtime, Comparison comparison, const Value& a, const Value& b);
// Returns `item in container`.
Result<bool> contains(Runtime& runtime, const Value& container, const Value& item);

}  // namespace neuronmm::text::jinja
