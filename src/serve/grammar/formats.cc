#include "serve/grammar/formats.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

namespace neuronmm::grammar {
namespace {

// Dates and times as in RFC 3339; days per month and leap years count. A leap second is that of
// 23:59:60 in UTC.
const std::string kDate =
    R"((?:\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30))"
    R"(|02-(?:0[1-9]|1\d|2[0-8]))|(?:\d\d(?:0[48]|[2468][048]|[13579][26])|)"
    R"((?:[02468][048]|[13579][26])00)-02-29))";
const std::string kTime =
    R"((?:(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d+)?(?:[zZ]|[+-](?:[01]\d|2[0-3]):[0-5]\d))"
    R"(|23:59:60(?:\.\d+)?(?:[zZ]|[+-]00:00)))";

// RFC 3339, appendix A.
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

// Of one version, and of the variant that RFC 9562 describes, as pydantic's UUID4 asks for it.
std::string uuid_of_version(int version) {
  return fmt::format("{0}{{8}}-{0}{{4}}-{1}{0}{{3}}-[89abAB]{0}{{3}}-{0}{{12}}", kHexadecimal,
                     version);
}

// RFC 4648, padded; `alphabet`: letters 62 and 63.
std::string base64(std::string_view alphabet) {
  return fmt::format(
      "(?:[A-Za-z0-9{0}]{{4}})*(?:[A-Za-z0-9{0}][AQgw]==|"
      "[A-Za-z0-9{0}]{{2}}[AEIMQUYcgkosw048]=)?",
      alphabet);
}

std::string ipv4() { return fmt::format(R"({0}\.{0}\.{0}\.{0})", kOctet); }

// RFC 3986, section 3.2.2.
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

// RFC 5321, with a quoted name or an address in brackets.
std::string email() {
  const std::string atom = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+";
  const std::string quoted = R"("(?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\[\x20-\x7e])*")";
  return fmt::format(R"((?:{0}(?:\.{0})*|{1})@(?:{2}|\[{3}\]|\[IPv6:{4}\]))", atom, quoted,
                     hostname(), ipv4(), ipv6());
}

struct UriParts {
  std::string percent = "%" + kHexadecimal + "{2}";
  std::string name = fmt::format("(?:[A-Za-z0-9._~!$&'()*+,;=-]|{})*", percent);
  std::string user = fmt::format("(?:[A-Za-z0-9._~!$&'()*+,;=:-]|{})*", percent);
  std::string character = fmt::format("(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|{})", percent);
  std::string plain = fmt::format("(?:[A-Za-z0-9._~!$&'()*+,;=@-]|{})", percent);  // no colon
  std::string future = fmt::format("v{}+\\.[A-Za-z0-9._~!$&'()*+,;=:-]+", kHexadecimal);
  std::string authority =
      fmt::format("(?:{}@)?(?:\\[(?:{}|{})\\]|{})(?::\\d*)?", user, ipv6(), future, name);
  std::string segments = fmt::format("(?:/{}*)*", character);
  std::string rooted = fmt::format("//{}{}|/(?:{}+{})?", authority, segments, character, segments);
  std::string tail = fmt::format("(?:\\?(?:{0}|[/?])*)?(?:#(?:{0}|[/?])*)?", character);
};

// RFC 3986.
std::string uri() {
  const UriParts parts;
  return fmt::format("[A-Za-z][A-Za-z0-9+.-]*:(?:{}|{}+{})?{}", parts.rooted, parts.character,
                     parts.segments, parts.tail);
}

std::string uri_reference() {
  const UriParts parts;
  return fmt::format("(?:{}|(?:{}|{}+{})?{})", uri(), parts.rooted, parts.plain, parts.segments,
                     parts.tail);
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
      {"email", email()},
      {"uri", uri()},
      {"uri-reference", uri_reference()},
      {"json-pointer", kJsonPointer},
      {"relative-json-pointer", fmt::format(R"((?:0|[1-9]\d*)(?:#|{}))", kJsonPointer)},
  };
  const auto found = kPatterns.find(format);
  if (found == kPatterns.end()) return {};
  return "^(?:" + found->second + ")$";
}

bool is_refused_format(std::string_view format) {
  static constexpr std::string_view kRefused[] = {"idn-email",     "idn-hostname", "iri",
                                                  "iri-reference", "uri-template", "regex"};
  return std::find(std::begin(kRefused), std::end(kRefused), format) != std::end(kRefused);
}

}  // namespace neuronmm::grammar
