#pragma once
// The golden files of tests/model/families, which tests/slow/families/make_families.py makes with
// transformers: for a tiny model of each family its config.json, the names of its tensors and its
// logits. The weights follow from the names, by the formula in `weights`.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "model/tiny_model.h"
#include "places.h"

namespace neuronmm::model {

inline std::vector<std::filesystem::path> family_goldens() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry :
       std::filesystem::directory_iterator(source_dir() / "tests/model/families"))
    files.push_back(entry.path());
  std::ranges::sort(files);
  return files;
}

// Returns the floats that the text holds in base64, in little-endian fp32.
inline std::vector<float> decoded_floats(std::string_view base64) {
  std::string bytes;
  uint32_t bits = 0;
  int count = 0;
  for (const char c : base64) {
    const std::string_view kDigits =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    if (c == '=') break;
    bits = bits << 6 | static_cast<uint32_t>(kDigits.find(c));
    if (count++ % 4 != 0) bytes += static_cast<char>(bits >> (6 - 2 * ((count - 1) % 4)) & 0xFF);
  }
  std::vector<float> floats(bytes.size() / sizeof(float));
  std::memcpy(floats.data(), bytes.data(), floats.size() * sizeof(float));
  return floats;
}

class FamilyGolden {
 public:
  explicit FamilyGolden(const std::filesystem::path& file) {
    std::ifstream stream(file);
    json = nlohmann::json::parse(stream);
    tokens = json.at("tokens").get<std::vector<TokenId>>();
  }

  // Returns whether the tensor has the bytes of MXFP4: any codes, or scales of 2^-5 to 2^-2.
  static bool is_packed(const std::string& name) {
    return name.ends_with("_blocks") || name.ends_with("_scales");
  }

  // Returns the tensor `name`: noise of the hash (FNV-1a) of the name and the number of the
  // element (splitmix64), plus 1 for gains of norms where the family stores them so.
  std::vector<float> weights(const std::string& name) const {
    uint64_t hash = 14695981039346656037u;
    for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
    const Shape shape = shape_of(name);
    const bool gain =
        shape.size() == 1 && name.find("norm") != name.npos && name.ends_with(".weight");
    const double mean = gain ? json.at("gain").get<double>() : 0.0;
    std::vector<float> values;
    const int64_t count = TensorView{DType::kF32, shape, nullptr}.size();
    for (int64_t i = 0; i < count; ++i) {
      uint64_t z = hash + static_cast<uint64_t>(i + 1) * 0x9E3779B97F4A7C15u;
      z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
      z = (z ^ z >> 27) * 0x94D049BB133111EBu;
      z ^= z >> 31;
      if (is_packed(name)) {
        const uint64_t bits = z >> 40;
        values.push_back(
            static_cast<float>(name.ends_with("_scales") ? 122 + bits % 4 : bits & 255));
        continue;
      }
      const double unit = static_cast<double>(z >> 40) / 16777216.0;
      values.push_back(static_cast<float>((2.0 * unit - 1.0) * 0.35 + mean));
    }
    return values;
  }
  Shape shape_of(const std::string& name) const { return json.at("tensors").at(name); }

  // Writes the folder as transformers does.
  void write(const ModelFolder& folder) const {
    TestTensors tensors;
    for (const auto& [name, shape] : json.at("tensors").items())
      tensors[name] = {is_packed(name) ? DType::kU8 : DType::kF32, shape_of(name), weights(name)};
    folder.write_tensors(tensors);
    folder.write_text("config.json", json.at("config").dump());
  }

  // Compares with the logits of transformers: 1e-4 of the largest.
  void expect_logits(const Transformer& transformer, const std::vector<TokenId>& text,
                     const std::vector<float>& expected) const {
    const Matrix logits = all_logits(transformer, text);
    ASSERT_EQ(logits.rows() * logits.columns(), std::ssize(expected));
    float largest = 0.0f, error = 0.0f;
    for (int64_t i = 0; i < std::ssize(expected); ++i) {
      const float want = expected[static_cast<size_t>(i)];
      largest = std::max(largest, std::abs(want));
      const float difference = std::abs(logits.row(0)[i] - want);
      error = difference <= error ? error : difference;
    }
    EXPECT_LE(error, 1e-4f * largest);
  }

  nlohmann::json json;
  std::vector<TokenId> tokens;
};

}  // namespace neuronmm::model
