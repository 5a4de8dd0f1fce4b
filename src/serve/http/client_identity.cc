#include "serve/http/client_identity.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include <arpa/inet.h>

namespace neuronmm::serve {
namespace {

constexpr int kAddressBits = 128, kMappedBits = 96, kHostNetworkBits = 64;

struct ParsedAddress {
  std::array<uint8_t, 16> bytes = {};
  bool v4 = false;
};

std::optional<ParsedAddress> parse_address(std::string_view text) {
  const std::string zero_terminated(text);
  ParsedAddress parsed;
  if (inet_pton(AF_INET6, zero_terminated.c_str(), parsed.bytes.data()) == 1) return parsed;
  parsed.bytes[10] = parsed.bytes[11] = 0xFF;
  parsed.v4 = true;
  if (inet_pton(AF_INET, zero_terminated.c_str(), parsed.bytes.data() + 12) == 1) return parsed;
  return std::nullopt;
}

bool is_mapped_v4(const std::array<uint8_t, 16>& bytes) {
  return std::all_of(bytes.begin(), bytes.begin() + 10, [](uint8_t b) { return b == 0; }) &&
         bytes[10] == 0xFF && bytes[11] == 0xFF;
}

bool equal_bits(const std::array<uint8_t, 16>& a, const std::array<uint8_t, 16>& b, int bits) {
  for (size_t i = 0; bits > 0; ++i, bits -= 8) {
    const int unused = std::max(0, 8 - bits);
    if ((a[i] ^ b[i]) >> unused != 0) return false;
  }
  return true;
}

std::string written(const std::array<uint8_t, 16>& bytes) {
  std::array<char, INET6_ADDRSTRLEN> text = {};
  const bool v4 = is_mapped_v4(bytes);
  inet_ntop(v4 ? AF_INET : AF_INET6, v4 ? bytes.data() + 12 : bytes.data(), text.data(),
            text.size());
  return text.data();
}

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\"");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\"") + 1 - begin);
}

// Removes the port that some proxies append: "1.2.3.4:5678" and "[::1]:5678".
std::string_view without_port(std::string_view text) {
  if (text.starts_with('[') && text.find(']') != std::string_view::npos)
    return text.substr(1, text.find(']') - 1);
  return std::ranges::count(text, ':') == 1 ? text.substr(0, text.find(':')) : text;
}

}  // namespace

Result<TrustedProxies> TrustedProxies::parse(const std::vector<std::string>& texts) {
  TrustedProxies proxies;
  for (const std::string& text : texts) {
    const size_t slash = text.find('/');
    const auto address = parse_address(std::string_view(text).substr(0, slash));
    const int most = address && address->v4 ? kAddressBits - kMappedBits : kAddressBits;
    int bits = most;
    bool good = address.has_value();
    if (slash != std::string::npos) {
      const char* const end = text.data() + text.size();
      const auto [rest, error] = std::from_chars(text.data() + slash + 1, end, bits);
      good = good && error == std::errc() && rest == end && bits >= 0 && bits <= most;
    }
    if (!good)
      return fail("expected an address or a network, as 127.0.0.1, ::1 or 10.0.0.0/8, found {:?}",
                  text);
    proxies.networks_.push_back({address->bytes, bits + kAddressBits - most});
  }
  return proxies;
}

bool TrustedProxies::contains(std::string_view address) const {
  const auto parsed = parse_address(address);
  return parsed && std::ranges::any_of(networks_, [&](const Network& network) {
           return equal_bits(parsed->bytes, network.address, network.bits);
         });
}

std::string TrustedProxies::client_address(const std::string& peer,
                                           std::string_view forwarded_for) const {
  std::string client = peer;
  while (contains(client) && !forwarded_for.empty()) {
    const size_t comma = forwarded_for.rfind(',');
    const bool first = comma == std::string_view::npos;
    const auto address =
        parse_address(without_port(trimmed(forwarded_for.substr(first ? 0 : comma + 1))));
    if (!address) break;
    client = written(address->bytes);
    forwarded_for = first ? std::string_view() : forwarded_for.substr(0, comma);
  }
  return client;
}

std::string client_of_address(const std::string& address) {
  auto parsed = parse_address(address);
  if (!parsed) return address;
  if (is_mapped_v4(parsed->bytes)) return written(parsed->bytes);
  std::fill(parsed->bytes.begin() + kHostNetworkBits / 8, parsed->bytes.end(), uint8_t{0});
  return fmt::format("{}/{}", written(parsed->bytes), kHostNetworkBits);
}

}  // namespace neuronmm::serve
