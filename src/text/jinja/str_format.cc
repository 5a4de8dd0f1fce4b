// Formats texts as Python does with "{} and {name:>8}".format(...), and reads format
// specifications.

#include <algorithm>
#include <cmath>

#include "text/jinja/number.h"
#include "text/jinja/text_functions.h"
#include "text/jinja/unicode.h"

namespace neuronmm::text::jinja {
namespace {

// A specification is [[fill]align][sign][#][0][width][,][.precision][type].
struct Specification {
  char32_t fill = ' ';
  char align = 0;  // 0 means the default of the type.
  char sign = '-', grouping = 0, type = 0;
  bool alternate = false;
  int64_t width = 0, precision = -1;
};

Result<int64_t> read_number(std::string_view text, size_t& at) {
  int64_t value = 0;
  for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at) {
    value = value * 10 + (text[at] - '0');
    if (value > int64_t{1} << 40) return fail("too many decimal digits in format string");
  }
  return value;
}

bool is_align(char c) { return c == '<' || c == '>' || c == '^' || c == '='; }

Result<Specification> parse_specification(std::string_view text) {
  Specification result;
  size_t at = 0;
  const size_t fill = text.empty() ? 0 : decode(text, 0).length;
  if (fill < text.size() && is_align(text[fill])) {
    result.fill = decode(text, 0).value;
    result.align = text[fill];
    at = fill + 1;
  } else if (!text.empty() && is_align(text[0])) {
    result.align = text[at++];
  }
  const auto next_is = [&](std::string_view any) {
    return at < text.size() && any.find(text[at]) != std::string_view::npos;
  };
  if (next_is("+- ")) result.sign = text[at++];
  if (next_is("#")) result.alternate = ++at != 0;
  if (next_is("0")) {
    ++at;
    if (result.align == 0) {
      result.fill = '0';
      result.align = '=';
    }
  }
  NMM_ASSIGN(result.width, read_number(text, at));
  if (next_is(",_")) result.grouping = text[at++];
  if (next_is(".")) {
    const size_t digits = ++at;
    NMM_ASSIGN(result.precision, read_number(text, at));
    if (at == digits) return fail("format specifier missing precision");
  }
  if (at < text.size()) result.type = text[at++];
  if (at != text.size()) return fail("invalid format specifier");
  return result;
}

std::string grouped(const std::string& digits, char separator) {
  const size_t whole = std::min(digits.find_first_not_of("0123456789"), digits.size());
  std::string out;
  for (size_t i = 0; i < whole; ++i) {
    if (i > 0 && (whole - i) % 3 == 0) out += separator;
    out += digits[i];
  }
  return out + digits.substr(whole);
}

Status write_aligned(Runtime& runtime, const Specification& spec, const TextPtr& text,
                     char default_align, TextWriter& out) {
  const char align = spec.align == 0 ? default_align : spec.align;
  const auto length = static_cast<int64_t>(text->length());
  const auto total = static_cast<size_t>(std::max<int64_t>(spec.width - length, 0));
  const size_t left = align == '<' ? 0 : align == '^' ? total / 2 : total;
  if (total > runtime.budget.remaining_bytes()) return fail("a width that is too large");
  out.append(spec.fill, left);
  out.append(*text);
  out.append(spec.fill, total - left);
  return {};
}

Status write_number(Runtime& runtime, const Specification& spec, bool negative,
                    std::string_view prefix, const std::string& digits, TextWriter& out) {
  std::string sign = negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
  sign += prefix;
  const std::string body = spec.grouping == 0 ? digits : grouped(digits, spec.grouping);
  TextWriter writer(runtime.budget);
  writer.append(sign);
  const auto length = static_cast<int64_t>(sign.size() + body.size());
  if (spec.align == '=' && spec.width > length)
    writer.append(spec.fill, static_cast<size_t>(spec.width - length));
  writer.append(body);
  NMM_ASSIGN(const TextPtr text, writer.take());
  return write_aligned(runtime, spec, text, '>', out);
}

Status write_integer(Runtime& runtime, const Specification& spec, int64_t value, TextWriter& out) {
  if (spec.precision >= 0) return fail("precision not allowed in integer format specifier");
  const char type = spec.type == 0 || spec.type == 'n' ? 'd' : spec.type;
  const uint64_t magnitude =
      value < 0 ? uint64_t{0} - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  const int base = type == 'd' ? 10 : type == 'b' ? 2 : type == 'o' ? 8 : 16;
  const std::string prefix = spec.alternate && base != 10 ? std::string("0") + type : "";
  return write_number(runtime, spec, value < 0, prefix,
                      format_integer(magnitude, base, type == 'X'), out);
}

Status write_float(Runtime& runtime, const Specification& spec, double value, TextWriter& out) {
  if (spec.precision > 1000) return fail("a precision that is too large");
  int precision = spec.precision < 0 ? 6 : static_cast<int>(spec.precision);
  std::string digits;
  if (spec.type == 0 && spec.precision < 0) {
    digits = float_representation(value);
  } else if (spec.type == '%') {
    digits = format_float(value * 100, 'f', precision) + "%";
  } else if (spec.type == 0) {
    // The format is like 'g', but with at least one digit after the point.
    digits = format_float(value, 'g', std::max(precision, 1));
    const bool exponent = digits.find('e') != std::string::npos;
    if (!exponent && std::isfinite(value) && digits.find('.') == std::string::npos) digits += ".0";
  } else {
    digits = format_float(value, spec.type == 'n' ? 'g' : spec.type, precision, spec.alternate);
  }
  const bool negative = digits.starts_with('-');
  if (negative) digits.erase(0, 1);
  return write_number(runtime, spec, negative, "", digits, out);
}

Status write_string(Runtime& runtime, const Specification& spec, TextPtr text, TextWriter& out) {
  if ((spec.type != 0 && spec.type != 's') || spec.align == '=' || spec.sign != '-' ||
      spec.grouping != 0)
    return fail("invalid format specifier for a string");
  if (spec.precision >= 0) {
    NMM_ASSIGN(text, substring(runtime.budget, text, 0,
                               text->byte_of(static_cast<size_t>(spec.precision))));
  }
  return write_aligned(runtime, spec, text, '<', out);
}

class BraceFormatter {
 public:
  BraceFormatter(Runtime& runtime, const Text& format, const Arguments& arguments)
      : runtime_(runtime), format_(format), arguments_(arguments), out_(runtime.budget) {}

