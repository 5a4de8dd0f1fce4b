#include "io/foreign_weights.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>

#include <fmt/ranges.h>

#include "io/foreign_module.h"

namespace neuronmm::io {
namespace {

constexpr std::string_view kWeight = ".weight";

// Tensors with which other programs round activations, keys and values.
constexpr std::array<std::string_view, 9> kOfActivations = {
    ".input_scale",  ".input_zero_point",  ".input_global_scale",
    ".output_scale", ".output_zero_point", ".k_scale",
    ".v_scale",      ".q_scale",           ".activation_scale"};

// Returns the module's name if the tensor holds its codes, and otherwise nothing.
std::string stem_of_codes(const std::string& name, const TensorView& tensor, ForeignMethod method) {
  const bool bytes = tensor.dtype == DType::kI8 || tensor.dtype == DType::kF8;
  const bool by_words = method == ForeignMethod::kGptq || method == ForeignMethod::kAwq;
  const auto without = [&](std::string_view ending) {
    return name.ends_with(ending) ? name.substr(0, name.size() - ending.size()) : std::string();
  };
  if (by_words) return without(".qweight");
  if (bytes) return without(kWeight);
  return without(".weight_packed");
}

// Holds what the line about a folder says.
struct Summary {
  std::set<std::string> kinds;
  int64_t matrices = 0, bytes = 0, floats_bytes = 0;

  void add(const CodedValues& matrix) {
    const std::string kind = matrix.kind() == CodeKind::kFloat8   ? "floats of 8 bits"
                             : codes_per_byte(matrix.kind()) == 2 ? "4 bits"
                                                                  : "8 bits";
    kinds.insert(kind);
    ++matrices;
    const int64_t size = matrix.rows() * matrix.columns();
    bytes += matrix.stored_bytes();  // the CPU backend's layout is within 2 % of it
    floats_bytes += 2 * size;
  }
};

std::string text_of(const ForeignQuantization& quantization, const Summary& summary) {
  constexpr double kMegabyte = 1e6;
  const std::string groups =
      quantization.group_size > 0 ? fmt::format(", groups of {}", quantization.group_size) : "";
  return fmt::format(
      "weights of {} ({}{}): {} matrices keep their codes, scales and zero points; they take "
      "{:.1f} MB in memory ({:.1f} MB in bf16){}",
      method_name(quantization.method), fmt::join(summary.kinds, ", "), groups, summary.matrices,
      static_cast<double>(summary.bytes) / kMegabyte,
      static_cast<double>(summary.floats_bytes) / kMegabyte,
      quantization.rounds_activations ? "; activations, keys and values are not rounded" : "");
}

}  // namespace

bool has_foreign_tensors(const Tensors& tensors) {
  return std::ranges::any_of(tensors,
                             [](const auto& entry) { return entry.first.ends_with(".qweight"); });
}

Result<ForeignWeights> decode_foreign(const ForeignQuantization& quantization,
                                      const std::filesystem::path& folder, Tensors& tensors) {
  std::vector<std::string> stems;
  for (const auto& [name, tensor] : tensors) {
    std::string stem = stem_of_codes(name, tensor, quantization.method);
    if (!stem.empty()) stems.push_back(std::move(stem));
  }
  ForeignWeights weights;
  Summary summary;
  GroupRanges ranges;
  const std::string source = folder.string();
  for (const std::string& stem : stems) {
    const std::string weight = stem + std::string(kWeight);
    ForeignModule module(quantization, source, tensors, stem, ranges);
    NMM_ASSIGN(std::unique_ptr<const CodedValues> matrix, module.read());
    for (const std::string& name : module.used()) tensors.erase(name);
    if (!tensors.emplace(weight, matrix->view()).second) {
      return fail(
          "{}: module {:?}: expected codes or floats, found both; download the folder again",
          source, stem);
    }
    summary.add(*matrix);
    weights.matrices.push_back(std::move(matrix));
  }
  std::erase_if(tensors, [](const auto& entry) {
    return std::ranges::any_of(
        kOfActivations, [&](std::string_view ending) { return entry.first.ends_with(ending); });
  });
  if (summary.matrices > 0) weights.text = text_of(quantization, summary);
  return weights;
}

}  // namespace neuronmm::io
