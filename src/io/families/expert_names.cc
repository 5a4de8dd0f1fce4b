#include "io/families/expert_names.h"

#include <algorithm>
#include <cctype>
#include <cstring>

#include <fmt/format.h>

#include "io/mxfp4.h"
#include "io/strided_format.h"

namespace neuronmm::io {
namespace {

constexpr std::string_view kBlocks = "_blocks", kScales = "_scales";

std::string expert_tensor(int64_t expert, std::string_view part) {
  return fmt::format("mlp.experts.{}.{}", expert, part);
}

}  // namespace

NumberedModule numbered_module(std::string_view module) {
  constexpr std::string_view kExperts = "experts.";
  const size_t found = module.find(kExperts);
  if (found == std::string_view::npos) return {std::string(module), {}};
  const size_t first = found + kExperts.size();
  size_t end = first;
  while (end < module.size() && std::isdigit(static_cast<unsigned char>(module[end])) != 0) ++end;
  if (end == first || end == module.size() || module[end] != '.') return {std::string(module), {}};
  return {fmt::format("{}#{}", module.substr(0, first), module.substr(end)),
          std::string(module.substr(first, end - first))};
}

std::string with_number(std::string_view pattern, std::string_view number) {
  const size_t at = pattern.find('#');
  if (at == std::string_view::npos) return std::string(pattern);
  return fmt::format("{}{}{}", pattern.substr(0, at), number, pattern.substr(at + 1));
}

const StackedExperts* ExpertViews::find(std::string_view within_layer) const {
  if (!config_.experts) return nullptr;
  for (const StackedExperts& stacked : names_.stacked) {
    if (!within_layer.starts_with(stacked.own)) continue;
    const std::string_view ending = within_layer.substr(stacked.own.size());
    const bool mxfp4 = (ending == kBlocks || ending == kScales) && !stacked.is_bias();
    if (ending.empty() || mxfp4) return &stacked;
  }
  return nullptr;
}

ExpertViews::Sizes ExpertViews::sizes_of(const StackedExperts& stacked) const {
  const Experts& experts = *config_.experts;
  const bool down = stacked.parts[0].starts_with("down_proj");
  return {.experts = experts.count,
          .parts = stacked.parts[1].empty() ? 1 : 2,
          .rows = down ? config_.hidden_size : experts.width,
          .columns = down ? experts.width : config_.hidden_size};
}

Status ExpertViews::check(const std::string& stored, const TensorView& tensor,
                          const Shape& expected) const {
  if (tensor.shape == expected) return {};
  return fail("{}: tensor {:?}: expected shape {} (of {} experts of {} neurons), found {}", folder_,
              stored, shape_string(expected), config_.experts->count, config_.experts->width,
              shape_string(tensor.shape));
}

Status ExpertViews::divide(const StackedExperts& stacked, const std::string& stored,
                           const TensorView& tensor, const std::map<std::string, TensorView>& found,
                           const Add& add) {
  const Sizes sizes = sizes_of(stacked);
  if (stored.ends_with(kScales)) {
    const std::string blocks =
        fmt::format("{}{}", stored.substr(0, stored.size() - kScales.size()), kBlocks);
    if (found.contains(blocks)) return {};  // divided together with the blocks
    return fail("{}: tensor {:?} is missing, found its scales {:?}", folder_, blocks, stored);
  }
  if (stored.ends_with(kBlocks)) {
    return divide_mxfp4(stacked, sizes, stored, tensor, found, add);
  }
  if (!is_float(tensor.dtype) || tensor.dtype == DType::kForeign) {
    return fail("{}: tensor {:?}: expected a float dtype (BF16, F16, F32) or MXFP4, found {}",
                folder_, stored, type_name(tensor));
  }
  const int64_t all_rows = sizes.parts * sizes.rows;
  if (stacked.is_bias()) {
    NMM_TRY(check(stored, tensor, {sizes.experts, all_rows}));
    return divide_biases(stacked, sizes, tensor, add);
  }
  NMM_TRY(check(stored, tensor,
                stacked.input_first ? Shape{sizes.experts, sizes.columns, all_rows}
                                    : Shape{sizes.experts, all_rows, sizes.columns}));
  return divide_matrices(stacked, sizes, tensor, add);
}

// Biases are small, so interleaved ones are copied.
Status ExpertViews::divide_biases(const StackedExperts& stacked, const Sizes& sizes,
                                  const TensorView& tensor, const Add& add) {
  const int64_t element = dtype_size_bytes(tensor.dtype);
  for (int64_t expert = 0; expert < sizes.experts; ++expert) {
    for (int64_t part = 0; part < sizes.parts; ++part) {
      const std::byte* const of_expert = tensor.data + expert * sizes.parts * sizes.rows * element;
      TensorView bias = {tensor.dtype, {sizes.rows}, of_expert + part * sizes.rows * element};
      if (stacked.interleaved) {
        auto bytes =
            std::make_shared<std::vector<std::byte>>(static_cast<size_t>(sizes.rows * element));
        for (int64_t i = 0; i < sizes.rows; ++i) {
          std::memcpy(bytes->data() + i * element, of_expert + (i * sizes.parts + part) * element,
                      static_cast<size_t>(element));
        }
        bias.data = bytes->data();
        tensors_.owned.push_back(std::move(bytes));
      }
      NMM_TRY(add(expert_tensor(expert, stacked.parts[static_cast<size_t>(part)]), bias));
    }
  }
  return {};
}

// Rows that follow one another are views of the file, which may also hold rounded weights.
Status ExpertViews::divide_matrices(const StackedExperts& stacked, const Sizes& sizes,
                                    const TensorView& tensor, const Add& add) {
  const Shape shape = {sizes.rows, sizes.columns};
  const int64_t all_rows = sizes.parts * sizes.rows, element = dtype_size_bytes(tensor.dtype);
  const bool plain = !stacked.input_first && !stacked.interleaved;
  for (int64_t expert = 0; expert < sizes.experts; ++expert) {
    for (int64_t part = 0; part < sizes.parts; ++part) {
      const std::byte* const first = tensor.data + expert * all_rows * sizes.columns * element;
      const int64_t row = stacked.interleaved ? part : part * sizes.rows;
      const int64_t step = stacked.interleaved ? sizes.parts : 1;
      const int64_t row_length = stacked.input_first ? 1 : sizes.columns;
      const std::byte* const data = first + row * row_length * element;
      TensorView matrix = {tensor.dtype, shape, data};
      if (!plain) {
        auto format = std::make_shared<const StridedFormat>(
            tensor.dtype, data, shape, step * row_length, stacked.input_first ? all_rows : 1);
        matrix = format->view();
        tensors_.owned_formats.push_back(std::move(format));
      }
      NMM_TRY(add(expert_tensor(expert, stacked.parts[static_cast<size_t>(part)]), matrix));
    }
  }
  return {};
}

Status ExpertViews::divide_mxfp4(const StackedExperts& stacked, const Sizes& sizes,
                                 const std::string& stored, const TensorView& blocks,
                                 const std::map<std::string, TensorView>& found, const Add& add) {
  const std::string name =
      fmt::format("{}{}", stored.substr(0, stored.size() - kBlocks.size()), kScales);
  const auto scales = found.find(name);
  if (scales == found.end()) {
    return fail("{}: tensor {:?} is missing, found its blocks {:?}", folder_, name, stored);
  }
  const int64_t all_rows = sizes.parts * sizes.rows, groups = sizes.columns / kMxfp4Group;
  if (sizes.columns % kMxfp4Group != 0) {
    return fail("{}: tensor {:?}: expected rows of whole blocks of {}, found {} columns", folder_,
                stored, kMxfp4Group, sizes.columns);
  }
  NMM_TRY(check(stored, blocks, {sizes.experts, all_rows, groups, kMxfp4Group / 2}));
  NMM_TRY(check(name, scales->second, {sizes.experts, all_rows, groups}));
  for (const TensorView* const tensor : {&blocks, &scales->second}) {
    if (tensor->dtype == DType::kU8) continue;
    return fail("{}: tensor {:?}: expected U8, found {}", folder_,
                tensor == &blocks ? stored : name, dtype_name(tensor->dtype));
  }
  const auto group_of_column = Mxfp4Matrix::groups_of(sizes.columns);
  for (int64_t expert = 0; expert < sizes.experts; ++expert) {
    for (int64_t part = 0; part < sizes.parts; ++part) {
      const int64_t row = expert * all_rows + (stacked.interleaved ? part : part * sizes.rows);
      auto matrix = std::make_shared<const Mxfp4Matrix>(blocks.data, scales->second.data, row,
                                                        stacked.interleaved ? sizes.parts : 1,
                                                        sizes.rows, group_of_column);
      const TensorView view = matrix->view();
      tensors_.owned_codes.push_back(std::move(matrix));
      NMM_TRY(add(expert_tensor(expert, stacked.parts[static_cast<size_t>(part)]), view));
    }
  }
  tensors_.has_mxfp4 = true;
  return {};
}

}  // namespace neuronmm::io
