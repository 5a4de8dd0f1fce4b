#pragma once
// The API keys of the server. A client presents its key as "Authorization: Bearer KEY" or as
// "X-Api-Key: KEY".

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace neuronmm::serve {

// Returns the keys of a file, which has one per line. Empty lines are skipped. A file that cannot
// be read or has no key is an error, because the server would be open to everybody.
Result<std::vector<std::string>> read_api_keys(const std::string& path);

// Returns whether a client can send `key` in a header: it has only visible characters, and at least
// one.
bool is_api_key(std::string_view key);

// Decides whether a client may use the server. The class keeps only the digests of the keys. A
// comparison takes the same time for every key, so its duration tells a client nothing about the
// keys.
class ApiKeys {
 public:
  explicit ApiKeys(const std::vector<std::string>& keys);
  // Returns whether one of the keys was presented; always true if the server has no keys. The
  // arguments are the values of the headers Authorization and X-Api-Key, empty if a header is
  // missing.
  bool admit(std::string_view authorization, std::string_view api_key) const;
  // Returns a name for the client that presents a known key; empty if no key is known or presented.
  // The name does not reveal the key.
  std::string owner(std::string_view authorization, std::string_view api_key) const;

 private:
  using Digest = std::array<uint8_t, 32>;
  static Digest digest(std::string_view key);
  static std::string_view presented(std::string_view authorization, std::string_view api_key);
  bool is_known(const Digest& shown) const;

  std::vector<Digest> digests_;
};

}  // namespace neuronmm::serve
