#include "text/jinja/iterator.h"

#include "text/jinja/unicode.h"

namespace neuronmm::text::jinja {
namespace {

// Iterates over an object that knows its length and gives an item by its index.
template <typename Sequence>
class IndexedIterator final : public Iterator {
 public:
  explicit IndexedIterator(std::shared_ptr<Sequence> sequence) : sequence_(std::move(sequence)) {}
  Result<std::optional<Value>> next(Runtime& runtime) override {
    NMM_TRY(runtime.budget.spend(1));
    if (next_ == *sequence_->length()) return std::optional<Value>();
    if constexpr (std::is_same_v<Sequence, Range>) {
      return std::optional(Value(sequence_->at(next_++)));
    } else {
      NMM_ASSIGN(Value item, sequence_->at(runtime, next_++));
      return std::optional(std::move(item));
    }
  }
  int nesting() const override { return 1 + sequence_->nesting(); }

 private:
  std::shared_ptr<Sequence> sequence_;
  size_t next_ = 0;
};

class Characters final : public Iterator {
 public:
  explicit Characters(TextPtr text) : text_(std::move(text)) {}
  Result<std::optional<Value>> next(Runtime& runtime) override {
    NMM_TRY(runtime.budget.spend(1));
    if (at_ == text_->bytes.size()) return std::optional<Value>();
    const size_t begin = at_;
    at_ += decode(text_->bytes, at_).length;
    // The result is plain text even if the text is markup.
    TextWriter one(runtime.budget);
    one.append(*text_, begin, at_);
    NMM_ASSIGN(TextPtr text, one.take());
    return std::optional(Value(std::move(text)));
  }

 private:
  TextPtr text_;
  size_t at_ = 0;
};

Values keys_of(const Dict& dict) {
  Values keys;
  for (const auto& [key, value] : dict.entries) keys.push_back(key);
  return keys;
}

}  // namespace

Result<std::optional<Value>> ListIterator::next(Runtime& runtime) {
  NMM_TRY(runtime.budget.spend(1));
  if (next_ == list_->items.size()) return std::optional<Value>();
  return std::optional(list_->items[next_++]);
}

Result<std::optional<Value>> LazyListIterator::next(Runtime& runtime) {
  NMM_TRY(runtime.budget.spend(1));
  if (make_) {
    NMM_ASSIGN(items_, make_(runtime));
    make_ = nullptr;
  }
  if (next_ == items_.size()) return std::optional<Value>();
  return std::optional(items_[next_++]);
}

Result<std::optional<Value>> TransformIterator::next(Runtime& runtime) {
  if (!items_) {
    NMM_ASSIGN(items_, iterate(runtime, source_));
  }
  while (true) {
    NMM_ASSIGN(const auto item, items_->next(runtime));
    if (!item) return std::optional<Value>();
    NMM_ASSIGN(auto result, function_(runtime, *item));
    if (result) return result;
  }
}

Result<std::optional<Value>> Range::attribute(Runtime&, std::string_view name) {
  if (name == "start") return std::optional(Value(start_));
  if (name == "stop") return std::optional(Value(stop_));
  if (name == "step") return std::optional(Value(step_));
  return std::optional<Value>();
}

std::string_view DictView::type_name() const {
  switch (kind_) {
    case Kind::kKeys:
      return "dict_keys";
    case Kind::kValues:
      return "dict_values";
    default:
      return "dict_items";
  }
}

Result<Value> DictView::at(Runtime& runtime, size_t i) const {
  const auto& [key, value] = dict_->entries[i];
  if (kind_ == Kind::kKeys) return key;
  if (kind_ == Kind::kValues) return value;
  return make_tuple(runtime, {key, value});
}

Result<Value> make_iterator(IteratorPtr iterator) {
  NMM_TRY(check_nesting(iterator->nesting()));
  return Value(ObjectPtr(std::move(iterator)));
}

Result<IteratorPtr> try_iterate(Runtime& runtime, const Value& value) {
  if (value.text() != nullptr) return IteratorPtr(std::make_shared<Characters>(value.text_ptr()));
  if (value.list() != nullptr) return IteratorPtr(std::make_shared<ListIterator>(value.list_ptr()));
  if (value.dict() != nullptr) {
    NMM_ASSIGN(const Value keys, make_list(runtime, keys_of(*value.dict())));
    return IteratorPtr(std::make_shared<ListIterator>(keys.list_ptr()));
  }
  if (value.is_undefined())
    return IteratorPtr(std::make_shared<ListIterator>(std::make_shared<const List>()));
  if (value.object() == nullptr) return IteratorPtr();
  const ObjectPtr& object = value.object_ptr();
  if (auto iterator = std::dynamic_pointer_cast<Iterator>(object)) return iterator;
  if (auto range = std::dynamic_pointer_cast<Range>(object))
    return IteratorPtr(std::make_shared<IndexedIterator<Range>>(range));
  if (auto view = std::dynamic_pointer_cast<DictView>(object))
    return IteratorPtr(std::make_shared<IndexedIterator<DictView>>(view));
  return IteratorPtr();
}

Result<IteratorPtr> iterate(Runtime& runtime, const Value& value) {
  NMM_ASSIGN(auto items, try_iterate(runtime, value));
  if (!items) return fail("'{}' object is not iterable", value.type_name());
  return items;
}

Result<Values> to_values(Runtime& runtime, const Value& value) {
  NMM_ASSIGN(const auto items, iterate(runtime, value));
  Values values;
  while (true) {
    NMM_ASSIGN(auto item, items->next(runtime));
    if (!item) return values;
    NMM_TRY(runtime.budget.allocate(sizeof(Value)));
    values.push_back(*std::move(item));
  }
}

}  // namespace neuronmm::text::jinja
