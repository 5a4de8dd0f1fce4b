#pragma once
// Where a server is.

#include <string>
#include <string_view>

#include "base/result.h"

namespace neuronmm::load {

struct ServerUrl {
  bool tls = false;
  std::string host;  // without the brackets of an IPv6 address
  std::string port;
  std::string path;  // before "/v1/...": empty, or "/prefix"

  std::string authority() const;  // as the header Host has it
  std::string text() const;       // for messages
};

// http://HOST[:PORT][/PREFIX] or https://...; an ending of "/v1" or "/v1/", with which some clients
// want it, is left out.
Result<ServerUrl> parse_server_url(std::string_view url);

}  // namespace neuronmm::load
