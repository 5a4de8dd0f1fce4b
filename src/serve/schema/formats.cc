#include "serve/schema/formats.h"

#include <map>

#include <fmt/format.h>

namespace neuronmm::grammar {
namespace {

// Dates and times follow RFC 3339, with the right number of days in each month and in leap years. A
// leap second is only allowed at 23:59:60 in UTC.
const std::string kDate =
    R"((?:\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30))"
    R"(|02-(?:0[1-9]|1\d|2[0-8]))|(?:\d\d(?:0[48]|[2468][048]|[13579][26])|)"
    R"((?:[02468][048]|[13579][26])00)-02-29))";
const std::string kTime =
    R"((?:(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d+)?(?:[zZ]|[+-](?:[01]\d|2[0-3]):[0-5]\d))"
    R"(|23:59:60(?:\.\d+)?(?:[zZ]|[+-]00:00)))";

// Durations follow RFC 3339, appendix A.
std::string duration() {
  const std::string date = R"((?:\d+Y(?:\d+M(?:\d+D)?)?|\d+M(?:\d+D)?|\d+D))";
  const std::string time = R"(T(?:\d+H(?:\d+M(?:\d+S)?)?|\d+M(?:\d+S)?|\d+S))";
  return fmt::format(R"(P(?:\d+W|{}(?:{})?|{}))", date, time, time);
}

const std::string kHexadecimal = "[0-9a-fA-F]";
const std::string kOctet = R"((?:25[0-5]|2[0-4]\d|1\d\d|[1-9]\d|\d))";
const std::string kLabel = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?";

std::string uuid() {
  return fmt::format("{0}{{8}}-{0}{{4}}-{0}{{4}}-{0}{{4}}-{0}{{12}}", kHexadecimal);
}

// Returns the pattern of UUIDs of one version and of the variant that RFC 9562 describes, as
// pydantic's UUID4 requires.
std::string uuid_of_version(int version) {
  return fmt::format("{0}{{8}}-{0}{{4}}-{1}{0}{{3}}-[89abAB]{0}{{3}}-{0}{{12}}", kHexadecimal,
                     version);
}

// Base64 follows RFC 4648, with padding. `alphabet` holds the last two letters, 62 and 63.
std::string base64(std::string_view alphabet) {
  return fmt::format(
      "(?:[A-Za-z0-9{0}]{{4}})*(?:[A-Za-z0-9{0}][AQgw]==|"
      "[A-Za-z0-9{0}]{{2}}[AEIMQUYcgkosw048]=)?",
      alphabet);
}

std::string ipv4() { return fmt::format(R"({0}\.{0}\.{0}\.{0})", kOctet); }

// IPv6 addresses follow RFC 3986, section 3.2.2.
std::string ipv6() {
  const std::string group = kHexadecimal + "{1,4}";
  const std::string last = fmt::format("(?:{0}:{0}|{1})", group, ipv4());
  std::string pattern = fmt::format("(?:(?:{0}:){{6}}{1}|::(?:{0}:){{5}}{1}", group, last);
  for (int before = 0; before <= 4; ++before) {
    pattern += fmt::format("|(?:(?:{0}:){{0,{2}}}{0})?::(?:{0}:){{{3}}}{1}", group, last, before,
                           4 - before);
  }
  pattern += fmt::format("|(?:(?:{0}:){{0,5}}{0})?::{0}|(?:(?:{0}:){{0,6}}{0})?::)", group);
  return pattern;
}

std::string hostname() { return fmt::format(R"((?:{0}\.)*{0})", kLabel); }

// Email addresses follow RFC 5321. The name may be quoted, and the host may be an address in
// brackets. `more` holds allowed letters outside ASCII.
std::string email(std::string_view more) {
  const std::string atom = fmt::format("[A-Za-z0-9!#$%&'*+/=?^_`{{|}}~{}-]+", more);
  const std::string quoted = R"("(?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\[\x20-\x7e])*")";
  return fmt::format(R"((?:{0}(?:\.{0})*|{1})@(?:{2}|\[{3}\]|\[IPv6:{4}\]))", atom, quoted,
                     hostname(), ipv4(), ipv6());
}

// The letters outside ASCII that RFC 3987 and RFC 6570 allow, up to U+FFFF.
constexpr std::string_view kOtherLetters = R"(\u00a0-\ud7ff\uf900-\ufdcf\ufdf0-\uffef)";

// The parts of a URI of RFC 3986. With `more` letters they are the parts of an IRI of RFC 3987.
struct UriParts {
  explicit UriParts(std::string_view more)
      : name(any_of("", more)),
        user(any_of(":", more)),
        character(any_of(":@", more)),
        plain(any_of("@", more)) {}

