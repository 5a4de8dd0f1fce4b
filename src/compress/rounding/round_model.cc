#include "compress/rounding/round_model.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "base/freed_memory.h"
#include "base/interrupt.h"
#include "base/task_labels.h"
#include "compress/rounding/mlp_rounding.h"
#include "compress/statistics/expert_statistics.h"
#include "compress/statistics/mlp_statistics.h"
#include "model/layer_weights.h"
#include "model/tensor_specs.h"

namespace neuronmm::compress {
namespace {

namespace fs = std::filesystem;

// Rounds a model in steps, between which an interrupt is noticed.
class RoundingRun {
 public:
  RoundingRun(const ModelRounding& rounding, const fs::path& work)
      : run_(rounding), tensors_(run_, work), prefix_(model::tensor_prefix(rounding.checkpoint)) {}

  // Returns the number of steps. A layer has four: q and k, v, o, and the MLP. The LM head is the
  // last step.
  int64_t steps() const { return 4 * run_.config.num_hidden_layers + 1; }
  // Returns whether an earlier run has rounded all tensors of this step.
  bool finished(int64_t step) const {
    const int64_t layer = step / 4;
    std::vector<std::string> tensors;
    if (layer == run_.config.num_hidden_layers) {
      tensors = {head_name()};
    } else if (step % 4 == 3) {
      const std::string mlp = fmt::format("{}layers.{}.mlp.", prefix_, layer);
      for (const auto& [name, tensor] : run_.checkpoint.tensors()) {
        if (name.starts_with(mlp) && model::is_linear(name, run_.config)) tensors.push_back(name);
      }
    } else {
      tensors = attention_tensors(layer, step % 4);
    }
    return std::ranges::all_of(tensors, [&](const auto& name) { return tensors_.finished(name); });
  }
  Status round(int64_t step) const {
    const int64_t layer = step / 4;
    if (layer == run_.config.num_hidden_layers) {
      return_freed_memory();  // the head is larger than the memory that layers have freed
      return round_head();
    }
    if (step % 4 == 3) {
      return round_mlp_of(layer, fmt::format("{}layers.{}.mlp.", prefix_, layer));
    }
    constexpr DoubleMatrix AttentionStatistics::*kInputs[] = {
        &AttentionStatistics::in, &AttentionStatistics::mixed, &AttentionStatistics::heads};
    return round_readers(attention_tensors(layer, step % 4),
                         [&] { return of_attention(layer, kInputs[step % 4]); });
  }

 private:
  using Gram = std::function<Result<DoubleMatrix>()>;

  // Returns the tensors of one of the first three steps of a layer, which read the same input.
  std::vector<std::string> attention_tensors(int64_t layer, int64_t step) const {
    const auto name = [&](const char* which) {
      return fmt::format("{}layers.{}.self_attn.{}_proj.weight", prefix_, layer, which);
    };
    if (step == 0) return {name("q"), name("k")};
    return {name(step == 1 ? "v" : "o")};
  }
  std::string head_name() const {
    return run_.config.tie_word_embeddings ? prefix_ + "embed_tokens.weight" : "lm_head.weight";
  }

  // Rounds tensors that read the same input and therefore have the same column factors. The Gram
  // matrix is read and factorized only if codes of one of the tensors are missing.
  Status round_readers(const std::vector<std::string>& tensors, const Gram& read_gram) const {
    std::optional<RoundingGram> gram;
    for (const std::string& tensor : tensors) {
      if (tensors_.finished(tensor)) continue;
      if (!gram) {
        NMM_ASSIGN(DoubleMatrix inputs, read_gram());
        NMM_ASSIGN(gram, RoundingGram::prepare(
                             divided_inputs(std::move(inputs), tensors_.input_factors(tensor))));
      }
      NMM_TRY(tensors_.round(tensor, tensors_.weight(tensor), *gram));
    }
    return {};
  }

