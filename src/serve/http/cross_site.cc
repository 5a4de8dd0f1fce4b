#include "serve/http/cross_site.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

#include <arpa/inet.h>
#include <fmt/format.h>

#include "serve/http/http_text.h"

namespace neuronmm::serve {
namespace {

constexpr std::string_view kSchemeEnd = "://";

// The part of a URL that names a server.
struct Authority {
  std::string host;         // as normalized_host() returns it
  std::optional<int> port;  // nothing if the URL leaves it to its scheme
};

std::string lower_case(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
  return lower;
}

// Returns nothing if `text` is not a host with or without a port.
std::optional<Authority> parse_authority(std::string_view text) {
  const size_t host_end = text.starts_with('[') ? text.find(']') + 1 : text.find(':');
  Authority result{.host = normalized_host(text.substr(0, host_end)), .port = {}};
  if (result.host.empty()) return std::nullopt;
  if (host_end >= text.size()) return result;
  const std::string_view port = text.substr(host_end + 1);
  if (text[host_end] != ':') return std::nullopt;
  if (port.empty()) return result;
  int value = 0;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), value);
  if (error != std::errc() || end != port.data() + port.size() || value < 0) return std::nullopt;
  result.port = value;
  return result;
}

// Returns the server that a target names if it is a whole URL (RFC 9112, 3.2.2), else nothing: the
// header Host names it then.
std::optional<std::string_view> authority_of_target(std::string_view target) {
  const size_t scheme_end = target.find(kSchemeEnd);
  if (scheme_end >= target.find_first_of("/?")) return std::nullopt;
  const std::string_view rest = target.substr(scheme_end + kSchemeEnd.size());
  return rest.substr(0, rest.find_first_of("/?#"));
}

bool is_own_host(const CrossSiteRules& rules, std::string_view text) {
  if (std::ranges::count(rules.hosts, "*") > 0) return true;
  const auto authority = parse_authority(text);
  return authority && (is_loopback(authority->host) ||
                       std::ranges::find(rules.hosts, authority->host) != rules.hosts.end());
}

// Returns whether a page of `origin` was loaded from the server that `server` names. A proxy with
// TLS may stand in front of a server without, so that the page's scheme is not the server's.
bool is_same_origin(const CrossSiteRules& rules, std::string_view origin, std::string_view server) {
  const size_t scheme_end = origin.find(kSchemeEnd);
  if (scheme_end == std::string_view::npos) return false;
  const std::string_view scheme = origin.substr(0, scheme_end);
  if (scheme != "https" && (scheme != "http" || rules.tls)) return false;
  const int default_port = scheme == "https" ? 443 : 80;
  const auto page = parse_authority(origin.substr(scheme_end + kSchemeEnd.size()));
  const auto here = parse_authority(server);
  return page && here && page->host == here->host &&
         page->port.value_or(default_port) == here->port.value_or(default_port);
}

bool is_json(std::string_view content_type) {
  const std::string type = lower_case(content_type.substr(0, content_type.find_first_of("; \t")));
  return type == "application/json" ||
         (type.starts_with("application/") && type.ends_with("+json"));
}

ApiError foreign_host(std::string_view host) {
  return {.status = 403,
          .message = fmt::format("Host: expected localhost or an address of loopback, since this "
                                 "server asks for no key, found {:?}; --allowed-host NAME allows "
                                 "another name",
                                 host),
          .code = "foreign_host"};
}

ApiError foreign_origin(std::string_view origin) {
  return {
      .status = 403,
      .message = fmt::format("Origin: expected a page of this server, found {:?}; --cors-origin "
                             "ORIGIN allows pages of another one",
                             origin),
      .code = "foreign_origin"};
}

ApiError unsafe_body(std::string_view content_type) {
  return {.status = 415,
          .message = fmt::format("Content-Type: expected application/json in a request with an "
                                 "Origin, found {}",
                                 content_type.empty() ? "none" : fmt::format("{:?}", content_type)),
          .code = "foreign_body"};
}

}  // namespace

bool is_loopback(const std::string& host) {
  in6_addr v6 = {};
  in_addr v4 = {};
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) return ntohl(v4.s_addr) >> 24 == 127;
  if (inet_pton(AF_INET6, host.c_str(), &v6) != 1) return host == "localhost";
  const bool maps_v4 = IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == 127;
  return maps_v4 || IN6_IS_ADDR_LOOPBACK(&v6);
}

std::string normalized_host(std::string_view host) {
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  std::string name = lower_case(bracketed ? host.substr(1, host.size() - 2) : host);
  in6_addr address = {};
  if (inet_pton(AF_INET6, name.c_str(), &address) == 1) {
    std::array<char, INET6_ADDRSTRLEN> shortest = {};
    return inet_ntop(AF_INET6, &address, shortest.data(), shortest.size());
  }
  if (name.ends_with('.')) name.pop_back();
  const bool is_name = !bracketed && std::ranges::all_of(name, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '.' || c == '_';
  });
  return is_name ? name : "";
}

CrossSiteRules cross_site_rules(const ServerOptions& options, bool on_loopback) {
  CrossSiteRules rules{.origins = options.cors_origins,
                       .hosts = {normalized_host(options.host)},
                       .trusts_machine = on_loopback && options.api_keys.empty(),
                       .tls = !options.tls_certificate.empty()};
  for (const std::string& name : options.allowed_hosts)
    rules.hosts.push_back(name == "*" ? name : normalized_host(name));
  return rules;
}

std::optional<ApiError> find_cross_site_fault(const CrossSiteRules& rules,
                                              const RequestSource& request) {
  const auto of_target = authority_of_target(request.target);
  if (rules.trusts_machine) {
    for (const auto& name : {of_target, request.host}) {
      if (name && !is_own_host(rules, *name)) return foreign_host(*name);
    }
  }
  if (!request.origin) return std::nullopt;
  const std::string_view server = of_target ? *of_target : request.host.value_or("");
  if (!is_allowed_origin(rules.origins, *request.origin) &&
      !is_same_origin(rules, *request.origin, server))
    return foreign_origin(*request.origin);
  if (rules.trusts_machine && request.has_body && !is_json(request.content_type))
    return unsafe_body(request.content_type);
  return std::nullopt;
}

}  // namespace neuronmm::serve