  Result<Value> run() {
    NMM_TRY(write(0, format_.bytes.size(), out_, 2));
    NMM_ASSIGN(TextPtr text, out_.take(format_.markup));
    return Value(std::move(text));
  }

 private:
  // Writes the bytes [at, end) of the format. Specifications may contain fields; `levels` limits
  // their nesting.
  Status write(size_t at, size_t end, TextWriter& out, int levels) {
    const std::string& bytes = format_.bytes;
    while (at < end && !out.full()) {
      const char c = bytes[at];
      if (c != '{' && c != '}') {
        const size_t next = std::min(bytes.find_first_of("{}", at), end);
        out.append(format_, at, next);
        at = next;
      } else if (at + 1 < end && bytes[at + 1] == c && levels == 2) {
        out.append(format_, at, at + 1);
        at += 2;
      } else if (c == '}') {
        return fail("single '}}' encountered in format string");
      } else {
        const size_t close = closing(at + 1, end);
        if (close == std::string::npos) return fail("expected '}}' before end of string");
        NMM_TRY(write_field(at + 1, close, out, levels));
        at = close + 1;
      }
    }
    return {};
  }

  size_t closing(size_t at, size_t end) const {
    for (int open = 1; at < end; ++at) {
      open += format_.bytes[at] == '{' ? 1 : format_.bytes[at] == '}' ? -1 : 0;
      if (open == 0) return at;
    }
    return std::string::npos;
  }

