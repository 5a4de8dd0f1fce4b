#include "serve/http/api_keys.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <fstream>

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <strings.h>

namespace neuronmm::serve {

Result<std::vector<std::string>> read_api_keys(const std::string& path) {
  std::ifstream file(path);
  if (!file) return fail("{}: cannot be read: {}", path, std::strerror(errno));
  std::vector<std::string> keys;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    if (line.ends_with('\r')) line.pop_back();
    if (line.empty()) continue;
    if (!is_api_key(line))
      return fail("{}:{}: expected a key of visible ASCII characters without spaces, found others",
                  path, number);
    keys.push_back(line);
  }
  if (file.bad()) return fail("{}: cannot be read: {}", path, std::strerror(errno));
  if (keys.empty()) return fail("{}: expected a key on each line, found none", path);
  return keys;
}

bool is_api_key(std::string_view key) {
  return !key.empty() &&
         std::ranges::all_of(key, [](unsigned char c) { return std::isgraph(c) != 0; });
}

ApiKeys::Digest ApiKeys::digest(std::string_view key) {
  Digest result = {};
  unsigned int size = 0;
  NMM_CHECK(EVP_Digest(key.data(), key.size(), result.data(), &size, EVP_sha256(), nullptr) == 1);
  NMM_CHECK(size == result.size());
  return result;
}

ApiKeys::ApiKeys(const std::vector<std::string>& keys) {
  for (const std::string& key : keys) digests_.push_back(digest(key));
}

bool ApiKeys::admit(std::string_view authorization, std::string_view api_key) const {
  return digests_.empty() || is_known(digest(presented(authorization, api_key)));
}

std::string ApiKeys::owner(std::string_view authorization, std::string_view api_key) const {
  if (digests_.empty()) return {};
  const Digest shown = digest(presented(authorization, api_key));
  if (!is_known(shown)) return {};
  return fmt::format("key {:02x}", fmt::join(shown.begin(), shown.begin() + 8, ""));
}

std::string_view ApiKeys::presented(std::string_view authorization, std::string_view api_key) {
  constexpr std::string_view kScheme = "Bearer ";
  const bool bearer = authorization.size() >= kScheme.size() &&
                      strncasecmp(authorization.data(), kScheme.data(), kScheme.size()) == 0;
  return bearer ? authorization.substr(kScheme.size()) : api_key;
}

bool ApiKeys::is_known(const Digest& shown) const {
  // The loop compares all digests, so that its duration does not depend on which one matches.
  int equal = 0;
  for (const Digest& known : digests_)
    equal |= static_cast<int>(CRYPTO_memcmp(shown.data(), known.data(), known.size()) == 0);
  return equal != 0;
}

}  // namespace neuronmm::serve
