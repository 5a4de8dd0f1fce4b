#include "compress/sizes/form.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace neuronmm::compress {
namespace {

constexpr std::array<std::pair<Form, std::string_view>, 8> kFormNames = {
    {{Form::kUv, "uv"},
     {Form::kPivoted, "pivoted"},
     {Form::kNarrow, "narrow"},
     {Form::kNeurons, "neurons"},
     {Form::kMixed, "mixed"},
     {Form::kExperts, "experts"},
     {Form::kBasis, "basis"},
     {Form::kAuto, "auto"}}};

// Returns the parameters of a matrix [neurons, hidden], or of its transpose, at `rank`. Pivots are
// on the side of `hidden`.
int64_t matrix_parameters(const MlpSizes& sizes, int64_t neurons, int64_t rank) {
  if (rank == 0) return neurons * sizes.hidden;
  return rank * (neurons + sizes.hidden - (sizes.factors ? 0 : rank));
}

// Returns the smaller root of a·r² - b·r + c = 0.
double smaller_root(double a, double b, double c) {
  return (b - std::sqrt(std::max(0.0, b * b - 4.0 * a * c))) / (2.0 * a);
}

// Returns the size that keeps the share `kept` of the parameters, before it is rounded to blocks.
double exact_size(Form form, double h, double i, double kept) {
  if (form == Form::kUv) return h * i * kept / (h + i);
  if (form == Form::kPivoted) return smaller_root(1.0, h + i, h * i * kept);
  if (form == Form::kNarrow) return smaller_root(2.0, 3.0 * i + 2.0 * h, 3.0 * h * i * kept);
  return i * kept;
}

// Returns the rank of the whole matrix, which saves nothing.
int64_t smaller_side(const MlpSizes& sizes) { return std::min(sizes.hidden, sizes.inner); }

io::MlpShape shape_of_size(Form form, int64_t size) {
  if (form == Form::kNeurons) return io::MlpShape{.neurons = size};
  if (form == Form::kNarrow) return io::MlpShape{.down = size, .input = size};
  return io::MlpShape{size, size, size};
}

}  // namespace

std::string_view form_name(Form form) {
  for (const auto& [known, name] : kFormNames) {
    if (known == form) return name;
  }
  return "";
}

Result<Form> parse_form(std::string_view name) {
  for (const auto& [form, known] : kFormNames) {
    if (known == name) return form;
  }
  return fail("expected uv, pivoted, narrow, neurons, mixed, experts, basis or auto, found \"{}\"",
              name);
}

int64_t MlpSizes::parameters(const io::MlpShape& shape) const {
  const int64_t neurons = shape.neurons > 0 ? shape.neurons : inner;
  int64_t total = matrix_parameters(*this, neurons, shape.down);
  if (shape.input > 0) return total + shape.input * (hidden - shape.input + 2 * neurons);
  for (const int64_t rank : {shape.gate, shape.up}) {
    total += matrix_parameters(*this, neurons, rank);
  }
  return total;
}

io::MlpShape smallest_shape(Form form, const MlpSizes& sizes, int64_t block) {
  const int64_t rank = block < smaller_side(sizes) ? block : 0;
  const int64_t neurons = block < sizes.inner ? block : 0;
  if (form == Form::kUv || form == Form::kPivoted) return io::MlpShape{rank, rank, rank};
  if (form == Form::kNeurons) return io::MlpShape{.neurons = neurons};
  if (form == Form::kNarrow) return io::MlpShape{.down = rank, .input = rank};
  return io::MlpShape{.down = rank, .input = rank, .neurons = neurons};
}

Result<io::MlpShape> uniform_shape(Form form, const MlpSizes& sizes, const RankRule& rule) {
  const double exact = exact_size(form, static_cast<double>(sizes.hidden),
                                  static_cast<double>(sizes.inner), 1.0 - rule.ratio);
  const int64_t size = nearest_whole(exact / static_cast<double>(rule.block)) * rule.block;
  const int64_t whole = form == Form::kNeurons ? sizes.inner : smaller_side(sizes);
  const io::MlpShape shape = shape_of_size(form, size);
  const MlpSizes counted = {sizes.hidden, sizes.inner, form == Form::kUv};
  const bool saves = size < whole && counted.parameters(shape) < counted.dense_parameters();
  if (size < 1 || !saves) {
    return fail("ratio {} with block {} gives {} of {}, {}; use {} ratio or a smaller block",
                rule.ratio, rule.block, size, whole,
                size < 1 ? "which keeps nothing" : "which saves nothing",
                size < 1 ? "a smaller" : "a larger");
  }
  return shape;
}

}  // namespace neuronmm::compress