  // Writes a field, which has the form name!conversion:specification.
  Status write_field(size_t begin, size_t end, TextWriter& out, int levels) {
    if (levels == 0) return fail("max string recursion exceeded");
    NMM_TRY(runtime_.budget.spend(1));
    const std::string& bytes = format_.bytes;
    // The search ends with the field, so that a text of many fields takes linear time.
    const std::string_view whole = std::string_view(bytes).substr(begin, end - begin);
    const size_t name_end = begin + std::min(whole.find_first_of("!:"), whole.size());
    NMM_ASSIGN(Value value, field(bytes.substr(begin, name_end - begin)));
    size_t at = name_end;
    if (at < end && bytes[at] == '!') {
      if (at + 1 >= end) return fail("end of string while looking for conversion specifier");
      TextWriter converted(runtime_.budget);
      if (bytes[at + 1] == 's')
        write_text(runtime_, value, converted);
      else
        write_representation(runtime_, value, converted);
      NMM_ASSIGN(TextPtr text, converted.take());
      value = Value(std::move(text));
      at += 2;
    }
    TextWriter specification(runtime_.budget);
    if (at < end) {
      if (bytes[at] != ':') return fail("expected ':' after conversion specifier");
      NMM_TRY(write(at + 1, end, specification, levels - 1));
    }
    NMM_ASSIGN(const TextPtr text, specification.take());
    return write_formatted(runtime_, value, text->bytes, out);
  }

  // Returns the value that a field names: "0", "name", "name.attribute[key]" or "".
  Result<Value> field(const std::string& name) {
    size_t at = std::min(name.find_first_of(".["), name.size());
    NMM_ASSIGN(Value value, argument(name.substr(0, at)));
    while (at < name.size()) {
      const bool item = name[at] == '[';
      const size_t end =
          item ? name.find(']', at) : std::min(name.find_first_of(".[", at + 1), name.size());
      if (end == std::string::npos || end == at + 1)
        return fail("empty attribute in format string");
      const std::string key = name.substr(at + 1, end - at - 1);
      const auto index = parse_integer(key, 10);
      const bool by_number = item && index.ok() && *index && **index >= 0;
      NMM_ASSIGN(const Value key_text, make_text(runtime_, key));
      NMM_ASSIGN(value, item ? get_item(runtime_, value, by_number ? Value(**index) : key_text)
                             : get_attribute(runtime_, value, key));
      at = item ? end + 1 : end;
    }
    return value;
  }

  Result<Value> argument(const std::string& name) {
    const auto index = parse_integer(name, 10);
    const bool numbered = index.ok() && *index && name[0] >= '0' && name[0] <= '9';
    if (!name.empty() && !numbered) {
      const Value* value = arguments_.find(name);
      if (value == nullptr) return fail("format(): no argument '{}'", name);
      return *value;
    }
    const bool automatic = name.empty();
    if (automatic ? next_ < 0 : next_ > 0)
      return fail("cannot switch between manual and automatic field numbering");
    const int64_t position = automatic ? next_++ : **index;
    if (!automatic) next_ = -1;
    if (position >= static_cast<int64_t>(arguments_.positional.size()))
      return fail("replacement index {} out of range", position);
    return arguments_.positional[static_cast<size_t>(position)];
  }

  Runtime& runtime_;
  const Text& format_;
  const Arguments& arguments_;
  TextWriter out_;
  // The next automatic position, or -1 if the fields have numbers.
  int64_t next_ = 0;
};

}  // namespace

Status write_formatted(Runtime& runtime, const Value& value, std::string_view specification,
                       TextWriter& out) {
  if (specification.empty()) {
    write_text(runtime, value, out);
    return {};
  }
  NMM_ASSIGN(const Specification spec, parse_specification(specification));
  if (value.text() != nullptr) return write_string(runtime, spec, value.text_ptr(), out);
  constexpr std::string_view kIntegers = "bdoxXn", kFloats = "eEfFgGn%";
  const bool integer_type = spec.type == 0 || kIntegers.find(spec.type) != std::string_view::npos;
  const bool float_type = spec.type == 0 || kFloats.find(spec.type) != std::string_view::npos;
  if (value.integer() && integer_type) return write_integer(runtime, spec, *value.integer(), out);
  if (value.number() && float_type) return write_float(runtime, spec, *value.number(), out);
  return fail("unsupported format specifier for '{}'", value.type_name());
}

Result<Value> format_braces(Runtime& runtime, const Text& format, const Arguments& arguments) {
  return BraceFormatter(runtime, format, arguments).run();
}

}  // namespace neuronmm::text::jinja
