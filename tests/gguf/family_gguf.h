#pragma once
// The GGUF files of tiny models of all families, as llama.cpp's converter writes them
// (tests/slow/families/gguf_of_families.py).

#include <algorithm>
#include <string>
#include <vector>

#include "gguf/gguf_builder.h"
#include "model/family_golden.h"

namespace neuronmm::gguf {

inline void add_key(io::GgufBuilder& builder, const nlohmann::json& pair) {
  const std::string key = pair[0], type = pair[1];
  const nlohmann::json& value = pair[2];
  if (type == "string") {
    builder.text(key, value.get<std::string>());
  } else if (type == "uint32") {
    builder.u32(key, value);
  } else if (type == "float32") {
    builder.f32(key, value);
  } else if (type == "uint32s") {
    builder.numbers<uint32_t>(key, 4, value);
  } else {
    ASSERT_EQ(type, "bools");
    std::vector<uint8_t> flags;
    for (const nlohmann::json& flag : value) flags.push_back(flag.get<bool>() ? 1 : 0);
    builder.numbers<uint8_t>(key, 7, flags);
  }
}

// Reorders rows as the converter does for RoPE of neighbours: row j * half + i of a head becomes
// row 2 i + j.
inline std::vector<float> interleaved(const std::vector<float>& values, size_t rows, size_t heads) {
  const size_t columns = values.size() / rows, head = rows / heads, half = head / 2;
  std::vector<float> result(values.size());
  for (size_t row = 0; row < rows; ++row) {
    const size_t in_head = row % head;
    const size_t to = row - in_head + in_head % half * 2 + in_head / half;
    std::copy_n(values.begin() + static_cast<ptrdiff_t>(row * columns), columns,
                result.begin() + static_cast<ptrdiff_t>(to * columns));
  }
  return result;
}

// Divides the tensor of the experts of a layer into the rows of each expert that `source` names.
// Inputs come first in the tensors of gpt-oss.
inline std::vector<float> part_of_experts(const nlohmann::json& source, const Shape& shape,
                                          const std::vector<float>& values, Shape& part_shape) {
  const auto experts = static_cast<size_t>(shape[0]);
  const bool transposed = source.value("transposed", false), bias = shape.size() == 2;
  const auto rows = static_cast<size_t>(transposed ? shape[2] : shape[1]);
  const auto columns = bias ? size_t{1} : static_cast<size_t>(transposed ? shape[1] : shape[2]);
  std::vector<size_t> chosen;
  if (source.contains("rows")) {
    const size_t first = source.at("rows")[0], count = source.at("rows")[1];
    for (size_t i = 0; i < count; ++i) chosen.push_back(first + i);
  } else {
    const size_t step = source.at("every")[1];
    for (size_t i = source.at("every")[0]; i < rows; i += step) chosen.push_back(i);
  }
  std::vector<float> part;
  for (size_t e = 0; e < experts; ++e) {
    for (const size_t row : chosen) {
      for (size_t j = 0; j < columns; ++j) {
        const size_t at = transposed ? j * rows + row : row * columns + j;
        part.push_back(values[e * rows * columns + at]);
      }
    }
  }
  part_shape = {shape[0], std::ssize(chosen)};
  if (!bias) part_shape.push_back(static_cast<int64_t>(columns));
  return part;
}

// Stacks tensors of one shape.
inline std::vector<float> stacked(const model::FamilyGolden& golden, const nlohmann::json& names,
                                  Shape& shape) {
  std::vector<float> values;
  for (const nlohmann::json& name : names) {
    const std::vector<float> one = golden.weights(name);
    values.insert(values.end(), one.begin(), one.end());
    shape = golden.shape_of(name);
  }
  shape.insert(shape.begin(), std::ssize(names));
  return values;
}

inline io::GgufBuilder file_of(const model::FamilyGolden& golden) {
  const nlohmann::json& described = golden.json.at("gguf");
  io::GgufBuilder builder;
  for (const nlohmann::json& pair : described.at("keys")) add_key(builder, pair);
  for (const auto& [name, source] : described.at("tensors").items()) {
    const nlohmann::json& from = source.at("from");
    Shape shape;
    std::vector<float> values;
    if (from.is_array()) {
      values = stacked(golden, from, shape);
    } else {
      shape = golden.shape_of(from);
      values = golden.weights(from);
    }
    if (source.contains("rows") || source.contains("every"))
      values = part_of_experts(source, Shape(shape), values, shape);
    if (source.contains("heads"))
      values = interleaved(values, static_cast<size_t>(shape[0]), source.at("heads"));
    for (float& value : values) value += source.value("add", 0.0f);
    builder.tensor(name, std::vector<uint64_t>(shape.rbegin(), shape.rend()), values);
  }
  for (const auto& [name, numbers] : described.at("numbers").items())
    builder.tensor(name, {numbers.size()}, numbers.get<std::vector<float>>());
  return builder;
}

}  // namespace neuronmm::gguf
