#include "serve/load/server_url.h"

#include <algorithm>
#include <charconv>

namespace neuronmm::load {
namespace {

bool is_port(std::string_view text) {
  uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  return error == std::errc() && end == text.data() + text.size() && port != 0;
}

// Everything else would end the request line, or a header, of whoever sends it.
bool is_plain(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c > ' ' && c < '\x7f'; });
}

std::string_view without_ending(std::string_view text, std::string_view ending) {
  return text.ends_with(ending) ? text.substr(0, text.size() - ending.size()) : text;
}

}  // namespace

std::string ServerUrl::authority() const {
  const bool is_default = port == (tls ? "443" : "80");
  const std::string name = host.find(':') == std::string::npos ? host : "[" + host + "]";
  return is_default ? name : name + ":" + port;
}

std::string ServerUrl::text() const { return (tls ? "https://" : "http://") + authority() + path; }

Result<ServerUrl> parse_server_url(std::string_view url) {
  const auto wrong = [&] {
    return fail("expected http://HOST[:PORT][/PREFIX] or https://..., found {:?}", url);
  };
  ServerUrl parsed;
  parsed.tls = url.starts_with("https://");
  if (!is_plain(url) || (!parsed.tls && !url.starts_with("http://"))) return wrong();
  std::string_view rest = url.substr(parsed.tls ? 8 : 7);
  if (rest.find_first_of("?#@") != std::string_view::npos) return wrong();
  const size_t slash = std::min(rest.find('/'), rest.size());
  parsed.path = without_ending(without_ending(rest.substr(slash), "/"), "/v1");
  rest = rest.substr(0, slash);
  const size_t bracket = rest.starts_with('[') ? rest.find(']') : 0;
  if (bracket == std::string_view::npos) return wrong();
  const size_t colon = rest.find(':', bracket);
  parsed.host = bracket == 0 ? rest.substr(0, colon) : rest.substr(1, bracket - 1);
  parsed.port = parsed.tls ? "443" : "80";
  if (colon != std::string_view::npos) parsed.port = rest.substr(colon + 1);
  if (parsed.host.empty() || !is_port(parsed.port)) return wrong();
  return parsed;
}

}  // namespace neuronmm::load
