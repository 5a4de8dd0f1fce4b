#pragma once
// A model that runs: its folder's tokenizer, weights and settings.

#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include <nanobind/nanobind.h>

#include "io/generation_config.h"
#include "model/transformer.h"
#include "ops/backend.h"
#include "text/tokenizer.h"

namespace neuronmm::python {

namespace nb = nanobind;

// Shared by the Python object and the work at hand, which may outlive it.
struct LoadedModel {
  std::shared_ptr<const text::Tokenizer> tokenizer;
  std::unique_ptr<ops::Backend> backend;
  std::optional<model::Transformer> transformer;
  io::GenerationConfig generation_config;
};

struct LanguageModel {
  LanguageModel(const std::filesystem::path& folder, int num_threads);
  std::shared_ptr<const LoadedModel> model;
  int threads = 0;  // 0: all cores
};

// A file named "-" is that file here, not standard input.
Result<std::string> text_of_file(const std::filesystem::path& file);

void bind_tokenizer(nb::module_& m);
void bind_language_model(nb::module_& m);
// generate and stream.
void bind_generation(nb::module_& m, nb::class_<LanguageModel>& type);
void bind_model_folders(nb::module_& m);

}  // namespace neuronmm::python
