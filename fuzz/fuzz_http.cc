// Reads any bytes as the head of an HTTP request, as a connection of the server does: the check of
// lines that are still arriving, Boost's parser, and what the server concludes from the headers.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <boost/beast/http.hpp>

#include "base/result.h"
#include "serve/http/client_identity.h"
#include "serve/http/cross_site.h"
#include "serve/http/http_text.h"
#include "serve/http/partial_request.h"

namespace {

using namespace neuronmm;
using namespace neuronmm::serve;
namespace http = boost::beast::http;

constexpr uint32_t kHeadBytes = 16384;  // as in ServerLimits

bool is_printable(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; });
}

// A head that arrives in two pieces has the fault of the whole head.
void check_pieces(std::string_view head) {
  const bool is_faulty = !find_fault_in_partial_head(head, true).empty();
  const std::string_view begin = head.substr(0, head.size() / 2);
  if (begin.find("\r\n\r\n") != std::string_view::npos) return;
  if (!find_fault_in_partial_head(begin, true).empty()) {
    NMM_CHECK(is_faulty);
    return;
  }
  const size_t checked = count_checked(begin);
  NMM_CHECK(checked <= begin.size());
  const bool in_request_line = begin.find("\r\n") == std::string_view::npos;
  const std::string_view rest = head.substr(checked);
  NMM_CHECK(find_fault_in_partial_head(rest, in_request_line).empty() != is_faulty);
}

void check_route(std::string_view method, std::string_view target) {
  const std::string path = normalized_path(target);
  const auto route = find_route(method, path);
  constexpr int kStatuses[] = {404, 405, 501};
  if (!route.ok()) NMM_CHECK(std::ranges::count(kStatuses, route.error().status) == 1);
  if (route.ok() && route->endpoint == Endpoint::kModelByName) (void)model_in_path(path);
  NMM_CHECK(is_printable(header_text({path, allowed_methods(path)})));
}

// A server that trusts its machine answers only to its own names.
void check_source(const http::request<http::empty_body>& request) {
  CrossSiteRules rules;
  rules.trusts_machine = true;
  const auto header = [&](const char* name) -> std::optional<std::string_view> {
    const auto found = request.find(name);
    if (found == request.end()) return std::nullopt;
    return std::string_view(found->value().data(), found->value().size());
  };
  RequestSource source;
  const std::string target(request.target());
  source.target = target;
  source.host = header("Host");
  source.origin = header("Origin");
  source.content_type = header("Content-Type").value_or("");
  source.has_body = true;
  const auto fault = find_cross_site_fault(rules, source);
  if (fault) NMM_CHECK(fault->status == 403 || fault->status == 415);
  const bool is_foreign =
      source.host && (*source.host == "evil.example" || *source.host == "localhost.evil.example");
  NMM_CHECK(fault || !is_foreign || target.starts_with("http"));
  const TrustedProxies proxies = TrustedProxies::parse({"10.0.0.0/8", "::1"}).value();
  const std::string forwarded(header("X-Forwarded-For").value_or(""));
  for (const char* peer : {"10.1.2.3", "192.0.2.1"}) {
    const std::string address = proxies.client_address(peer, forwarded);
    NMM_CHECK(is_printable(address) && address.size() < 64 && !client_of_address(address).empty());
    if (!proxies.contains(peer)) NMM_CHECK(address == peer);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  check_pieces(bytes);
  (void)find_fault_in_partial_lines(bytes);
  http::request_parser<http::empty_body> parser;
  parser.header_limit(kHeadBytes);
  parser.skip(true);
  boost::beast::error_code error;
  parser.put(boost::asio::buffer(bytes.data(), bytes.size()), error);
  if (error || !parser.is_header_done()) return 0;
  const auto& request = parser.get();
  const std::string method(request.method_string()), target(request.target());
  check_route(method, target);
  check_source(request);
  return 0;
}
