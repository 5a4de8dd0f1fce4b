#include "compress/gram.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include <nlohmann/json.hpp>

#include "base/parallel.h"
#include "compress/blas.h"
#include "io/calibration_source.h"
#include "io/safetensors.h"
#include "io/safetensors_writer.h"

namespace neuronmm::compress {
namespace {

// Tokens per rank-k update: deep enough for dgemm to reach its speed, and [256, H] fp64 is small.
constexpr int64_t kTokenBlock = 256;
// Columns of the Gram matrix per parallel task.
constexpr int64_t kColumnBlock = 256;
// |g_ij - g_ji| over the largest diagonal entry. Ours are exactly symmetric; other programs may sum
// both halves in different orders.
constexpr double kSymmetryTolerance = 1e-9;
constexpr const char* kSourcesKey = "calibration";  // io::read_calibration reads it under this name

std::string tensor_name(int64_t layer, const char* which) {
  return fmt::format("model.layers.{}.mlp.gram_{}", layer, which);
}

std::span<const std::byte> bytes_of(const DoubleMatrix& matrix) {
  return std::as_bytes(std::span(matrix.data(), static_cast<size_t>(matrix.size())));
}

// A saved file may come from another program. What every Gram matrix has is checked: finite values,
// symmetry, and no negative number on the diagonal.
Status check_gram(const DoubleMatrix& gram, const std::string& where) {
  if (!gram.all_finite()) return fail("{}: expected finite values, found NaN or infinity", where);
  double largest = 0.0, skew = 0.0;
  for (int64_t j = 0; j < gram.columns(); ++j) {
    if (gram(j, j) < 0.0) {
      return fail("{}: expected a Gram matrix, found {} on the diagonal in row {}", where,
                  gram(j, j), j);
    }
    largest = std::max(largest, gram(j, j));
    for (int64_t i = j + 1; i < gram.rows(); ++i) {
      skew = std::max(skew, std::abs(gram(i, j) - gram(j, i)));
    }
  }
  if (skew <= kSymmetryTolerance * largest) return {};
  return fail("{}: expected a symmetric matrix, found entries that differ by {:.3g}", where, skew);
}

// Names, dtype and shape first, values last: they are read only once all else fits.
Result<DoubleMatrix> read_gram(const io::SafetensorsFile& file, const std::string& name,
                               int64_t size, const std::string& source) {
  const auto found = file.tensors().find(name);
  if (found == file.tensors().end())
    return fail("{}: expected tensor {}, found none", source, name);
  const TensorView& tensor = found->second;
  if (tensor.dtype != DType::kF64 || tensor.shape != Shape{size, size}) {
    return fail("{}: {}: expected F64 {}, found {} {}", source, name, shape_string({size, size}),
                dtype_name(tensor.dtype), shape_string(tensor.shape));
  }
  DoubleMatrix gram(size, size);
  to_doubles(tensor, 0, tensor.size(), gram.data());
  NMM_TRY(check_gram(gram, source + ": " + name));
  return gram;
}

Result<int64_t> metadata_number(const io::SafetensorsFile& file, const std::string& key,
                                const std::string& source) {
  const auto found = file.metadata().find(key);
  const std::string text = found == file.metadata().end() ? "" : found->second;
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) {
    return fail(
        "{}: not a file of Gram matrices: expected metadata \"{}\" with a number, found \"{}\"",
        source, key, text);
  }
  return value;
}

// A file's metadata holds texts: the list is one, in an object, as the record of a model has it.
std::string sources_text(const std::vector<io::CalibrationSource>& sources) {
  const nlohmann::ordered_json object = {{kSourcesKey, io::calibration_json(sources)}};
  return object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

Result<std::vector<io::CalibrationSource>> metadata_sources(const io::SafetensorsFile& file,
                                                            const std::string& source) {
  const auto found = file.metadata().find(kSourcesKey);
  if (found == file.metadata().end()) return std::vector<io::CalibrationSource>();
  NMM_ASSIGN(const nlohmann::json object, io::parse_json_object(found->second, source));
  return io::read_calibration(io::JsonFields(object, source));
}

Status check_model(const io::SafetensorsFile& file, const io::ModelConfig& config,
                   const std::string& source) {
  NMM_ASSIGN(const int64_t hidden, metadata_number(file, "hidden_size", source));
  NMM_ASSIGN(const int64_t layers, metadata_number(file, "num_hidden_layers", source));
  if (hidden == config.hidden_size && layers == config.num_hidden_layers) return {};
  return fail(
      "{}: expected Gram matrices of a model with hidden_size {} and {} layers, found hidden_size "
      "{} and {} layers",
      source, config.hidden_size, config.num_hidden_layers, hidden, layers);
}

// One token per column: dgemm then reads both factors along their columns.
void copy_tokens(ConstMatrixView rows, int64_t first, int64_t count, DoubleMatrix& block) {
  parallel_for(count,
               [&](int64_t t) { std::copy_n(rows.row(first + t), rows.columns, block.column(t)); });
}

enum class Part { kAll, kLowerTriangle };

// sum += A Bᵀ, of which the columns are the tokens: one matrix product per block of them, whose own
// columns the threads share. Of a symmetric sum only what is on or below the diagonal is computed,
// half of the work: of each range of columns first the square on the diagonal, then what is below.
void add_products(ConstMatrixView a, ConstMatrixView b, Part part, DoubleMatrix& sum) {
  const int64_t rows = a.columns, size = b.columns;
  NMM_CHECK(rows <= sum.rows() && size <= sum.columns() && a.rows == b.rows);
  const bool same = a.data == b.data;
  DoubleMatrix block_a(rows, std::min(a.rows, kTokenBlock));
  DoubleMatrix block_b = same ? DoubleMatrix() : DoubleMatrix(size, block_a.columns());
  for (int64_t first = 0; first < a.rows; first += kTokenBlock) {
    const int64_t count = std::min(a.rows - first, kTokenBlock);
    copy_tokens(a, first, count, block_a);
    if (!same) copy_tokens(b, first, count, block_b);
    const DoubleMatrix& right = same ? block_a : block_b;
    parallel_for((size + kColumnBlock - 1) / kColumnBlock, [&](int64_t block) {
      const int64_t j = block * kColumnBlock;
      const int64_t columns = std::min(size - j, kColumnBlock);
      const int m = static_cast<int>(rows), n = static_cast<int>(size);
      int64_t row = 0;
      if (part == Part::kLowerTriangle) {
        blas().dsyrk(CblasColMajor, CblasLower, CblasNoTrans, static_cast<int>(columns),
                     static_cast<int>(count), 1.0, block_a.data() + j, m, 1.0, sum.column(j) + j,
                     static_cast<int>(sum.rows()));
        row = j + columns;
      }
      if (row == rows) return;
      blas().dgemm(CblasColMajor, CblasNoTrans, CblasTrans, static_cast<int>(rows - row),
                   static_cast<int>(columns), static_cast<int>(count), 1.0, block_a.data() + row, m,
                   right.data() + j, n, 1.0, sum.column(j) + row, static_cast<int>(sum.rows()));
    });
  }
}

}  // namespace

void add_gram(ConstMatrixView rows, DoubleMatrix& sum) {
  add_products(rows, rows, Part::kLowerTriangle, sum);
}

void add_cross_gram(ConstMatrixView a, ConstMatrixView b, DoubleMatrix& sum) {
  add_products(a, b, Part::kAll, sum);
}

DoubleMatrix symmetric(const DoubleMatrix& lower_triangle) {
  DoubleMatrix out = lower_triangle;
  mirror_lower_triangle(out);
  return out;
}

// One layer is in memory at a time; tensors lie in the order in which they are gathered.
Status write_gram_file(const std::filesystem::path& path, const io::ModelConfig& config,
                       const GramOrigin& origin, int64_t first, int64_t count,
                       const GramSource& source) {
  const Shape shape = {config.hidden_size, config.hidden_size};
  std::vector<io::TensorSpec> specs;
  for (int64_t layer = first; layer < first + count; ++layer) {
    specs.push_back({tensor_name(layer, "in"), DType::kF64, shape});
    specs.push_back({tensor_name(layer, "out"), DType::kF64, shape});
  }
  NMM_ASSIGN(auto writer, io::SafetensorsWriter::create_checked(
                              path, specs,
                              {{"hidden_size", std::to_string(config.hidden_size)},
                               {"num_hidden_layers", std::to_string(config.num_hidden_layers)},
                               {"tokens", std::to_string(origin.tokens)},
                               {"text", origin.text},
                               {"calibration", sources_text(origin.sources)}}));
  for (int64_t layer = first; layer < first + count; ++layer) {
    NMM_ASSIGN(const LayerGrams grams, source(layer));
    NMM_TRY(writer.append(bytes_of(grams.in)));
    NMM_TRY(writer.append(bytes_of(grams.out)));
  }
  return writer.finish();
}

Result<GramFile> GramFile::open(const std::filesystem::path& path, const io::ModelConfig& config) {
  const std::string source = path.string();
  GramFile grams;
  grams.path_ = path;
  grams.hidden_size_ = config.hidden_size;
  // The file is closed again before its layers are checked one by one.
  {
    NMM_ASSIGN(const auto file, io::SafetensorsFile::open_checked(path));
    NMM_TRY(check_model(file, config, source));
    NMM_ASSIGN(grams.origin_.tokens, metadata_number(file, "tokens", source));
    if (file.metadata().contains("text")) grams.origin_.text = file.metadata().at("text");
    NMM_ASSIGN(grams.origin_.sources, metadata_sources(file, source));
    const auto expected = static_cast<size_t>(2 * config.num_hidden_layers);
    if (file.tensors().size() != expected) {
      return fail("{}: expected {} Gram matrices ({} layers), found {}", source, expected,
                  config.num_hidden_layers, file.tensors().size());
    }
  }
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) NMM_TRY(grams.load(layer));
  return grams;
}

Result<LayerGrams> GramFile::load(int64_t layer) const {
  return read_layer_grams(path_, layer, hidden_size_);
}

Result<LayerGrams> read_layer_grams(const std::filesystem::path& path, int64_t layer,
                                    int64_t hidden_size) {
  NMM_ASSIGN(const auto file, io::SafetensorsFile::open(path));
  LayerGrams grams;
  NMM_ASSIGN(grams.in, read_gram(file, tensor_name(layer, "in"), hidden_size, path.string()));
  NMM_ASSIGN(grams.out, read_gram(file, tensor_name(layer, "out"), hidden_size, path.string()));
  return grams;
}

}  // namespace neuronmm::compress
