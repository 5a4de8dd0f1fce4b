#include "expected_value.h"

#include <regex>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace neuronmm::apps {
namespace {

// Returns "8, 6 or 4".
std::string alternatives(std::vector<std::string> names) {
  const std::string last = names.back();
  names.pop_back();
  return names.empty() ? last : fmt::format("{} or {}", fmt::join(names, ", "), last);
}

bool is_whole(const std::string& type) { return type == "INT" || type == "UINT"; }

// Returns what a description of a range means, or nothing for another description.
std::optional<std::string> range_text(const std::string& description) {
  static const std::regex kRange(R"((INT|UINT|FLOAT) in \[(\S+) - (\S+)\])");
  std::smatch match;
  if (!std::regex_match(description, match, kRange)) return std::nullopt;
  return fmt::format("a {}number from {} to {}", is_whole(match[1]) ? "whole " : "", match[2].str(),
                     match[3].str());
}

}  // namespace

std::vector<std::string> choices_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const size_t begin = type.find('{'), end = type.find('}');
  if (begin == std::string::npos || end == std::string::npos) return {};
  return CLI::detail::split(type.substr(begin + 1, end - begin - 1), ',');
}

std::optional<std::string> expected_value(const CLI::Option& option) {
  if (const auto choices = choices_of(option); !choices.empty()) return alternatives(choices);
  const std::string type = option.get_type_name();
  const size_t colon = type.find(':');
  const std::string name = type.substr(0, colon);
  const std::string check = colon == std::string::npos ? "" : type.substr(colon + 1);
  if (auto range = range_text(check)) return range;
  if (check == "POSITIVE") return "a number above 0";
  if (check == "NONNEGATIVE") return "a number from 0";
  if (!check.empty()) return std::nullopt;
  if (is_whole(name)) return "a whole number";
  return name == "FLOAT" ? std::optional<std::string>("a number") : std::nullopt;
}

std::optional<std::string> refused_value(CLI::Option& option) {
  if (option.get_type_name().find(':') == std::string::npos) return std::nullopt;  // no check
  const CLI::Validator& check = *option.get_validator();
  for (const std::string& value : option.results()) {
    try {
      if (!check(value).empty()) return value;
    } catch (const CLI::ValidationError&) {  // a list of numbers got a text
      return value;
    }
  }
  return std::nullopt;
}

}  // namespace neuronmm::apps
