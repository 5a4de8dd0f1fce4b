#pragma once
// Finds out whether two tables hold the same numbers up to rounding. Files of quantized models
// often hold a tied embedding table twice: once as the table and once as the LM head, each rounded
// to a format of its own. The importer (gguf/tied_table.h) and open_model() (model_folder.h) tie
// such tables.
//
// The evidence comes from the values alone. A rounded table lies on grids: the 16 values of a block
// are lowest + q * step with small integers q. If a table was rounded to nearest, its mean squared
// error is step^2 / 12. A table without grids has the error of its dtype. Two tables are the same
// up to rounding if their mean squared difference is what both errors explain: in every row, with
// room for chance, and nearly exactly over all rows. Tables that training has moved apart differ by
// more than that, and tables without grids must be equal to the last bits of their dtype.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/tensor.h"

namespace neuronmm::io {

// A table whose rows are read one by one, from several threads at once.
struct TableRows {
  std::string name;
  // Writes the values of a row to `out`.
  std::function<void(int64_t row, float* out)> read;
  // The dtype that the values were rounded to last.
  DType dtype = DType::kF32;
};

// The comparison of two tables that are the same up to rounding.
struct TwinTables {
  // The root mean square of the difference, and of the rounding errors of both tables, relative to
  // that of the values.
  double difference = 0.0, rounding = 0.0;
  // True if the second table is rounded more finely than the first.
  bool second_is_finer = false;
};

// Compares two tables of this shape. Returns nothing if they differ by more than their rounding.
// Most tables that differ are recognised by a few rows.
std::optional<TwinTables> find_twins(const TableRows& first, const TableRows& second, int64_t rows,
                                     int64_t columns);

// Returns the sentence that says what was found and which table is kept.
std::string twins_text(const TwinTables& twins, const TableRows& first, const TableRows& second);

}  // namespace neuronmm::io
