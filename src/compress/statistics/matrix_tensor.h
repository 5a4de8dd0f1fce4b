#pragma once
// Stores an fp64 matrix as a tensor of a safetensors file. The unfinished work and the metric of a
// run have such tensors.

#include <cstddef>
#include <span>
#include <string>

#include "base/result.h"
#include "base/tensor.h"
#include "compress/linear_algebra/linear_algebra.h"
#include "io/safetensors.h"

namespace neuronmm::compress {

// Returns the bytes of a matrix, column after column. They are those of `matrix`, which must
// outlive them.
std::span<const std::byte> bytes_of(const DoubleMatrix& matrix);

// Reads a matrix whose bytes were written by bytes_of(). A tensor of one dimension becomes one row.
// Fails unless the file has the tensor in F64 and in this shape. The error names `source`, the path
// of the file.
Result<DoubleMatrix> read_matrix(const io::SafetensorsFile& file, const std::string& name,
                                 const Shape& shape, const std::string& source);

}  // namespace neuronmm::compress
