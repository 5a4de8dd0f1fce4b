#pragma once
// Tells which client a request comes from. Limits and shares belong to clients: two requests come
// from one client if they bear the same API key or, without keys, come from the same address. If
// the connection comes from a trusted proxy (--trusted-proxy), the address is the one that the
// proxy forwards. connection.h calls these functions.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace neuronmm::serve {

// The addresses of proxies whose header X-Forwarded-For is believed.
class TrustedProxies {
 public:
  // Parses addresses ("127.0.0.1", "::1") and networks ("10.0.0.0/8"). The error names the text.
  static Result<TrustedProxies> parse(const std::vector<std::string>& texts);

  bool contains(std::string_view address) const;
  // Returns the address of the client: `peer`, or the address that the trusted proxies in front of
  // the server forward. The header lists the client first and each further proxy after it, so the
  // last address that no trusted proxy has is the client's. A client can write anything before it.
  std::string client_address(const std::string& peer, std::string_view forwarded_for) const;

 private:
  using Address = std::array<uint8_t, 16>;  // IPv4 addresses are mapped into IPv6
  struct Network {
    Address address;
    int bits;
  };
  std::vector<Network> networks_;
};

// Returns the name of the client with this address. The name of an IPv6 address is that of its
// network of 64 bits, because every host there can use all of these addresses.
std::string client_of_address(const std::string& address);

}  // namespace neuronmm::serve
