#include "compress/output/stacked_sources.h"

#include <cstring>
#include <map>
#include <string>
#include <utility>

#include "io/families/tensor_names.h"

namespace neuronmm::compress {
namespace {

// The parts of a stacked tensor by their places: all parts of expert 0, then those of expert 1.
struct Stack {
  io::StackedModule module;
  std::map<int64_t, TensorSource> parts;
};

bool is_matrix(const TensorSource& part) { return part.spec.shape.size() == 2; }

// Returns the bytes of a whole part. Values in a foreign format get the dtype of the spec.
Result<std::vector<std::byte>> bytes_of(const TensorSource& part) {
  std::vector<std::byte> bytes;
  std::vector<float> values;
  NMM_TRY(part.visit([&](const TensorView& piece) -> Status {
    if (piece.foreign == nullptr) {
      bytes.insert(bytes.end(), piece.data, piece.data + piece.size_bytes());
      return {};
    }
    values.resize(static_cast<size_t>(piece.size()));
    to_floats(piece, 0, piece.size(), values.data());
    append_rounded(part.spec.dtype, values.data(), piece.size(), bytes);
    return {};
  }));
  return bytes;
}

// Copies the elements of a part, the `which`-th of its expert, to their places among those of all
// parts of the expert.
void place(const std::vector<std::byte>& part, int64_t which, const Stack& stack,
           const io::TensorSpec& spec, std::vector<std::byte>& expert) {
  const int64_t size = dtype_size_bytes(spec.dtype), parts = stack.module.parts;
  const int64_t rows = spec.shape.front(), columns = spec.shape.size() == 2 ? spec.shape.back() : 1;
  for (int64_t n = 0; n < rows; ++n) {
    const int64_t row = stack.module.interleaved ? n * parts + which : which * rows + n;
    for (int64_t k = 0; k < columns; ++k) {
      const int64_t at = stack.module.input_first ? k * parts * rows + row : row * columns + k;
      std::memcpy(expert.data() + at * size, part.data() + (n * columns + k) * size,
                  static_cast<size_t>(size));
    }
  }
}

// Passes on the matrices or biases of one expert after the other.
Status visit_stack(const Stack& stack, const TensorSource::Use& use) {
  for (auto part = stack.parts.begin(); part != stack.parts.end();) {
    const io::TensorSpec& spec = part->second.spec;
    std::vector<std::byte> expert(static_cast<size_t>(stack.module.parts * io::size_bytes(spec)));
    for (int64_t i = 0; i < stack.module.parts; ++i, ++part) {
      NMM_ASSIGN(const auto bytes, bytes_of(part->second));
      place(bytes, i, stack, spec, expert);
    }
    NMM_TRY(use({spec.dtype, {std::ssize(expert) / dtype_size_bytes(spec.dtype)}, expert.data()}));
  }
  return {};
}

TensorSource stacked_source(Stack stack) {
  const TensorSource& first = stack.parts.begin()->second;
  const int64_t experts = std::ssize(stack.parts) / stack.module.parts;
  const int64_t rows = stack.module.parts * first.spec.shape.front();
  TensorSource whole = {.spec = {stack.module.name, first.spec.dtype, {experts, rows}}};
  if (is_matrix(first)) {
    const int64_t columns = first.spec.shape.back();
    whole.spec.shape =
        stack.module.input_first ? Shape{experts, columns, rows} : Shape{experts, rows, columns};
  }
  whole.visit = [stack = std::move(stack)](const TensorSource::Use& use) {
    return visit_stack(stack, use);
  };
  return whole;
}

}  // namespace

std::vector<TensorSource> stacked_sources(std::vector<TensorSource> sources,
                                          io::Architecture architecture) {
  std::map<std::string, Stack> stacks;
  std::vector<TensorSource> result;
  for (TensorSource& source : sources) {
    const auto module = io::stacked_module(architecture, source.spec.name);
    if (!module) {
      result.push_back(std::move(source));
      continue;
    }
    Stack& stack = stacks[module->name];
    stack.module = *module;
    stack.parts[module->expert * module->parts + module->part] = std::move(source);
  }
  for (auto& [name, stack] : stacks) result.push_back(stacked_source(std::move(stack)));
  return result;
}

}  // namespace neuronmm::compress
