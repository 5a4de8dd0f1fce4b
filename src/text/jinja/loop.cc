#include "text/jinja/loop.h"

#include "text/jinja/arguments.h"

namespace neuronmm::text::jinja {
namespace {

// The methods loop.cycle and loop.changed.
class LoopMethod final : public Object {
 public:
  LoopMethod(std::shared_ptr<Loop> loop, bool cycle) : loop_(std::move(loop)), cycle_(cycle) {}
  std::string_view type_name() const override { return "method"; }
  bool callable() const override { return true; }
  int nesting() const override { return 1 + loop_->nesting(); }
  Result<Value> call(Runtime& runtime, const Arguments& arguments) override {
    return cycle_ ? loop_->cycle(arguments) : loop_->changed(runtime, arguments);
  }

 private:
  std::shared_ptr<Loop> loop_;
  bool cycle_;
};

Value or_undefined(const std::optional<Value>& value, const char* message) {
  return value ? *value : Value::undefined(message);
}

}  // namespace

Result<std::optional<Value>> Loop::next(Runtime& runtime) {
  NMM_TRY(peek(runtime));
  if (!after_) return std::optional<Value>();
  ++index0_;
  before_ = std::move(current_);
  current_ = std::move(after_);
  after_.reset();
  return current_;
}

void Loop::finish() {
  finished_ = true;
  last_values_.reset();
}

Status Loop::peek(Runtime& runtime) {
  if (after_) return {};
  NMM_ASSIGN(after_, items_->next(runtime));
  return {};
}

// If the iterator does not know its length, the remaining items are read to count them.
Result<int64_t> Loop::count(Runtime& runtime) {
  if (!length_) {
    NMM_ASSIGN(Values rest, to_values(runtime, Value(ObjectPtr(items_))));
    length_ = rest.size() + static_cast<size_t>(index0_ + 1) + (after_ ? 1 : 0);
    NMM_ASSIGN(const Value list, make_list(runtime, std::move(rest)));
    items_ = std::make_shared<ListIterator>(list.list_ptr());
    nesting_ = std::max(nesting_, 1 + items_->nesting());
  }
  return static_cast<int64_t>(*length_);
}

Result<Value> Loop::call(Runtime&, const Arguments& arguments) {
  if (!recurse_) return fail("the loop must have the 'recursive' marker to be called recursively");
  NMM_ASSIGN(const BoundArguments bound, bind("loop", arguments, {"iterable"}, 1));
  return recurse_(*bound[0], depth0_ + 1);
}

Result<std::optional<Value>> Loop::attribute(Runtime& runtime, std::string_view name) {
  const auto some = [](Value value) { return std::optional(std::move(value)); };
  if (name == "index") return some(Value(index0_ + 1));
  if (name == "index0") return some(Value(index0_));
  if (name == "first") return some(Value(index0_ == 0));
  if (name == "depth") return some(Value(int64_t{depth0_} + 1));
  if (name == "depth0") return some(Value(int64_t{depth0_}));
  if (name == "previtem")
    return some(index0_ == 0 ? Value::undefined("there is no previous item")
                             : or_undefined(before_, "there is no previous item"));
  if (name == "cycle" || name == "changed")
    return some(
        Value(ObjectPtr(std::make_shared<LoopMethod>(shared_from_this(), name == "cycle"))));
  if (name == "last" || name == "nextitem") {
    NMM_TRY(peek(runtime));
    return some(name == "last" ? Value(!after_) : or_undefined(after_, "there is no next item"));
  }
  if (name == "length" || name == "revindex" || name == "revindex0") {
    NMM_ASSIGN(const int64_t length, count(runtime));
    if (name == "length") return some(Value(length));
    return some(Value(length - index0_ - (name == "revindex0" ? 1 : 0)));
  }
  return std::optional<Value>();
}

Result<Value> Loop::cycle(const Arguments& arguments) const {
  const Values& values = arguments.positional;
  if (values.empty()) return fail("no items for cycling given");
  return values[static_cast<size_t>(index0_) % values.size()];
}

Result<Value> Loop::changed(Runtime& runtime, const Arguments& arguments) {
  bool same = last_values_ && last_values_->size() == arguments.positional.size();
  for (size_t i = 0; same && i < arguments.positional.size(); ++i) {
    NMM_ASSIGN(same, equal(runtime, (*last_values_)[i], arguments.positional[i]));
  }
  if (!same && !finished_) last_values_ = arguments.positional;
  return Value(!same);
}

}  // namespace neuronmm::text::jinja