  std::string any_of(std::string_view signs, std::string_view more) const {
    return fmt::format("(?:[A-Za-z0-9._~!$&'()*+,;={}{}-]|%{}{{2}})", signs, more, kHexadecimal);
  }
  std::string authority() const {
    const std::string future = fmt::format("v{}+\\.[A-Za-z0-9._~!$&'()*+,;=:-]+", kHexadecimal);
    return fmt::format("(?:{}*@)?(?:\\[(?:{}|{})\\]|{}*)(?::\\d*)?", user, ipv6(), future, name);
  }
  std::string segments() const { return fmt::format("(?:/{}*)*", character); }
  std::string rooted() const {
    return fmt::format("//{0}{1}|/(?:{2}+{1})?", authority(), segments(), character);
  }
  std::string tail() const {
    return fmt::format("(?:\\?(?:{0}|[/?])*)?(?:#(?:{0}|[/?])*)?", character);
  }

  // Patterns of one character of a host name, of the user information, of a path segment, and of a
  // path segment without colons.
  std::string name, user, character, plain;
};

std::string uri(std::string_view more) {
  const UriParts parts(more);
  return fmt::format("[A-Za-z][A-Za-z0-9+.-]*:(?:{}|{}+{})?{}", parts.rooted(), parts.character,
                     parts.segments(), parts.tail());
}

std::string uri_reference(std::string_view more) {
  const UriParts parts(more);
  return fmt::format("(?:{}|(?:{}|{}+{})?{})", uri(more), parts.rooted(), parts.plain,
                     parts.segments(), parts.tail());
}

// URI templates follow RFC 6570.
std::string uri_template() {
  const std::string percent = "%" + kHexadecimal + "{2}";
  const std::string name =
      fmt::format(R"((?:[A-Za-z0-9_]|{0})(?:\.?(?:[A-Za-z0-9_]|{0}))*)", percent);
  const std::string variable = fmt::format(R"({}(?:\*|:[1-9]\d{{0,3}})?)", name);
  return fmt::format(R"((?:[!#$&(-;=?-\[\]_a-z~{0}]|{1}|\{{[+#./;?&=,!@|]?{2}(?:,{2})*\}})*)",
                     kOtherLetters, percent, variable);
}

// Returns a pattern of a part of the regular expressions of ECMA-262. The part has no lookarounds
// and no references. Character ranges are only those of all digits and of all letters, and groups
// nest at most two deep.
std::string regex() {
  const std::string escape = R"(\\[dDsSwWtrnvf^$\\.*+?()\[\]{}|/])";
  const std::string set =
      fmt::format(R"(\[\^?(?:a-z|A-Z|0-9|[A-Za-z0-9_ .,:;@!#%&=<>~]|{}|\\-)+\])", escape);
  const std::string one =
      fmt::format(R"((?:[^\x00-\x1f\\^$.*+?()\[\]{{}}|/]|\.|{}|{}))", escape, set);
  const std::string range =  // never has a maximum below its minimum
      R"(\d{1,3},?|0,\d|1,[1-9]|2,[2-9]|3,[3-9]|4,[4-9]|5,[5-9]|[0-9],[1-9]\d{1,2})";
  const std::string times = fmt::format(R"((?:(?:[*+?]|\{{(?:{})\}})\??)?)", range);
  std::string all = fmt::format(R"((?:{}{}|[\^$|])*)", one, times);
  for (int depth = 0; depth < 2; ++depth) {
    all = fmt::format(R"((?:{0}{1}|[\^$|]|\((?:\?:)?{2}\){1})*)", one, times, all);
  }
  return all;
}

const std::string kJsonPointer = "(?:/(?:[^~/]|~[01])*)*";

}  // namespace

std::optional<std::string> format_pattern(std::string_view format) {
  static const std::map<std::string, std::string, std::less<>> kPatterns = {
      {"date", kDate},
      {"time", kTime},
      {"date-time", kDate + "[tT]" + kTime},
      {"duration", duration()},
      {"uuid", uuid()},
      {"uuid1", uuid_of_version(1)},
      {"uuid3", uuid_of_version(3)},
      {"uuid4", uuid_of_version(4)},
      {"uuid5", uuid_of_version(5)},
      {"uuid6", uuid_of_version(6)},
      {"uuid7", uuid_of_version(7)},
      {"uuid8", uuid_of_version(8)},
      {"base64", base64("+/")},
      {"base64url", base64("_-")},
      {"ipvanyaddress", fmt::format("(?:{}|{})", ipv4(), ipv6())},
      {"ipv4", ipv4()},
      {"ipv6", ipv6()},
      {"hostname", hostname()},
      {"email", email("")},
      {"idn-email", email(kOtherLetters)},
      {"idn-hostname", hostname()},
      {"uri", uri("")},
      {"uri-reference", uri_reference("")},
      {"iri", uri(kOtherLetters)},
      {"iri-reference", uri_reference(kOtherLetters)},
      {"uri-template", uri_template()},
      {"regex", regex()},
      {"json-pointer", kJsonPointer},
      {"relative-json-pointer", fmt::format(R"((?:0|[1-9]\d*)(?:#|{}))", kJsonPointer)},
  };
  const auto found = kPatterns.find(format);
  if (found == kPatterns.end()) return {};
  return "^(?:" + found->second + ")$";
}

bool is_partial_format(std::string_view format) {
  return format == "idn-email" || format == "idn-hostname" || format == "regex";
}

}  // namespace neuronmm::grammar
