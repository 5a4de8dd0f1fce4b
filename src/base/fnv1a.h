#pragma once
// Computes the FNV-1a hash with 64 bits (RFC 9923). Unlike std::hash it gives the same number
// everywhere, so files and messages between processes may hold it. It finds changes but is not
// secure: a text with a wanted hash is easy to make.

#include <cstdint>
#include <string_view>

namespace neuronmm {

inline constexpr uint64_t kFnvOffsetBasis = 0xCBF29CE484222325u;

// Returns the hash of all bytes so far, where `hash` is that of the bytes before `byte`.
constexpr uint64_t fnv1a(char byte, uint64_t hash) {
  constexpr uint64_t kPrime = 0x100000001B3u;
  return (hash ^ static_cast<unsigned char>(byte)) * kPrime;
}
// Does the same for several bytes. Without `hash`, they are the first.
constexpr uint64_t fnv1a(std::string_view bytes, uint64_t hash = kFnvOffsetBasis) {
  for (const char byte : bytes) hash = fnv1a(byte, hash);
  return hash;
}

}  // namespace neuronmm
