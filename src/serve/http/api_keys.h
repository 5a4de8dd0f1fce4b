#pragma once
// Who may ask: the keys that clients show as "Authorization: Bearer KEY" or "X-Api-Key: KEY".

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace neuronmm::serve {

// Keeps digests alone. How long a look takes tells nothing about the keys, nor how alike they are.
class ApiKeys {
 public:
  explicit ApiKeys(const std::vector<std::string>& keys);
  // Always, where there are no keys. Both are headers' values, empty without one.
  bool admit(std::string_view authorization, std::string_view api_key) const;

 private:
  using Digest = std::array<uint8_t, 32>;
  static Digest digest(std::string_view key);
  bool is_known(std::string_view key) const;

  std::vector<Digest> digests_;
};

}  // namespace neuronmm::serve
