// Formats texts as Python does with "%s and %5.2f" % (a, b).

#include <algorithm>
#include <cmath>

#include "text/jinja/iterator.h"
#include "text/jinja/number.h"
#include "text/jinja/operators.h"
#include "text/jinja/text_functions.h"
#include "text/jinja/unicode.h"

namespace neuronmm::text::jinja {
namespace {

struct Conversion {
  bool left = false, plus = false, space = false, zero = false, alternate = false;
  int64_t width = 0, precision = -1;
  char type = 0;
};

class PercentFormatter {
 public:
  PercentFormatter(Runtime& runtime, const Text& format, const Value& arguments)
      : runtime_(runtime), format_(format), arguments_(arguments), out_(runtime.budget) {
    const List* list = arguments.list();
    if (list != nullptr && list->kind != List::Kind::kList)
      positional_ = list->items;
    else
      positional_ = {arguments};
  }

  Result<Value> run() {
    const std::string& bytes = format_.bytes;
    while (at_ < bytes.size() && !out_.full()) {
      const size_t percent = std::min(bytes.find('%', at_), bytes.size());
      out_.append(format_, at_, percent);
      at_ = percent;
      if (at_ == bytes.size()) break;
      ++at_;
      NMM_TRY(convert());
    }
    if (next_ < positional_.size() && !is_mapping())
      return fail("not all arguments converted during string formatting");
    NMM_ASSIGN(TextPtr text, out_.take(format_.markup));
    return Value(std::move(text));
  }

 private:
  // Arguments that can give an item by a key may be left over.
  bool is_mapping() const {
    const List* list = arguments_.list();
    return arguments_.dict() != nullptr || arguments_.is_undefined() ||
           (list != nullptr && list->kind == List::Kind::kList) ||
           arguments_.object_as<Range>() != nullptr;
  }

  char current() const { return at_ < format_.bytes.size() ? format_.bytes[at_] : '\0'; }

  Result<Value> take_argument() {
    if (next_ == positional_.size()) return fail("not enough arguments for format string");
    return positional_[next_++];
  }

  // Reads a number, or takes the next argument for a "*".
  Result<int64_t> number() {
    if (current() == '*') {
      ++at_;
      NMM_ASSIGN(const Value value, take_argument());
      if (!value.integer()) return fail("* wants int");
      return *value.integer();
    }
    int64_t value = 0;
    for (; current() >= '0' && current() <= '9'; ++at_) {
      value = value * 10 + (current() - '0');
      if (value > int64_t{1} << 40) return fail("a width that is too large");
    }
    return value;
  }

  // Reads what stands between "%" and the type, and the type. Sets `named` for a "%(name)".
  Status read(Conversion& conversion, std::optional<Value>& named) {
    if (current() == '(') {
      const size_t end = format_.bytes.find(')', at_);
      if (end == std::string::npos) return fail("incomplete format key");
      if (arguments_.dict() == nullptr) return fail("format requires a mapping");
      const Value* value =
          arguments_.dict()->find(hash_key(format_.bytes.substr(at_ + 1, end - at_ - 1)));
      if (value == nullptr) return fail("no such key in the format's mapping");
      named = *value;
      at_ = end + 1;
    }
    for (bool flag = true; flag;) {
      switch (current()) {
        case '-':
          conversion.left = true;
          break;
        case '+':
          conversion.plus = true;
          break;
        case ' ':
          conversion.space = true;
          break;
        case '0':
          conversion.zero = true;
          break;
        case '#':
          conversion.alternate = true;
          break;
        default:
          flag = false;
      }
      at_ += flag;
    }
    NMM_ASSIGN(conversion.width, number());
    if (conversion.width == INT64_MIN) return fail("a width that is too large");
    if (conversion.width < 0) {
      conversion.left = true;
      conversion.width = -conversion.width;
    }
    if (current() == '.') {
      ++at_;
      NMM_ASSIGN(conversion.precision, number());
      conversion.precision = std::max<int64_t>(conversion.precision, 0);
    }
    if (current() == 'l' || current() == 'h' || current() == 'L') ++at_;
    conversion.type = current();
    if (conversion.type == '\0') return fail("incomplete format");
    ++at_;
    return {};
  }

  Status convert() {
    NMM_TRY(runtime_.budget.spend(1));
    Conversion conversion;
    std::optional<Value> value;
    NMM_TRY(read(conversion, value));
    if (conversion.type == '%') {
      out_.append("%");
      return {};
    }
    if (!value) {
      NMM_ASSIGN(value, take_argument());
    }
    switch (conversion.type) {
      case 's':
      case 'r':
      case 'a':
        return write_string(conversion, *value);
      case 'c':
        return write_character(conversion, *value);
      case 'd':
      case 'i':
      case 'u':
      case 'x':
      case 'X':
      case 'o':
        return write_integer(conversion, *value);
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
        return write_float(conversion, *value);
      default:
        return fail("unsupported format character '{}'", conversion.type);
    }
  }

