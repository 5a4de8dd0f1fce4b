// This file implements `neuronmm paper forms`. The figure simulates whole models on every
// NeuronCore, with MLPs of every form at one kept share. No measurement of this is published.

#include <array>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "eval/latency.h"
#include "model/tensor_specs.h"
#include "paper/paper_figures.h"
#include "paper/paper_forms.h"
#include "paper/paper_models.h"
#include "trainium/device/backend.h"

namespace neuronmm::apps {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<int64_t, 2> kBatches = {1, 32};
constexpr int64_t kPrompt = 512;
constexpr const char* kUsualModel = "Llama-3.2-1B";

struct RequestTime {
  // Times in ms. `decode` is the time of one token of every sequence.
  double prefill = 0, decode = 0;
};

// Simulates prefill and one decode call. The model's MLPs take the time of `form`.
Result<RequestTime> time_request(const io::ModelConfig& config, std::string_view name,
                                 const MlpForm& form, const simulator::DeviceSpec& device,
                                 int64_t batch) {
  const auto backend = device::make_timing_backend(device, seconds_of(form, device));
  NMM_ASSIGN(auto checkpoint, io::Checkpoint::zeros(name, model::tensor_specs(config)));
  NMM_ASSIGN(const auto transformer,
             model::Transformer::load(config, std::move(checkpoint), *backend));
  const model::Transformer* const models[] = {&transformer};
  const eval::LatencySettings settings{
      .prompt_tokens = kPrompt, .new_tokens = 2, .batch = batch, .runs = 1};
  Progress silent;
  NMM_ASSIGN(const auto measurement, eval::measure_latency(models, settings, silent));
  const eval::RunLatency& run = measurement.models[0][0];
  return RequestTime{1e3 * run.context_encoding, 1e3 * run.token_generation.front()};
}

std::string cells(const RequestTime& time, const RequestTime& dense) {
  return fmt::format("{:>11.2f} {:>5.2f}x{:>10.3f} {:>5.2f}x", time.prefill,
                     dense.prefill / time.prefill, time.decode, dense.decode / time.decode);
}

std::string head(std::string_view device) {
  std::string text = fmt::format("\n{:<9}{:<8}{:>6}", device, "", "");
  for (const int64_t batch : kBatches)
    text += fmt::format("{:^35}", fmt::format("batch {}", batch));
  text += fmt::format("\n{:<9}{:<8}{:>6}", "form", "sizes", "kept");
  for (size_t i = 0; i < kBatches.size(); ++i)
    text += fmt::format("{:>18}{:>17}", "prefill", "decode");
  return text + "\n";
}

struct Table {
  std::string text;
  Json json = Json::array();
};

Status add_device(const io::ModelConfig& config, std::string_view model,
                  const std::vector<MlpForm>& forms, const std::string& name, Table& table) {
  NMM_ASSIGN(const simulator::DeviceSpec device, simulator::find_device(name));
  table.text += head(name);
  std::array<RequestTime, kBatches.size()> dense;
  for (const MlpForm& form : forms) {
    table.text += fmt::format("{:<9}{:<8}{:>6.3f}", form.name, form.sizes, form.kept);
    for (size_t i = 0; i < kBatches.size(); ++i) {
      NMM_ASSIGN(const RequestTime time, time_request(config, model, form, device, kBatches[i]));
      if (&form == &forms.front()) dense[i] = time;
      table.text += cells(time, dense[i]);
      table.json.push_back({{"model", model},
                            {"device", name},
                            {"form", form.name},
                            {"sizes", form.sizes},
                            {"kept", form.kept},
                            {"batch", kBatches[i]},
                            {"prefill_ms", time.prefill},
                            {"decode_ms", time.decode}});
    }
    table.text += "\n";
  }
  return {};
}

constexpr const char* kFormsNote =
    "\nx: gain over dense. kept: share of the MLPs' parameters; sizes are whole tiles of 128. "
    "Every MLP\nis one kernel at its best tiling: dense and neurons dense_mlp, uv mlp, narrow "
    "narrow_mlp, pivoted\npivoted_mlp. Times include the gathers that put pivots first in X and "
    "undo it in Y (3 for pivoted,\nwhose gate and up have pivots of their own, 2 for narrow), each "
    "as an operation of its own; a norm\nand a residual that do it on the way would save them. All "
    "else by rooflines: docs/design/simulator.md.\n";

}  // namespace

Result<Figure> forms_figure(const Choice& choice) {
  if (!choice.rows.empty()) return fail("--rows: forms has prompts of {} tokens", kPrompt);
  const std::vector<std::string> wanted =
      choice.models.empty() ? std::vector<std::string>{kUsualModel} : choice.models;
  const std::vector<std::string> devices =
      choice.devices.empty() ? std::vector<std::string>{"trn1", "trn2", "trn3"} : choice.devices;
  Table table;
  table.text = "simulated (no Trainium was used; nothing is published of this)\n";
  for (const std::string& model : wanted) {
    NMM_ASSIGN(const io::ModelConfig config, paper_model(model));
    NMM_ASSIGN(const std::vector<MlpForm> forms,
               forms_at({config.hidden_size, config.intermediate_size}, choice.kept_share));
    table.text += fmt::format(
        "\n{}, bf16, one core; ms: prefill of {} tokens in each sequence, decode of one; at most "
        "{} of the MLPs' parameters\n",
        model, kPrompt, choice.kept_share);
    for (const std::string& device : devices) {
      NMM_TRY(add_device(config, model, forms, device, table));
    }
  }
  Figure figure;
  figure.text = table.text + kFormsNote;
  figure.json = table.json.dump(2) + "\n";
  return figure;
}

}  // namespace neuronmm::apps
