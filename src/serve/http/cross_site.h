#pragma once
// Protects the server from pages of other sites that a browser on the same machine or network has
// open. Such a page can send requests with the browser's help, although its origin is not allowed
// (--cors-origin). It can also have its own name resolved to this machine, which makes its requests
// look like those of the server's own page (DNS rebinding). connection.h asks
// find_cross_site_fault() as soon as it has the head of a request.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/http/server.h"
#include "serve/requests/api_error.h"

namespace neuronmm::serve {

// The settings of the server that the decision depends on.
struct CrossSiteRules {
  std::vector<std::string> origins;  // as in ServerOptions::cors_origins
  std::vector<std::string> hosts;  // names of this server as normalized_host() returns them, or "*"
  // The server listens on loopback and needs no key. Then the browser is the only protection, so
  // the name that it used for the server has to be one of `hosts` or of loopback.
  bool trusts_machine = false;
  bool tls = false;
};

// Returns the rules for a server with these options. `on_loopback` says whether its address is one
// of loopback.
CrossSiteRules cross_site_rules(const ServerOptions& options, bool on_loopback);

// The parts of a request's head that tell which page it comes from.
struct RequestSource {
  std::string_view target;               // as it stands in the request line
  std::optional<std::string_view> host;  // the header Host; nothing if it is absent
  // The header Origin; nothing if it is absent, and empty if it occurs several times.
  std::optional<std::string_view> origin;
  std::string_view content_type;  // the header Content-Type; empty if it is absent
  bool has_body = false;
};

// Returns why the request is refused, or nothing if it is good:
//   403  The origin is neither the server's own nor one of `rules.origins`.
//   403  The server trusts its machine, and the request names another host.
//   415  The server trusts its machine, and a request with an origin has a body that its header
//        does not call JSON. Browsers send forms and plain text without asking the server first.
std::optional<ApiError> find_cross_site_fault(const CrossSiteRules& rules,
                                              const RequestSource& request);

// Returns whether a host, as normalized_host() returns it, is this machine's loopback.
bool is_loopback(const std::string& host);

// Returns a host of a URL in the form in which two equal hosts are equal texts: a name in lower
// case without the dot at its end, or an address in its shortest form without brackets. Returns an
// empty text if `host` is neither.
std::string normalized_host(std::string_view host);

}  // namespace neuronmm::serve
