#pragma once
// The iterators that `for` and most filters go through. As in Python, most filters compute an item
// only when it is asked for, and the items of an iterator can be read once. {{ x | map(...) |
// length }} is therefore an error.

#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "text/jinja/runtime.h"

namespace neuronmm::text::jinja {

// Gives values one after the other.
class Iterator : public Object {
 public:
  // Returns the next item, or nothing at the end.
  virtual Result<std::optional<Value>> next(Runtime& runtime) = 0;
  std::string_view type_name() const override { return "generator"; }
};
using IteratorPtr = std::shared_ptr<Iterator>;

// Goes through the items of an existing list.
class ListIterator final : public Iterator {
 public:
  explicit ListIterator(ListPtr list) : list_(std::move(list)) {}
  Result<std::optional<Value>> next(Runtime& runtime) override;
  int nesting() const override { return 1 + list_->nesting; }

 private:
  ListPtr list_;
  size_t next_ = 0;
};

// Goes through a list that is made when its first item is asked for.
class LazyListIterator final : public Iterator {
 public:
  using Make = std::function<Result<Values>(Runtime&)>;
  LazyListIterator(Make make, int nesting) : make_(std::move(make)), nesting_(nesting + 1) {}
  Result<std::optional<Value>> next(Runtime& runtime) override;
  int nesting() const override { return nesting_; }

 private:
  Make make_;
  Values items_;
  size_t next_ = 0;
  int nesting_;
};

// Gives the results of a function of each item. Items for which the function has no result are
// skipped.
class TransformIterator final : public Iterator {
 public:
  using Function = std::function<Result<std::optional<Value>>(Runtime&, const Value&)>;
  // `nesting` is the larger nesting of the source and of the values that the function holds.
  TransformIterator(Value source, Function function, int nesting)
      : source_(std::move(source)), function_(std::move(function)), nesting_(nesting + 1) {}
  Result<std::optional<Value>> next(Runtime& runtime) override;
  int nesting() const override { return nesting_; }

 private:
  Value source_;
  Function function_;
  int nesting_;
  IteratorPtr items_;
};

// The result of range(start, stop, step).
class Range final : public Object {
 public:
  Range(int64_t start, int64_t stop, int64_t step, size_t count)
      : start_(start), stop_(stop), step_(step), count_(count) {}
  std::string_view type_name() const override { return "range"; }
  std::optional<size_t> length() const override { return count_; }
  Result<std::optional<Value>> attribute(Runtime& runtime, std::string_view name) override;
  int64_t at(size_t i) const { return start_ + step_ * static_cast<int64_t>(i); }
  int64_t start() const { return start_; }
  int64_t stop() const { return stop_; }
  int64_t step() const { return step_; }

 private:
  int64_t start_, stop_, step_;
  size_t count_;
};

// The result of dict.keys(), dict.values() or dict.items().
class DictView final : public Object {
 public:
  enum class Kind { kKeys, kValues, kItems };
  DictView(DictPtr dict, Kind kind) : dict_(std::move(dict)), kind_(kind) {}
  std::string_view type_name() const override;
  std::optional<size_t> length() const override { return dict_->entries.size(); }
  int nesting() const override { return 2 + dict_->nesting; }
  Result<Value> at(Runtime& runtime, size_t i) const;
  const DictPtr& dict() const { return dict_; }
  Kind kind() const { return kind_; }

 private:
  DictPtr dict_;
  Kind kind_;
};

// Fails if iterators are nested too deep.
Result<Value> make_iterator(IteratorPtr iterator);

// Returns iter(value) of Python, or a null pointer where Python has a TypeError.
Result<IteratorPtr> try_iterate(Runtime& runtime, const Value& value);
// Returns iter(value), or fails where Python has a TypeError.
Result<IteratorPtr> iterate(Runtime& runtime, const Value& value);
// Returns list(value).
Result<Values> to_values(Runtime& runtime, const Value& value);

}  // namespace neuronmm::text::jinja