  Status write_padded(const Conversion& conversion, const TextPtr& text) {
    NMM_ASSIGN(const Value padded, pad(runtime_, text, conversion.width,
                                       conversion.left ? Align::kLeft : Align::kRight));
    out_.append(*padded.text());
    return {};
  }

  Status write_string(const Conversion& conversion, const Value& value) {
    TextWriter writer(runtime_.budget);
    if (conversion.type == 's')
      write_text(runtime_, value, writer);
    else
      write_representation(runtime_, value, writer);
    NMM_ASSIGN(TextPtr text, writer.take());
    if (conversion.precision >= 0) {
      NMM_ASSIGN(text, substring(runtime_.budget, text, 0,
                                 text->byte_of(static_cast<size_t>(conversion.precision))));
    }
    return write_padded(conversion, text);
  }

  Status write_character(const Conversion& conversion, const Value& value) {
    if (value.text() != nullptr && value.text()->length() == 1)
      return write_padded(conversion, value.text_ptr());
    const auto code = value.integer();
    if (!code) return fail("%c requires int or char");
    if (*code < 0 || *code > 0x10FFFF || (*code >= 0xD800 && *code < 0xE000))
      return fail("%c arg not in range(0x110000)");
    TextWriter writer(runtime_.budget);
    writer.append(static_cast<char32_t>(*code), 1);
    NMM_ASSIGN(const TextPtr text, writer.take());
    return write_padded(conversion, text);
  }

  // Writes sign, prefix and digits, with zeros between them if the conversion asks for them.
  Status write_number(const Conversion& conversion, bool negative, std::string_view prefix,
                      const std::string& digits) {
    const std::string sign = negative ? "-" : conversion.plus ? "+" : conversion.space ? " " : "";
    const auto length = static_cast<int64_t>(sign.size() + prefix.size() + digits.size());
    TextWriter writer(runtime_.budget);
    writer.append(sign);
    writer.append(prefix);
    if (conversion.zero && !conversion.left && conversion.width > length)
      writer.append(U'0', static_cast<size_t>(conversion.width - length));
    writer.append(digits);
    NMM_ASSIGN(const TextPtr text, writer.take());
    return write_padded(conversion, text);
  }

  Status write_integer(const Conversion& conversion, const Value& value) {
    const bool decimal = conversion.type == 'd' || conversion.type == 'i' || conversion.type == 'u';
    if (!value.number() || (!decimal && value.real() != nullptr))
      return fail("%{} format: a number is required, not {}", conversion.type, value.type_name());
    int64_t number = value.integer().value_or(0);
    if (value.real() != nullptr) {
      NMM_ASSIGN(number, truncate(*value.real()));
    }
    const uint64_t magnitude =
        number < 0 ? uint64_t{0} - static_cast<uint64_t>(number) : static_cast<uint64_t>(number);
    const char type = static_cast<char>(conversion.type | 0x20);
    const int base = type == 'x' ? 16 : type == 'o' ? 8 : 10;
    std::string digits = format_integer(magnitude, base, conversion.type == 'X');
    if (conversion.precision > static_cast<int64_t>(digits.size())) {
      if (conversion.precision > 1000) return fail("a precision that is too large");
      digits.insert(0, static_cast<size_t>(conversion.precision) - digits.size(), '0');
    }
    const std::string prefix = conversion.alternate && !decimal
                                   ? std::string("0") + (type == 'o' ? 'o' : conversion.type)
                                   : "";
    return write_number(conversion, number < 0, prefix, digits);
  }

  Status write_float(const Conversion& conversion, const Value& value) {
    if (!value.number()) return fail("must be real number, not {}", value.type_name());
    if (conversion.precision > 1000) return fail("a precision that is too large");
    const int precision = conversion.precision < 0 ? 6 : static_cast<int>(conversion.precision);
    std::string digits =
        format_float(*value.number(), conversion.type, precision, conversion.alternate);
    const bool negative = digits.starts_with('-');
    if (negative) digits.erase(0, 1);
    return write_number(conversion, negative, "", digits);
  }

  Runtime& runtime_;
  const Text& format_;
  const Value& arguments_;
  Values positional_;
  size_t next_ = 0, at_ = 0;
  TextWriter out_;
};

}  // namespace

Result<Value> format_percent(Runtime& runtime, const Text& format, const Value& arguments) {
  return PercentFormatter(runtime, format, arguments).run();
}

}  // namespace neuronmm::text::jinja
