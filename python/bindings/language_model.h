#pragma once
// A model in memory with its tokenizer, weights and settings, and the functions that bind this
// folder's classes. Loading fails with a Failure.

#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include <nanobind/nanobind.h>

#include "io/generation_config.h"
#include "model/transformer.h"
#include "ops/backend.h"
#include "text/tokenizer/tokenizer.h"

namespace neuronmm::python {

namespace nb = nanobind;

// The parts of a loaded model. The Python object and a running job share them, because a job may
// outlive the object.
struct LoadedModel {
  std::shared_ptr<const text::Tokenizer> tokenizer;
  std::unique_ptr<ops::Backend> backend;
  std::optional<model::Transformer> transformer;
  io::GenerationConfig generation_config;
};

// The C++ object behind neuronmm.LLM.
struct LanguageModel {
  LanguageModel(const std::filesystem::path& folder, int num_threads);
  std::shared_ptr<const LoadedModel> model;
  int threads = 0;  // 0: all that can compute at once
};

// Returns a backend of the CPU with the kernels that the commands choose by default.
std::unique_ptr<ops::Backend> make_backend();

// Reads a text file. A file named "-" is read as a file and not as standard input.
Result<std::string> text_of_file(const std::filesystem::path& file);

void bind_tokenizer(nb::module_& m);
void bind_language_model(nb::module_& m);
// Binds generate and stream.
void bind_generation(nb::module_& m, nb::class_<LanguageModel>& type);
void bind_model_folders(nb::module_& m);

}  // namespace neuronmm::python
