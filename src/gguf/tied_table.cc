#include "gguf/tied_table.h"

#include <algorithm>

#include "gguf/dequantize.h"
#include "io/twin_tables.h"

namespace neuronmm::gguf {
namespace {

constexpr std::string_view kTable = "token_embd.weight", kHead = "output.weight";

// Returns the dtype whose errors the tensor's values have. Block types become exact floats.
DType dtype_of(std::string_view type) {
  return type == "BF16" ? DType::kBF16 : type == "F16" ? DType::kF16 : DType::kF32;
}

io::TableRows rows_of(std::string_view name, const io::GgufTensor& tensor) {
  return {fmt::format("{} ({})", name, tensor.type->name),
          [&tensor](int64_t row, float* out) {
            dequantize(*tensor.type, tensor.data.data() + row * tensor.row_bytes(),
                       tensor.columns(), out);
          },
          dtype_of(tensor.type->name)};
}

}  // namespace

TablesOfFile both_tables(const io::GgufShards& model) {
  return {.tied = !model.tensors().contains(kHead)};
}

TablesOfFile find_tables(const io::GgufShards& model) {
  TablesOfFile tables = both_tables(model);
  const auto table = model.tensors().find(kTable), head = model.tensors().find(kHead);
  if (tables.tied || table == model.tensors().end()) return tables;
  const io::GgufTensor &a = table->second, &b = head->second;
  const bool comparable = a.shape == b.shape && a.shape.size() == 2 && can_dequantize(*a.type) &&
                          can_dequantize(*b.type);
  if (!comparable) return tables;
  const io::TableRows first = rows_of(kTable, a), second = rows_of(kHead, b);
  const auto twins = io::find_twins(first, second, a.rows(), a.columns());
  model.release_pages();
  if (!twins) return tables;
  tables.tied = true;
  tables.table = twins->second_is_finer ? kHead : kTable;
  tables.left_out = twins->second_is_finer ? kTable : kHead;
  tables.note = io::twins_text(*twins, first, second);
  return tables;
}

}  // namespace neuronmm::gguf
