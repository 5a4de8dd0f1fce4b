#include "known_patterns.h"

namespace neuronmm::grammar {

const std::vector<std::string>& known_hostile_patterns() {
  static const std::vector<std::string> kPatterns = {
      // Textbook cases: repeats of what repeats, and alternatives that overlap.
      R"(^(a+)+$)",
      R"(^(a*)*$)",
      R"(^(a+)*b$)",
      R"(^(a|a)*$)",
      R"(^(a|aa)+$)",
      R"(^(a|a?)+$)",
      R"(^(a?){40}a{40}$)",
      R"(^(.*a){20}$)",
      R"((x+x+)+y)",
      R"((x*)*y)",
      R"(^(([a-z])+.)+[A-Z]([a-z])+$)",
      R"(^([a-zA-Z]+)*$)",
      R"(^(\w+\s?)*$)",
      R"(^(\d+)*x$)",
      R"(^(\s*\w+\s*)*;$)",
      R"(^(([^,]*),){11}P)",
      R"((?:.*,){30}x)",
      R"(^((ab)*)+$)",
      R"(^((a|b|ab)*c)*$)",
      R"(^(?:(?:a|b)|(?:a|b))*c$)",
      R"((.*)*(.*)*(.*)*=)",
      R"(^(?=(a+)+$).*b)",
      R"(^(?!(a+)+$).*$)",
      R"((((((a{1,30}){1,30}){1,30}){1,30}){1,30}){1,30})",
      R"((?:a?){65535}(?:a){65535})",
      R"((a{0,65535}){0,65535})",
      R"([^]*a[^]{18})",
      // Addresses, dates and numbers of forms.
      R"(^([a-zA-Z0-9])(([\-.]|[_]+)?([a-zA-Z0-9]+))*(@){1}[a-z0-9]+[.]{1}(([a-z]{2,3})|([a-z]{2,3}[.]{1}[a-z]{2,3}))$)",
      R"(^([\w\-]+\.)*[\w\-]+@([\w\-]+\.)+[a-zA-Z]{2,}$)",
      R"(^[\w.%+-]+(\.[\w.%+-]+)*@(\w+\.)+\w{2,}$)",
      R"(^(https?:\/\/)?([\da-z\.-]+)\.([a-z\.]{2,6})([\/\w \.-]*)*\/?$)",
      R"(^(?:[a-z0-9]+(?:-+[a-z0-9]+)*\.)+[a-z]{2,}$)",
      R"(^\$?\d{1,3}(,?\d{3})*(\.\d+)*$)",
      R"(^((\d{1,3}\.?)+){4}$)",
      R"(^(\+?\d+[\s-]?)+$)",
      R"(^(\d{1,2}[\/.-]?)+\d{4}$)",
      R"(^(([0-9]+)(,|\s)*)*$)",
      R"(^([0-9a-fA-F]{1,4}:?)*::([0-9a-fA-F]{1,4}:?)*$)",
      // White space at both ends of lines, comments and quoted texts.
      R"(^[\s\u200c]+|[\s\u200c]+$)",
      R"(\s+$)",
      R"((\s|\n|\r)*\z?$)",
      R"(^\s*(.*?)\s*=\s*(.*?)\s*$)",
      R"(\/\*(?:.|\n)*?\*\/)",
      R"(^"(?:[^"\\]|\\.|[^"])*"$)",
      R"(('(\\'|[^'])*'|[^']*)*$)",
      R"(<(\w+)(\s+\w+(\s*=\s*("[^"]*"|'[^']*'|[^>\s]+))?)*\s*>)",
      R"((<!--(?:.|\n)*?-->)*$)",
      R"(^(\[[^\]]*\]|[^\[\]])*$)",
      R"(^(?:#+\s*.*\s*)+$)",
      R"(D[oD]?(\[[^\[\]]*\]|\s+)+MMMM?)",
      R"(^((?:\d+)?\.?\d+) *(milliseconds?|msecs?|ms|seconds?|secs?|s)?$)",
      R"(([\w-]+=?\s*)*;?$)",
      R"((?:\s*,\s*|\s+)*(?:[^\s,]+(?:\s*,\s*|\s+)*)*x)",
      // The rule of a firewall that stopped many sites in 2019.
      R"re((?:(?:"|'|\]|\}|\\|\d|(?:nan|infinity|true|false|null|undefined|symbol|math)|`|-|\+)+[)]*;?((?:\s|-|~|!|\{\}|\|\||\+)*.*(?:.*=.*))))re",
      // Sets of characters that are large, and counts of them.
      R"(^\p{L}{1,50000}$)",
      R"((\p{L}|\p{Lu}|\p{Ll})*\p{N}{1000})",
      R"(^[\p{L}\p{M}\p{N}\p{P}\p{S}\p{Z}]{0,20000}$)",
      R"(^(?:\P{L}|\P{N}){99999}$)",
      R"([\u{0}-\u{10ffff}]{65535})",
      R"(^(?:[^\x00-\x1f]{0,255}\/){0,255}[^\x00-\x1f]{0,255}$)",
  };
  return kPatterns;
}

}  // namespace neuronmm::grammar
