#pragma once
// The tensors of a file: their names, shapes and types, and where their rows come from.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "gguf_out/architecture.h"
#include "gguf_out/container_writer.h"
#include "gguf_out/dense_rows.h"
#include "gguf_out/metadata.h"
#include "gguf_out/source_model.h"
#include "gguf_out/type_mix.h"

namespace neuronmm::gguf_out {

// Rows of a matrix of the model, one after the other in a tensor of the file.
struct MatrixPart {
  // The canonical name (io/families/family.h).
  std::string name;
  std::function<std::unique_ptr<DenseRows>()> open;
  // The rows of the model's matrix, and those in the file: the others are zeros.
  int64_t stored_rows = 0, rows = 0;
  // If not 0, the rows lie in this number of heads, and the file has the two rows of a RoPE pair
  // next to each other: row 2 i + j of a head is row j * (rows of a head / 2) + i.
  int64_t heads = 0;

  // Returns the row of the model's matrix that is row `row` of the part.
  int64_t stored_row(int64_t row) const;
};

struct PlannedTensor {
  TensorInfo info;
  // The parts of a matrix. Rows are filled with zeros to the columns of the file.
  std::vector<MatrixPart> parts = {};
  // The numbers of a tensor without parts, all of fp32.
  std::vector<float> values = {};
};

struct TensorPlan {
  std::vector<PlannedTensor> tensors = {};
  // Types that were replaced because a row is no multiple of their blocks, one message per kind of
  // tensor: "blk.*.attn_q.weight: rows of 576 weights are no blocks of Q4_K: Q5_0".
  std::vector<std::string> replaced = {};
};

// Plans all tensors. `types` may give matrices other types than the mix; its types fit the rows.
TensorPlan plan_tensors(const SourceModel& source, const ArchitectureOut& architecture,
                        const TypeMix& mix, const BlockTypes& types,
                        const std::vector<NumbersOut>& numbers);

}  // namespace neuronmm::gguf_out
