#pragma once
// The variable `loop` of a for-loop. It has attributes such as loop.index and loop.last.
// execution.cc makes one object per run of a loop. A template may keep the object after the loop,
// or store it in a namespace.

#include <functional>
#include <memory>

#include "text/jinja/iterator.h"

namespace neuronmm::text::jinja {

// Goes through the items of a loop. It reads one item ahead if the template asks for loop.last or
// loop.nextitem. It reads all remaining items if the template asks for loop.length of an iterator
// without a length. The object must be in a std::shared_ptr, because loop.cycle and loop.changed
// refer to it.
class Loop final : public Object, public std::enable_shared_from_this<Loop> {
 public:
  // Runs the loop again over other items, and returns the text that it makes. `depth` is the
  // `depth0` of that run.
  using Recurse = std::function<Result<Value>(const Value& items, int depth)>;

  // The parameters are:
  //   length   the number of items, or nothing if the iterator does not know it
  //   depth0   how many runs of the same loop surround this one, as in loop.depth0
  //   recurse  null unless the loop is marked `recursive`
  Loop(IteratorPtr items, std::optional<size_t> length, int depth0, Recurse recurse)
      : items_(std::move(items)),
        length_(length),
        depth0_(depth0),
        recurse_(std::move(recurse)),
        nesting_(1 + items_->nesting()) {}

  // Moves to the next item and returns it, or nothing at the end. Fails if the iterator fails.
  Result<std::optional<Value>> next(Runtime& runtime);
  // Releases the values that loop.changed() keeps, which may refer to this object. The evaluator
  // calls it when the loop is over, also after an error. The attributes stay those of the last
  // item.
  void finish();

  std::string_view type_name() const override { return "LoopContext"; }
  std::optional<size_t> length() const override { return length_; }
  bool callable() const override { return true; }
  // Calls loop(items). Fails if the loop is not marked `recursive`.
  Result<Value> call(Runtime& runtime, const Arguments& arguments) override;
  Result<std::optional<Value>> attribute(Runtime& runtime, std::string_view name) override;
  int nesting() const override { return nesting_; }

  // Returns the argument whose turn it is. Fails without arguments.
  Result<Value> cycle(const Arguments& arguments) const;
  // Returns whether the arguments differ from those of the last call.
  Result<Value> changed(Runtime& runtime, const Arguments& arguments);

 private:
  Status peek(Runtime& runtime);            // Reads after_ if it is not read yet.
  Result<int64_t> count(Runtime& runtime);  // Returns the number of items, read or not.

  IteratorPtr items_;
  std::optional<size_t> length_;
  int depth0_;  // The level of recursion of the loop, unlike nesting_.
  Recurse recurse_;
  int nesting_;                                    // The result of nesting() (value.h).
  std::optional<Value> before_, current_, after_;  // The previous, this and the next item.
  // The values that changed() saw last.
  std::optional<Values> last_values_;
  int64_t index0_ = -1;
  bool finished_ = false;
};

}  // namespace neuronmm::text::jinja
