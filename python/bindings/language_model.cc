#include "language_model.h"

#include <algorithm>

#include <nanobind/ndarray.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "base/interrupt.h"
#include "cpu/backend.h"
#include "cpu/kernels.h"
#include "eval/paired_perplexity.h"
#include "eval/perplexity.h"
#include "io/model_name.h"
#include "io/text_file.h"
#include "job.h"

namespace neuronmm::python {
namespace {

using namespace nb::literals;
using text::TokenId;
using Logits = nb::ndarray<nb::numpy, float, nb::ndim<2>>;

Result<std::shared_ptr<const LoadedModel>> load_model(const std::filesystem::path& name) {
  const std::filesystem::path folder = io::find_model(name.string());
  auto model = std::make_shared<LoadedModel>();
  NMM_ASSIGN(auto tokenizer, text::Tokenizer::load(folder));
  model->tokenizer = std::make_shared<const text::Tokenizer>(std::move(tokenizer));
  model->backend = make_backend();
  NMM_ASSIGN(model->transformer, model::Transformer::load(folder, *model->backend));
  NMM_ASSIGN(model->generation_config, io::GenerationConfig::load(folder));
  return std::shared_ptr<const LoadedModel>(std::move(model));
}

// Computes the logits in pieces, between which an interrupt takes effect. The cache is fp32, as for
// perplexity.
Result<std::vector<float>> logits_of(const model::Transformer& transformer,
                                     std::span<const TokenId> tokens) {
  constexpr size_t kPieceTokens = 512;
  const io::ModelConfig& config = transformer.config();
  if (tokens.empty()) return fail("expected at least one token");
  if (std::ssize(tokens) > config.max_position_embeddings) {
    return fail("expected at most {} tokens (max_position_embeddings), found {}",
                config.max_position_embeddings, tokens.size());
  }
  NMM_TRY(model::check_token_ids(tokens, config));
  const auto cache = transformer.make_cache(std::ssize(tokens), DType::kF32);
  std::vector<float> logits(tokens.size() * static_cast<size_t>(config.vocab_size));
  auto end = logits.begin();
  for (size_t first = 0; first < tokens.size(); first += kPieceTokens) {
    if (interrupted()) return interrupted_error("nothing is kept");
    const auto piece = tokens.subspan(first, std::min(kPieceTokens, tokens.size() - first));
    const Matrix rows = transformer.forward(piece, *cache, model::Transformer::Logits::kAll);
    end = std::copy_n(rows.data(), rows.rows() * rows.columns(), end);
  }
  return logits;
}

// The returned array owns its values, because it may outlive the model.
Logits forward(const LanguageModel& self, std::vector<TokenId> tokens) {
  auto logits = std::make_unique<std::vector<float>>(
      run_job(self.threads, [model = self.model, tokens = std::move(tokens)] {
        return logits_of(*model->transformer, tokens);
      }));
  const auto columns = static_cast<size_t>(self.model->transformer->config().vocab_size);
  const size_t rows = logits->size() / columns;
  float* const data = logits->data();
  const nb::capsule owner(logits.release(), [](void* values) noexcept {
    delete static_cast<std::vector<float>*>(values);
  });
  return {data, {rows, columns}, owner};
}

struct MeasuredPerplexity {
  eval::PerplexityReport report;
  std::optional<eval::DivergenceSummary> divergence;  // empty without a reference
};
using SharedModel = std::shared_ptr<const LoadedModel>;

Result<MeasuredPerplexity> measure_perplexity(const LoadedModel& model,
                                              const SharedModel& reference, const std::string& text,
                                              std::optional<int64_t> context, bool progress) {
  Progress shown(progress ? stderr : nullptr);
  NMM_ASSIGN(const auto tokens, model.tokenizer->encode(text));
  const int64_t length = context.value_or(eval::default_context(model.transformer->config()));
  if (!reference) {
    NMM_ASSIGN(auto report, eval::perplexity(*model.transformer, tokens, length, shown));
    return MeasuredPerplexity{std::move(report), {}};
  }
  NMM_TRY(eval::check_same_tokens(*reference->tokenizer, "the reference", *model.tokenizer,
                                  "the model", text));
  NMM_ASSIGN(auto paired, eval::paired_perplexity(*reference->transformer, *model.transformer,
                                                  tokens, length, shown));
  return MeasuredPerplexity{std::move(paired.report), paired.divergence};
}

// Returns the fields of `perplexity --json`.
nb::dict divergence_dict(const eval::DivergenceSummary& summary) {
  nb::dict values;
  const auto add = [&](const char* name, const eval::Estimate& estimate) {
    values[name] = estimate.value;
    values[(std::string(name) + "_interval").c_str()] =
        nb::make_tuple(estimate.low(), estimate.high());
  };
  values["reference_perplexity"] = summary.dense_perplexity;
  add("kl", summary.divergence);
  add("top1_agreement", summary.agreement);
  add("nll_difference", summary.added_loss);
  values["perplexity_ratio"] = summary.perplexity_ratio();
  return values;
}

nb::dict report_dict(const MeasuredPerplexity& measured) {
  const eval::PerplexityReport& report = measured.report;
  nb::dict values;
  values["perplexity"] = report.perplexity;
  values["standard_error"] = report.standard_error;
  values["context"] = report.context;
  values["tokens"] = report.tokens;
  values["chunks"] = report.chunks;
  values["scored_tokens"] = report.scored_tokens;
  values["seconds"] = report.seconds;
  values["divergence"] =
      measured.divergence ? nb::object(divergence_dict(*measured.divergence)) : nb::none();
  return values;
}

SharedModel model_of(const LanguageModel* reference) {
  return reference == nullptr ? nullptr : reference->model;
}

nb::dict perplexity(const LanguageModel& self, const nb::bytes& text,
                    std::optional<int64_t> context, const LanguageModel* reference, bool progress) {
  const auto work = [model = self.model, other = model_of(reference),
                     text = std::string(text.c_str(), text.size()), context, progress] {
    return measure_perplexity(*model, other, text, context, progress);
  };
  return report_dict(run_job(self.threads, work));
}

nb::dict perplexity_of_file(const LanguageModel& self, const std::filesystem::path& file,
                            std::optional<int64_t> context, const LanguageModel* reference,
                            bool progress) {
  const auto work = [model = self.model, other = model_of(reference), file, context,
                     progress]() -> Result<MeasuredPerplexity> {
    NMM_ASSIGN(const auto text, text_of_file(file));
    return measure_perplexity(*model, other, text, context, progress);
  };
  return report_dict(run_job(self.threads, work));
}

}  // namespace

std::unique_ptr<ops::Backend> make_backend() {
  return cpu::make_backend(cpu::best_kernels(cpu::default_choice()));
}

Result<std::string> text_of_file(const std::filesystem::path& file) {
  return io::read_user_text(file == "-" ? "./-" : file.string());
}

LanguageModel::LanguageModel(const std::filesystem::path& folder, int num_threads)
    : model(run_job(num_threads, [folder] { return load_model(folder); })), threads(num_threads) {}

void bind_language_model(nb::module_& m) {
  auto type = nb::class_<LanguageModel>(m, "LanguageModel")
                  .def(nb::init<const std::filesystem::path&, int>(), "folder"_a, "num_threads"_a)
                  .def("forward", &forward, "token_ids"_a)
                  .def("perplexity", &perplexity, "text"_a, "context"_a.none(),
                       "reference"_a.none(), "progress"_a)
                  .def("perplexity_of_file", &perplexity_of_file, "file"_a, "context"_a.none(),
                       "reference"_a.none(), "progress"_a)
                  .def_prop_ro("tokenizer", [](const LanguageModel& self) {
                    return std::const_pointer_cast<text::Tokenizer>(self.model->tokenizer);
                  });
  type.def_prop_ro("vocab_size", [](const LanguageModel& self) {
    return self.model->transformer->config().vocab_size;
  });
  bind_generation(m, type);
}

}  // namespace neuronmm::python
