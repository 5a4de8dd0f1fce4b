// The filters that work on numbers or on any value, and the table of all filters.

#include "text/jinja/filters.h"

#include <cmath>
#include <unordered_map>

#include "text/jinja/number.h"

namespace neuronmm::text::jinja {
namespace {

FilterResult filter_abs(Runtime&, const Value& value, const Arguments& arguments) {
  NMM_TRY(bind("abs", arguments, {}, 0));
  if (value.real() != nullptr) return Value(std::abs(*value.real()));
  const auto integer = value.integer();
  if (!integer) return fail("bad operand type for abs(): '{}'", value.type_name());
  if (*integer == INT64_MIN) return integer_overflow();
  return Value(std::abs(*integer));
}

FilterResult filter_attr(Runtime& runtime, const Value& value, const Arguments& arguments) {
  NMM_ASSIGN(const BoundArguments bound, bind("attr", arguments, {"name"}, 1));
  NMM_ASSIGN(const Text* name, text_argument("attr", bound[0]));
  // The filter looks for attributes only, and the items of a dict are no attributes.
  if (value.dict() != nullptr && value.dict()->find(hash_key(name->bytes)) != nullptr)
    return Value::undefined(fmt::format("'dict object' has no attribute '{}'", name->bytes));
  if (value.is_undefined()) return fail("{}", value.undefined_message());
  return get_attribute(runtime, value, name->bytes);
}

FilterResult filter_default(Runtime&, const Value& value, const Arguments& arguments) {
  NMM_ASSIGN(const BoundArguments bound,
             bind("default", arguments, {"default_value", "boolean"}, 0));
  if (!value.is_undefined() && (!truth_argument(bound[1]) || truth(value))) return value;
  if (bound[0] != nullptr) return *bound[0];
  return Value(std::make_shared<const Text>());
}

// Returns int(value) of Python, or nothing where Python has a TypeError or ValueError.
Result<std::optional<int64_t>> to_integer(const Value& value, const Value* base) {
  if (value.text() != nullptr) {
    const auto number_base = integer_argument("int", base, 10);
    const bool valid =
        number_base.ok() && (*number_base == 0 || (*number_base >= 2 && *number_base <= 36));
    if (!valid) return std::optional<int64_t>();
    return parse_integer(value.text()->bytes, *number_base);
  }
  if (value.integer()) return value.integer();
  if (value.real() == nullptr || std::isnan(*value.real())) return std::optional<int64_t>();
  NMM_ASSIGN(const int64_t whole, truncate(*value.real()));
  return std::optional(whole);
}

Result<std::optional<double>> to_float(const Value& value) {
  if (value.is_undefined()) return fail("{}", value.undefined_message());
  if (value.text() != nullptr) return parse_float(value.text()->bytes);
  return value.number();
}

// Unlike int() of Python, the filter accepts the text of a float: "42.23" | int is 42.
FilterResult filter_int(Runtime&, const Value& value, const Arguments& arguments) {
  NMM_ASSIGN(const BoundArguments bound, bind("int", arguments, {"default", "base"}, 0));
  if (value.is_undefined()) return fail("{}", value.undefined_message());
  NMM_ASSIGN(const auto integer, to_integer(value, bound[1]));
  if (integer) return Value(*integer);
  NMM_ASSIGN(const auto real, to_float(value));
  if (real && std::isfinite(*real)) {
    NMM_ASSIGN(const int64_t whole, truncate(*real));
    return Value(whole);
  }
  return bound[0] != nullptr ? *bound[0] : Value(int64_t{0});
}

FilterResult filter_float(Runtime&, const Value& value, const Arguments& arguments) {
  NMM_ASSIGN(const BoundArguments bound, bind("float", arguments, {"default"}, 0));
  NMM_ASSIGN(const auto real, to_float(value));
  if (real) return Value(*real);
  return bound[0] != nullptr ? *bound[0] : Value(0.0);
}

FilterResult filter_round(Runtime&, const Value& value, const Arguments& arguments) {
  NMM_ASSIGN(const BoundArguments bound, bind("round", arguments, {"precision", "method"}, 0));
  NMM_ASSIGN(const int64_t precision, integer_argument("round", bound[0], 0));
  NMM_ASSIGN(const Text* method, text_argument("round", bound[1]));
  if (method != nullptr && method->bytes != "common" && method->bytes != "ceil" &&
      method->bytes != "floor")
    return fail("method must be common, ceil or floor");
  if (value.is_undefined()) return fail("{}", value.undefined_message());
  if (!value.number()) return fail("round(): expected a number, found '{}'", value.type_name());
  if (method == nullptr || method->bytes == "common") return round_number(value, precision);
  if (precision > 300 || precision < -300) return fail("round(): a precision that is too large");
  const double unit = std::pow(10.0, static_cast<double>(precision));
  const double scaled = *value.number() * unit;
  if (!std::isfinite(scaled)) return fail("cannot convert float infinity or NaN to integer");
  // Python's ceil and floor return integers, whose zero has no sign.
  const double whole = (method->bytes == "ceil" ? std::ceil(scaled) : std::floor(scaled)) + 0.0;
  return Value(whole / unit);
}

FilterResult unsupported(Runtime&, const Value&, const Arguments&) {
  return fail("expected a filter that chat templates use, found another of Jinja's");
}

const std::unordered_map<std::string_view, FilterFunction>& filters() {
  static const std::unordered_map<std::string_view, FilterFunction> kFilters = {
      {"abs", filter_abs},
      {"attr", filter_attr},
      {"batch", filter_batch},
      {"capitalize", filter_capitalize},
      {"center", filter_center},
      {"count", filter_length},
      {"d", filter_default},
      {"default", filter_default},
      {"dictsort", filter_dictsort},
      {"e", filter_escape},
      {"escape", filter_escape},
      {"filesizeformat", unsupported},
      {"first", filter_first},
      {"float", filter_float},
      {"forceescape", filter_forceescape},
      {"format", filter_format},
      {"groupby", filter_groupby},
      {"indent", filter_indent},
      {"int", filter_int},
      {"items", filter_items},
      {"join", filter_join},
      {"last", filter_last},
      {"length", filter_length},
      {"list", filter_list},
      {"lower", filter_lower},
      {"map", filter_map},
      {"max", filter_max},
      {"min", filter_min},
      {"pprint", unsupported},
      {"random", unsupported},
      {"reject", filter_reject},
      {"rejectattr", filter_rejectattr},
      {"replace", filter_replace},
      {"reverse", filter_reverse},
      {"round", filter_round},
      {"safe", filter_safe},
      {"select", filter_select},
      {"selectattr", filter_selectattr},
      {"slice", filter_slice},
      {"sort", filter_sort},
      {"string", filter_string},
      {"striptags", unsupported},
      {"sum", filter_sum},
      {"title", filter_title},
      {"tojson", filter_tojson},
      {"trim", filter_trim},
      {"truncate", filter_truncate},
      {"unique", filter_unique},
      {"upper", filter_upper},
      {"urlencode", unsupported},
      {"urlize", unsupported},
      {"wordcount", filter_wordcount},
      {"wordwrap", unsupported},
      {"xmlattr", unsupported},
  };
  return kFilters;
}

}  // namespace

FilterFunction find_filter(std::string_view name) {
  const auto found = filters().find(name);
  return found == filters().end() ? nullptr : found->second;
}

}  // namespace neuronmm::text::jinja
