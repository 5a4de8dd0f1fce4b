#pragma once
// The variable `loop` of a for-loop. It has attributes such as loop.index and loop.last.

#include <functional>
#include <memory>

#include "text/jinja/iterator.h"

namespace neuronmm::text::jinja {

// Goes through the items of a loop, and reads one item ahead if a template asks for it.
class Loop final : public Object, public std::enable_shared_from_this<Loop> {
 public:
  // Runs the loop again over other items, for a loop that is marked `recursive`.
  using Recurse = std::function<Result<Value>(const Value& items, int depth)>;

  Loop(IteratorPtr items, std::optional<size_t> length, int depth0, Recurse recurse)
      : items_(std::move(items)),
        length_(length),
        depth0_(depth0),
        recurse_(std::move(recurse)),
        nesting_(1 + items_->depth()) {}

  // Returns the next item of the loop, or nothing at the end.
  Result<std::optional<Value>> next(Runtime& runtime);
  // Releases values that the object holds. The evaluator calls it when the loop is over.
  void finish();

  std::string_view type_name() const override { return "LoopContext"; }
  std::optional<size_t> length() const override { return length_; }
  bool callable() const override { return true; }
  Result<Value> call(Runtime& runtime, const Arguments& arguments) override;
  Result<std::optional<Value>> attribute(Runtime& runtime, std::string_view name) override;
  int depth() const override { return nesting_; }

  Result<Value> cycle(const Arguments& arguments) const;
  Result<Value> changed(Runtime& runtime, const Arguments& arguments);

 private:
  Status peek(Runtime& runtime);
  Result<int64_t> count(Runtime& runtime);

  IteratorPtr items_;
  std::optional<size_t> length_;
  int depth0_;
  Recurse recurse_;
  int nesting_;
  std::optional<Value> before_, current_, after_;
  // The values that changed() saw last.
  std::optional<Values> last_values_;
  int64_t index0_ = -1;
  bool finished_ = false;
};

}  // namespace neuronmm::text::jinja
