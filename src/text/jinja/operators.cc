#include "text/jinja/operators.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "text/jinja/iterator.h"
#include "text/jinja/number.h"
#include "text/jinja/unicode.h"

namespace neuronmm::text::jinja {
namespace {

constexpr std::string_view kSigns[] = {"+", "-", "*", "/", "//", "%", "**"};

Error unsupported(Arithmetic operation, const Value& a, const Value& b) {
  return fail("unsupported operand type(s) for {}: '{}' and '{}'",
              kSigns[static_cast<size_t>(operation)], a.type_name(), b.type_name());
}

Result<Value> integer_power(int64_t base, int64_t exponent) {
  if (exponent < 0) {
    if (base == 0) return fail("0.0 cannot be raised to a negative power");
    return Value(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  int64_t result = 1;
  while (exponent > 0) {
    if (exponent % 2 == 1 && __builtin_mul_overflow(result, base, &result))
      return integer_overflow();
    exponent /= 2;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) return integer_overflow();
  }
  return Value(result);
}

// Divides as Python does. The quotient is rounded towards minus infinity, and the remainder has the
// sign of the divisor.
Result<Value> integer_division(int64_t a, int64_t b, bool remainder) {
  if (b == 0) return fail("integer division or modulo by zero");
  if (b == -1) {
    int64_t negative = 0;
    if (remainder) return Value(int64_t{0});
    if (__builtin_sub_overflow(int64_t{0}, a, &negative)) return integer_overflow();
    return Value(negative);
  }
  const int64_t truncated_remainder = a % b;
  const bool adjust = truncated_remainder != 0 && (truncated_remainder < 0) != (b < 0);
  return Value(remainder ? truncated_remainder + (adjust ? b : 0) : a / b - (adjust ? 1 : 0));
}

Result<Value> on_integers(Arithmetic operation, int64_t a, int64_t b) {
  int64_t result = 0;
  bool overflow = false;
  switch (operation) {
    case Arithmetic::kAdd:
      overflow = __builtin_add_overflow(a, b, &result);
      break;
    case Arithmetic::kSubtract:
      overflow = __builtin_sub_overflow(a, b, &result);
      break;
    case Arithmetic::kMultiply:
      overflow = __builtin_mul_overflow(a, b, &result);
      break;
    case Arithmetic::kDivide:
      if (b == 0) return fail("division by zero");
      return Value(static_cast<double>(a) / static_cast<double>(b));
    case Arithmetic::kPower:
      return integer_power(a, b);
    default:
      return integer_division(a, b, operation == Arithmetic::kModulo);
  }
  if (overflow) return integer_overflow();
  return Value(result);
}

double float_modulo(double a, double b) {
  const double remainder = std::fmod(a, b);
  if (remainder == 0.0) return std::copysign(0.0, b);
  return (remainder < 0.0) != (b < 0.0) ? remainder + b : remainder;
}

double float_floor_division(double a, double b) {
  const double remainder = std::fmod(a, b);
  const double quotient =
      (a - remainder) / b - (remainder != 0.0 && (remainder < 0.0) != (b < 0.0) ? 1.0 : 0.0);
  if (quotient == 0.0) return std::copysign(0.0, a / b);
  const double rounded_down = std::floor(quotient);
  return quotient - rounded_down > 0.5 ? rounded_down + 1.0 : rounded_down;
}

Result<Value> float_power(double a, double b) {
  if (a == 0.0 && b < 0.0) return fail("0.0 cannot be raised to a negative power");
  if (a < 0.0 && std::isfinite(b) && b != std::floor(b))
    return fail("expected a power that is no complex number, found {} ** {}", a, b);
  const double result = std::pow(a, b);
  if (std::isinf(result) && std::isfinite(a) && std::isfinite(b))
    return fail("numerical result out of range");
  return Value(result);
}

Result<Value> on_floats(Arithmetic operation, double a, double b) {
  const bool divides = operation == Arithmetic::kDivide || operation == Arithmetic::kModulo ||
                       operation == Arithmetic::kFloorDivide;
  if (divides && b == 0.0) return fail("float division or modulo by zero");
  switch (operation) {
    case Arithmetic::kAdd:
      return Value(a + b);
    case Arithmetic::kSubtract:
      return Value(a - b);
    case Arithmetic::kMultiply:
      return Value(a * b);
    case Arithmetic::kDivide:
      return Value(a / b);
    case Arithmetic::kModulo:
      return Value(float_modulo(a, b));
    case Arithmetic::kFloorDivide:
      return Value(float_floor_division(a, b));
    default:
      return float_power(a, b);
  }
}

// Computes "ab" * 3 or [1] * 3.
Result<Value> repeat(Runtime& runtime, const Value& value, int64_t times) {
  const auto count = static_cast<size_t>(std::max<int64_t>(times, 0));
  if (const Text* text = value.text()) {
    TextWriter writer(runtime.budget);
    for (size_t i = 0; i < count && !text->bytes.empty() && !writer.full(); ++i)
      writer.append(*text);
    NMM_ASSIGN(TextPtr whole, writer.take(text->markup));
    return Value(std::move(whole));
  }
  const Values& items = value.list()->items;
  if (items.empty()) return make_list(runtime, {}, value.list()->kind);
  if (count > runtime.budget.remaining_bytes() / sizeof(Value) / items.size())
    return fail("a list of more than {} items", runtime.budget.remaining_bytes() / sizeof(Value));
  Values all;
  for (size_t i = 0; i < count; ++i) all.insert(all.end(), items.begin(), items.end());
  return make_list(runtime, std::move(all), value.list()->kind);
}

// Joins texts. If one of them is markup, the other one is escaped and the result is markup.
Result<Value> add_texts(Runtime& runtime, const Value& a, const Value& b) {
  const bool markup = a.text()->markup || b.text()->markup;
  TextWriter writer(runtime.budget);
  for (const Value* side : {&a, &b}) {
    if (markup) {
      NMM_ASSIGN(const TextPtr escaped, escape_markup(runtime, *side));
      writer.append(*escaped);
    } else {
      writer.append(*side->text());
    }
  }
  NMM_ASSIGN(TextPtr sum, writer.take(markup));
  return Value(std::move(sum));
}

Result<Value> add_lists(Runtime& runtime, const List& a, const List& b) {
  Values all = a.items;
  all.insert(all.end(), b.items.begin(), b.items.end());
  return make_list(runtime, std::move(all),
                   a.kind == List::Kind::kList ? List::Kind::kList : List::Kind::kTuple);
}

// The items that a slice takes, as Python's slice.indices() has them.
struct Indices {
  int64_t start, stop, step;
  size_t count;
};

Result<Indices> slice_indices(int64_t length, const Value* start, const Value* stop,
                              const Value* step) {
  const auto given = [](const Value* value) { return value != nullptr && !value->is_none(); };
  for (const Value* value : {start, stop, step}) {
    if (given(value) && !value->integer())
      return fail("slice indices must be integers or None, found '{}'", value->type_name());
  }
  const int64_t by = given(step) ? *step->integer() : 1;
  if (by == 0) return fail("slice step cannot be zero");
  if (by == std::numeric_limits<int64_t>::min()) return integer_overflow();
  const int64_t lowest = by < 0 ? -1 : 0, highest = by < 0 ? length - 1 : length;
  const auto bound = [&](const Value* value, int64_t otherwise) {
    if (!given(value)) return otherwise;
    const int64_t index = *value->integer();
    return std::clamp(index < 0 ? index + length : index, lowest, highest);
  };
  const int64_t from = bound(start, by < 0 ? highest : lowest);
  const int64_t to = bound(stop, by < 0 ? lowest : highest);
  const int64_t distance = by < 0 ? from - to : to - from;
  const int64_t count = distance <= 0 ? 0 : (distance - 1) / std::abs(by) + 1;
  return Indices{from, to, by, static_cast<size_t>(count)};
}

Result<Value> slice_text(Runtime& runtime, const TextPtr& text, const Indices& indices) {
  NMM_TRY(runtime.budget.scan(text->bytes.size()));
  if (indices.step == 1) {
    const size_t begin = text->byte_of(static_cast<size_t>(indices.start));
    const size_t end = text->byte_of(static_cast<size_t>(indices.start) + indices.count);
    NMM_ASSIGN(TextPtr piece, substring(runtime.budget, text, begin, std::max(begin, end)));
    return Value(std::move(piece));
  }
  // The bytes at which the characters begin, and the end of the text.
  std::vector<size_t> starts;
  if (!text->ascii) {
    const size_t length = text->length();
    NMM_TRY(runtime.budget.allocate(length * sizeof(size_t)));
    for (size_t i = 0, at = 0; i < length; ++i) {
      starts.push_back(at);
      at += byte_of_index(std::string_view(text->bytes).substr(at), 1);
    }
    starts.push_back(text->bytes.size());
  }
  TextWriter writer(runtime.budget);
  for (size_t i = 0; i < indices.count && !writer.full(); ++i) {
    const auto index = static_cast<size_t>(indices.start + static_cast<int64_t>(i) * indices.step);
    if (text->ascii)
      writer.append(*text, index, index + 1);
    else
      writer.append(*text, starts[index], starts[index + 1]);
  }
  NMM_ASSIGN(TextPtr whole, writer.take(text->markup));
  return Value(std::move(whole));
}

}  // namespace

Result<Value> arithmetic(Runtime& runtime, Arithmetic operation, const Value& a, const Value& b) {
  if (operation == Arithmetic::kModulo && a.text() != nullptr)
    return format_percent(runtime, *a.text(), b);
  for (const Value* side : {&a, &b}) {
    if (side->is_undefined()) return fail("{}", side->undefined_message());
  }
  if (a.integer() && b.integer()) return on_integers(operation, *a.integer(), *b.integer());
  if (a.number() && b.number()) return on_floats(operation, *a.number(), *b.number());
  if (operation == Arithmetic::kMultiply) {
    const bool sequence_a = a.text() != nullptr || a.list() != nullptr;
    const bool sequence_b = b.text() != nullptr || b.list() != nullptr;
    if (sequence_a && b.integer()) return repeat(runtime, a, *b.integer());
    if (sequence_b && a.integer()) return repeat(runtime, b, *a.integer());
  }
  if (operation == Arithmetic::kAdd) {
    if (a.text() != nullptr && b.text() != nullptr) return add_texts(runtime, a, b);
    if (a.list() != nullptr && b.list() != nullptr &&
        (a.list()->kind == List::Kind::kList) == (b.list()->kind == List::Kind::kList))
      return add_lists(runtime, *a.list(), *b.list());
  }
  return unsupported(operation, a, b);
}

Result<Value> with_sign(bool negative, const Value& value) {
  if (value.is_undefined()) return fail("{}", value.undefined_message());
  if (value.real() != nullptr) return Value(negative ? -*value.real() : *value.real());
  const auto integer = value.integer();
  if (!integer)
    return fail("bad operand type for unary {}: '{}'", negative ? "-" : "+", value.type_name());
  return negative ? on_integers(Arithmetic::kSubtract, 0, *integer) : Value(*integer);
}

Result<Value> slice(Runtime& runtime, const Value& value, const Value* start, const Value* stop,
                    const Value* step) {
  if (value.is_undefined()) return fail("{}", value.undefined_message());
  const auto* range = value.object_as<Range>();
  if (value.text() == nullptr && value.list() == nullptr && range == nullptr)
    return fail("'{}' object cannot be sliced", value.type_name());
  NMM_ASSIGN(const Indices indices,
             slice_indices(static_cast<int64_t>(*length_of(value)), start, stop, step));
  if (value.text() != nullptr) return slice_text(runtime, value.text_ptr(), indices);
  if (range != nullptr) {
    int64_t first = 0, by = 0, end = 0;
    if (__builtin_mul_overflow(indices.start, range->step(), &first) ||
        __builtin_add_overflow(range->start(), first, &first) ||
        __builtin_mul_overflow(indices.step, range->step(), &by) ||
        __builtin_mul_overflow(indices.stop, range->step(), &end) ||
        __builtin_add_overflow(range->start(), end, &end))
      return integer_overflow();
    return Value(ObjectPtr(std::make_shared<Range>(first, end, by, indices.count)));
  }
  Values items;
  for (size_t i = 0; i < indices.count; ++i) {
    items.push_back(
        value.list()
            ->items[static_cast<size_t>(indices.start + static_cast<int64_t>(i) * indices.step)]);
  }
  return make_list(
      runtime, std::move(items),
      value.list()->kind == List::Kind::kList ? List::Kind::kList : List::Kind::kTuple);
}

Result<TextPtr> escape_markup(Runtime& runtime, const Value& value) {
  NMM_ASSIGN(const TextPtr text, to_text(runtime, value));
  if (text->markup) return text;
  TextWriter writer(runtime.budget);
  size_t hint = 0;
  for (size_t at = 0; at < text->bytes.size() && !writer.full(); ++at) {
    constexpr std::string_view kSpecial = "&<>'\"";
    constexpr std::string_view kNames[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
    const size_t special = kSpecial.find(text->bytes[at]);
    if (special == std::string_view::npos)
      writer.append(*text, at, at + 1);
    else
      writer.append(kNames[special], is_from_message(*text, at, hint));
  }
  return writer.take(true);
}

}  // namespace neuronmm::text::jinja
