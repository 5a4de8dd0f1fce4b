#pragma once
// A small tokenizer.json for tests. Byte b is token b, and merge number i makes token 256 + i.
// Tests add everything else that they need.

#include <cstdlib>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "text/tokenizer/tokenizer.h"

namespace neuronmm::text {

// Returns a random number in [0, n).
inline uint32_t below(std::mt19937& random, uint64_t n) {
  return static_cast<uint32_t>(random() % n);
}

inline std::string utf8_of(char32_t c) {
  const auto tail = [](char32_t bits) { return static_cast<char>(0x80 | (bits & 0x3F)); };
  if (c < 0x80) return {static_cast<char>(c)};
  if (c < 0x800) return {static_cast<char>(0xC0 | c >> 6), tail(c)};
  if (c < 0x10000) return {static_cast<char>(0xE0 | c >> 12), tail(c >> 6), tail(c)};
  return {static_cast<char>(0xF0 | c >> 18), tail(c >> 12), tail(c >> 6), tail(c)};
}

// Returns GPT-2's spelling of bytes, written from its definition. The printable bytes of Latin-1
// are themselves, and the others follow from U+0100 on.
inline std::string spell(std::string_view bytes) {
  std::string out;
  for (const char byte : bytes) {
    const int b = static_cast<uint8_t>(byte);
    char32_t others = 256, character = 0;
    for (int i = 0; i <= b; ++i) {
      const bool printable = (i >= 33 && i <= 126) || (i >= 161 && i <= 172) || i >= 174;
      character = printable ? static_cast<char32_t>(i) : others++;
    }
    out += utf8_of(character);
  }
  return out;
}

using Merges = std::vector<std::pair<std::string, std::string>>;  // Pairs of byte strings.

inline nlohmann::json small_tokenizer(const Merges& merges = {}) {
  using nlohmann::json;
  json vocab = json::object(), list = json::array();
  for (int b = 0; b < 256; ++b) vocab[spell(std::string(1, static_cast<char>(b)))] = b;
  for (const auto& [left, right] : merges) {
    const int id = static_cast<int>(vocab.size());
    vocab.emplace(spell(left + right), id);
    list.push_back(spell(left) + " " + spell(right));
  }
  const json byte_level = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  return {{"version", "1.0"},
          {"added_tokens", json::array()},
          {"normalizer", nullptr},
          {"pre_tokenizer", byte_level},
          {"post_processor", nullptr},
          {"decoder", byte_level},
          {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", list}}}};
}

inline nlohmann::json added_token(const std::string& content, int id, bool special = true) {
  return {{"id", id}, {"content", content}, {"special", special}};
}

inline Tokenizer parse_or_die(const nlohmann::json& root) {
  Result<Tokenizer> tokenizer = Tokenizer::parse(root.dump(), "tokenizer.json");
  if (!tokenizer.ok()) {
    ADD_FAILURE() << tokenizer.error().message;
    std::abort();
  }
  return std::move(tokenizer).value();
}

}  // namespace neuronmm::text
