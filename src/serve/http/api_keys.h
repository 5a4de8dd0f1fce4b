#pragma once
// Who may ask: the keys that clients show as "Authorization: Bearer KEY".

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
  // Always, where there are no keys. `authorization` is the header's value, empty without one.
  bool admit(std::string_view authorization) const;

 private:
  using Digest = std::array<uint8_t, 32>;
  static Digest digest(std::string_view key);

  std::vector<Digest> digests_;
};

}  // namespace neuronmm::serve