  Status round_mlp_of(int64_t layer, const std::string& prefix) const {
    NMM_ASSIGN(const auto weights, model::layer_weights(run_.checkpoint, run_.config, layer));
    if (weights.mixture) {
      NMM_TRY(round_bases(layer, *weights.mixture, prefix));
      return round_experts(layer, weights.mixture->experts, prefix);
    }
    return round_mlp(tensors_, weights.mlp, prefix,
                     [&] { return read_statistics(run_.statistics, layer, run_.config); });
  }

  Status round_bases(int64_t layer, const ops::MixtureWeight& mixture,
                     const std::string& prefix) const {
    if (!mixture.input.w_t.empty()) {
      NMM_TRY(round_readers({prefix + "input_basis_proj.weight"}, [&] {
        return read_layer_inputs(run_.statistics, layer, run_.config);
      }));
    }
    if (mixture.output.w_t.empty()) return {};
    return round_readers({prefix + "output_basis_proj.weight"}, [&]() -> Result<DoubleMatrix> {
      NMM_ASSIGN(const DoubleMatrix sums, read_basis_outputs(run_.statistics, layer, run_.config));
      return sums.first_block(mixture.expert_out());
    });
  }

  // Each expert is rounded by its own statistics. The router stays as it is.
  Status round_experts(int64_t layer, const std::vector<ops::MlpWeight>& experts,
                       const std::string& prefix) const {
    for (int64_t e = 0; e < std::ssize(experts); ++e) {
      if (interrupted()) return interrupted_error(fmt::format("layer {} is not rounded", layer));
      NMM_TRY(round_mlp(
          tensors_, experts[static_cast<size_t>(e)], fmt::format("{}experts.{}.", prefix, e),
          [&] { return read_expert_statistics(run_.statistics, layer, e, run_.config); }));
    }
    return {};
  }

  Status round_head() const {
    if (!run_.round_head) return {};
    return round_readers({head_name()},
                         [&] { return read_head_statistics(run_.statistics, run_.config); });
  }

  Result<DoubleMatrix> of_attention(int64_t layer, DoubleMatrix AttentionStatistics::*which) const {
    NMM_ASSIGN(auto statistics, read_attention_statistics(run_.statistics, layer, run_.config));
    return std::move(statistics.*which);
  }

  const ModelRounding& run_;
  TensorRounding tensors_;
  std::string prefix_;
};

// Checks the names and shapes of all tensors, before hours of work begin.
Status check_layers(const ModelRounding& rounding) {
  for (int64_t layer = 0; layer < rounding.config.num_hidden_layers; ++layer) {
    const auto weights = model::layer_weights(rounding.checkpoint, rounding.config, layer);
    if (!weights.ok()) return weights.error();
  }
  return {};
}

}  // namespace

Status round_model(const ModelRounding& rounding, const fs::path& work, Progress& progress) {
  NMM_TRY(check_layers(rounding));
  keep_freed_memory();
  const RoundingRun run(rounding, work);
  int64_t found = 0;
  while (found < run.steps() && run.finished(found)) ++found;
  if (found > 0 && found < run.steps()) {
    progress.print(std::string(task::kRounding) + ": " +
                   found_text(found / 4, rounding.config.num_hidden_layers, "layer", "layers"));
  }
  progress.start(task::kRounding, run.steps(), found);
  for (int64_t step = 0; step < run.steps(); ++step) {
    if (interrupted()) {
      return interrupted_error(fmt::format("rounding has done {} of {} steps", step, run.steps()));
    }
    NMM_TRY(run.round(step));
    if (step < found) continue;  // nothing had to be done
    const int64_t layer = step / 4;
    progress.update(step + 1, layer == rounding.config.num_hidden_layers
                                  ? "the LM head"
                                  : fmt::format("layer {}", layer));
  }
  progress.finish();
  return {};
}

}  // namespace neuronmm::compress
