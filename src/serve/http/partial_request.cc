#include "serve/http/partial_request.h"

#include <algorithm>
#include <cctype>

namespace neuronmm::serve {
namespace {

constexpr std::string_view kLineEnd = "\r\n";

}  // namespace

std::string_view find_fault_in_partial_lines(std::string_view text) {
  for (size_t at = text.find_first_of(kLineEnd); at < text.size();
       at = text.find_first_of(kLineEnd, at)) {
    if (text[at] == '\n') return "a line ends without a carriage return";
    if (at + 1 == text.size()) break;
    if (text[at + 1] != '\n') return "a carriage return without a line feed";
    at += kLineEnd.size();
    if (at < text.size() && (text[at] == ' ' || text[at] == '\t'))
      return "a line that goes on with the next";
  }
  return {};
}

std::string_view find_fault_in_partial_head(std::string_view text, bool with_request_line) {
  const bool whole = text.find(kLineEnd) != std::string_view::npos;
  if (const size_t end = text.find("\r\n\r\n"); end != std::string_view::npos)
    text = text.substr(0, end + kLineEnd.size());
  if (const std::string_view fault = find_fault_in_partial_lines(text); !fault.empty())
    return fault;
  if (!with_request_line) return {};
  const std::string_view request_line = text.substr(0, text.find(kLineEnd));
  const bool has_version =
      request_line.ends_with(" HTTP/1.1") || request_line.ends_with(" HTTP/1.0");
  return whole && !has_version ? "the request line does not end with its version" : "";
}

size_t count_checked(std::string_view text) {
  // The version at the end of a request line and the line end after it are looked at together.
  constexpr size_t kKept = std::string_view(" HTTP/1.1\r\n").size();
  size_t checked = text.size() - std::min(text.size(), kKept);
  while (checked > 0 && text[checked - 1] == '\r') --checked;
  return checked;
}

bool is_host(std::string_view value) {
  return std::ranges::all_of(value, [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           std::string_view("-._~%!$&'()*+,;=:[]").find(static_cast<char>(c)) !=
               std::string_view::npos;
  });
}

}  // namespace neuronmm::serve
