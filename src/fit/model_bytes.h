#pragma once
// Computes the bytes of the parts of a model in every format and shape. They follow from the shapes
// alone, so that a budget of bytes that nothing can meet is refused before anything is measured
// (reach.h). ModelSearch predicts the size of a choice with them.

#include <optional>
#include <vector>

#include "compress/sizes/form.h"
#include "fit/part.h"
#include "io/checkpoint.h"
#include "io/model_config.h"

namespace neuronmm::fit {

// The sizes of one dense model's parts. Formats are given as indices into kCandidates. `config`
// must outlive the object.
class ModelBytes {
 public:
  // `embedding_bits` are the bits that the embedding table must have in a rounded model, or nothing
  // if they are free.
  ModelBytes(const io::Checkpoint& checkpoint, const io::ModelConfig& config,
             std::optional<int> embedding_bits);

  // Returns the bytes of all tensors that are never rounded.
  double fixed() const { return fixed_; }
  // Returns the bytes of an embedding table that is not the LM head, or 0 if there is none.
  double table(size_t format) const;
  double head(size_t format) const;
  // Returns the bytes of a part of one layer's attention.
  double attention(Part part, size_t format) const;
  // Returns the bytes of an MLP whose gate and up have one format and whose down has another. Maps
  // of pivots have 8 bits if the MLP is rounded.
  double mlp(const io::MlpShape& shape, size_t gate, size_t down) const;

  // Return the formats that the head and a table of its own may have. A tied table stays floats
  // only if that is asked for, because it then takes more than half of a small model.
  std::vector<size_t> head_formats(bool rounded) const;
  std::vector<size_t> table_formats(bool rounded) const;

 private:
  double matrix(int64_t rows, int64_t columns, size_t format) const;
  bool allows_table(size_t format) const;

  const io::ModelConfig& config_;
  std::optional<int> embedding_bits_;
  int64_t element_bytes_ = 2;  // of weights that are not rounded
  double fixed_ = 0.0, table_ = 0.0;
};

}  // namespace neuronmm::fit
