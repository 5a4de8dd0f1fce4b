// Jinja's tests, such as x is defined or x is divisibleby 3.

#include <unordered_map>

#include "text/jinja/arguments.h"
#include "text/jinja/iterator.h"
#include "text/jinja/operators.h"

namespace neuronmm::text::jinja {
namespace {

// A test that depends on the value alone.
template <bool (*predicate)(const Value&)>
Result<bool> plain(Runtime&, const Value& value, const Arguments& arguments) {
  NMM_TRY(bind("test", arguments, {}, 0));
  return predicate(value);
}

template <Comparison comparison>
Result<bool> comparing(Runtime& runtime, const Value& value, const Arguments& arguments) {
  NMM_ASSIGN(const BoundArguments bound, bind("test", arguments, {"other"}, 1));
  return compare(runtime, comparison, value, *bound[0]);
}

bool is_defined(const Value& value) { return !value.is_undefined(); }
bool is_undefined(const Value& value) { return value.is_undefined(); }
bool is_none(const Value& value) { return value.is_none(); }
bool is_boolean(const Value& value) { return value.is_bool(); }
bool is_true(const Value& value) { return value.is_bool() && *value.boolean(); }
bool is_false(const Value& value) { return value.is_bool() && !*value.boolean(); }
bool is_integer(const Value& value) { return value.integer() && !value.is_bool(); }
bool is_float(const Value& value) { return value.real() != nullptr; }
bool is_number(const Value& value) { return value.number().has_value(); }
bool is_string(const Value& value) { return value.text() != nullptr; }
bool is_mapping(const Value& value) { return value.dict() != nullptr; }
bool is_escaped(const Value& value) { return value.text() != nullptr && value.text()->markup; }
bool is_sequence(const Value& value) {
  return value.text() != nullptr || value.list() != nullptr || value.dict() != nullptr ||
         value.is_undefined() || value.object_as<Range>() != nullptr;
}
bool is_callable(const Value& value) {
  return value.is_undefined() || (value.object() != nullptr && value.object()->callable());
}

Result<bool> is_iterable(Runtime& runtime, const Value& value, const Arguments& arguments) {
  NMM_TRY(bind("iterable", arguments, {}, 0));
  NMM_ASSIGN(const auto items, try_iterate(runtime, value));
  return items != nullptr;
}

Result<bool> is_same(Runtime&, const Value& value, const Arguments& arguments) {
  NMM_ASSIGN(const BoundArguments bound, bind("sameas", arguments, {"other"}, 1));
  return value.same_as(*bound[0]);
}

// Returns whether value % divisor == remainder.
Result<bool> has_remainder(Runtime& runtime, const Value& value, const Value& divisor,
                           int64_t remainder) {
  NMM_ASSIGN(const Value modulo, arithmetic(runtime, Arithmetic::kModulo, value, divisor));
  return equal(runtime, modulo, Value(remainder));
}

Result<bool> is_divisible(Runtime& runtime, const Value& value, const Arguments& arguments) {
  NMM_ASSIGN(const BoundArguments bound, bind("divisibleby", arguments, {"num"}, 1));
  return has_remainder(runtime, value, *bound[0], 0);
}

template <int64_t remainder>
Result<bool> is_parity(Runtime& runtime, const Value& value, const Arguments& arguments) {
  NMM_TRY(bind("odd", arguments, {}, 0));
  return has_remainder(runtime, value, Value(int64_t{2}), remainder);
}

template <bool upper>
Result<bool> is_case(Runtime& runtime, const Value& value, const Arguments& arguments) {
  NMM_TRY(bind("lower", arguments, {}, 0));
  NMM_ASSIGN(TextPtr text, to_text(runtime, value));
  NMM_ASSIGN(const Value method,
             get_attribute(runtime, Value(std::move(text)), upper ? "isupper" : "islower"));
  NMM_ASSIGN(const Value result, call(runtime, method, {}));
  return truth(result);
}

template <bool filter>
Result<bool> is_known(Runtime&, const Value& value, const Arguments& arguments) {
  NMM_TRY(bind("filter", arguments, {}, 0));
  if (value.text() == nullptr) return false;
  const std::string& name = value.text()->bytes;
  return filter ? find_filter(name) != nullptr : find_test(name) != nullptr;
}

const std::unordered_map<std::string_view, TestFunction>& tests() {
  static const std::unordered_map<std::string_view, TestFunction> kTests = {
      {"odd", is_parity<1>},
      {"even", is_parity<0>},
      {"divisibleby", is_divisible},
      {"defined", plain<is_defined>},
      {"undefined", plain<is_undefined>},
      {"filter", is_known<true>},
      {"test", is_known<false>},
      {"none", plain<is_none>},
      {"boolean", plain<is_boolean>},
      {"false", plain<is_false>},
      {"true", plain<is_true>},
      {"integer", plain<is_integer>},
      {"float", plain<is_float>},
      {"lower", is_case<false>},
      {"upper", is_case<true>},
      {"string", plain<is_string>},
      {"mapping", plain<is_mapping>},
      {"number", plain<is_number>},
      {"sequence", plain<is_sequence>},
      {"iterable", is_iterable},
      {"callable", plain<is_callable>},
      {"sameas", is_same},
      {"escaped", plain<is_escaped>},
      {"in", comparing<Comparison::kIn>},
      {"==", comparing<Comparison::kEqual>},
      {"eq", comparing<Comparison::kEqual>},
      {"equalto", comparing<Comparison::kEqual>},
      {"!=", comparing<Comparison::kNotEqual>},
      {"ne", comparing<Comparison::kNotEqual>},
      {">", comparing<Comparison::kGreater>},
      {"gt", comparing<Comparison::kGreater>},
      {"greaterthan", comparing<Comparison::kGreater>},
      {"ge", comparing<Comparison::kGreaterEqual>},
      {">=", comparing<Comparison::kGreaterEqual>},
      {"<", comparing<Comparison::kLess>},
      {"lt", comparing<Comparison::kLess>},
      {"lessthan", comparing<Comparison::kLess>},
      {"<=", comparing<Comparison::kLessEqual>},
      {"le", comparing<Comparison::kLessEqual>},
  };
  return kTests;
}

}  // namespace

TestFunction find_test(std::string_view name) {
  const auto found = tests().find(name);
  return found == tests().end() ? nullptr : found->second;
}

}  // namespace neuronmm::text::jinja
