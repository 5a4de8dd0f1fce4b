#include "compress/round_model.h"

#include <optional>
#include <vector>

#include "base/interrupt.h"
#include "compress/codes_file.h"
#include "compress/mlp_statistics.h"
#include "model/layer_weights.h"

namespace neuronmm::compress {
namespace {

namespace fs = std::filesystem;

// Tensors that read the same.
struct Readers {
  std::vector<std::string> tensors;
  std::function<Result<DoubleMatrix>()> gram;
};

class RoundingRun {
 public:
  RoundingRun(const ModelRounding& rounding, const fs::path& work) : run_(rounding), work_(work) {}

  std::vector<Readers> all_readers() const {
    std::vector<Readers> all;
    const std::string prefix = model::tensor_prefix(run_.checkpoint);
    for (int64_t layer = 0; layer < run_.config.num_hidden_layers; ++layer) {
      const std::string at = fmt::format("{}layers.{}.", prefix, layer);
      const std::string attention = at + "self_attn.", mlp = at + "mlp.";
      const auto name = [](const std::string& of, const char* which) {
        return fmt::format("{}{}_proj.weight", of, which);
      };
      all.push_back({{name(attention, "q"), name(attention, "k")},
                     [this, layer] { return of_attention(layer, &AttentionStatistics::in); }});
      all.push_back({{name(attention, "v")},
                     [this, layer] { return of_attention(layer, &AttentionStatistics::mixed); }});
      all.push_back({{name(attention, "o")},
                     [this, layer] { return of_attention(layer, &AttentionStatistics::heads); }});
      all.push_back({{name(mlp, "gate"), name(mlp, "up")},
                     [this, layer] { return of_mlp(layer, &MlpStatistics::in); }});
      all.push_back(
          {{name(mlp, "down")}, [this, layer] { return of_mlp(layer, &MlpStatistics::neurons); }});
    }
    const char* const head =
        run_.config.tie_word_embeddings ? "embed_tokens.weight" : "lm_head.weight";
    all.push_back({{run_.config.tie_word_embeddings ? prefix + head : head},
                   [this] { return read_head_statistics(run_.statistics, run_.config); }});
    return all;
  }

  // All that read the same have the same factors of columns. The tensors' Gram matrix is read and
  // factorized only if one of them is not there yet.
  Status round(const Readers& readers) const {
    std::optional<RoundingGram> gram;
    for (const std::string& tensor : readers.tensors) {
      const TensorView weight = run_.checkpoint.tensors().at(tensor);
      const ops::LowBitFormat format = run_.format_of(tensor);
      if (read_codes(work_, tensor, format, weight.rows(), weight.columns()).ok()) continue;
      if (!gram) {
        NMM_ASSIGN(DoubleMatrix inputs, readers.gram());
        divide_inputs(tensor, inputs);
        NMM_ASSIGN(gram, RoundingGram::of(inputs));
      }
      const auto codes = round_by_gram(scaled(tensor, weight), *gram, format, run_.settings);
      run_.checkpoint.release_pages();
      if (!codes.ok()) {
        return fail("{}: {}: {}", run_.checkpoint.folder().string(), tensor, codes.error().message);
      }
      NMM_TRY(write_codes(work_, tensor, *codes));
    }
    return {};
  }

 private:
  DoubleMatrix scaled(const std::string& name, const TensorView& weight) const {
    DoubleMatrix values;
    const Status visited = visit_scaled(run_.scales, name, weight, [&](const TensorView& view) {
      values = to_double_matrix(view);
      return Status();
    });
    NMM_CHECK(visited.ok());
    return values;
  }
  void divide_inputs(const std::string& tensor, DoubleMatrix& gram) const {
    const auto found = run_.scales.find(tensor);
    if (found == run_.scales.end() || found->second.columns.empty()) return;
    const std::vector<double>& s = found->second.columns;
    for (int64_t j = 0; j < gram.columns(); ++j) {
      for (int64_t i = 0; i < gram.rows(); ++i) {
        gram(i, j) /= s[static_cast<size_t>(i)] * s[static_cast<size_t>(j)];
      }
    }
  }

  Result<DoubleMatrix> of_attention(int64_t layer, DoubleMatrix AttentionStatistics::*which) const {
    NMM_ASSIGN(auto statistics, read_attention_statistics(run_.statistics, layer, run_.config));
    return std::move(statistics.*which);
  }
  Result<DoubleMatrix> of_mlp(int64_t layer, DoubleMatrix MlpStatistics::*which) const {
    NMM_ASSIGN(auto statistics, read_statistics(run_.statistics, layer, run_.config));
    return std::move(statistics.*which);
  }

  const ModelRounding& run_;
  const fs::path& work_;
};

// Checks names and shapes of all tensors.
Status check_dense(const ModelRounding& rounding) {
  for (int64_t layer = 0; layer < rounding.config.num_hidden_layers; ++layer) {
    NMM_ASSIGN(const auto weights,
               model::layer_weights(rounding.checkpoint, rounding.config, layer));
    if (!weights.mlp.gate.low_rank() && !weights.mlp.up.low_rank() &&
        !weights.mlp.down.low_rank()) {
      continue;
    }
    return fail("{}: expected a dense model, found factors in layer {}",
                rounding.checkpoint.folder().string(), layer);
  }
  return {};
}

}  // namespace

Status round_model(const ModelRounding& rounding, const fs::path& work, Progress& progress) {
  NMM_TRY(check_dense(rounding));
  const RoundingRun run(rounding, work);
  const std::vector<Readers> all = run.all_readers();
  progress.start("rounding", std::ssize(all));
  for (size_t i = 0; i < all.size(); ++i) {
    if (interrupted()) {
      return interrupted_error(fmt::format(
          "the weights rounded so far are kept in {}; run the same command again to go on",
          work.parent_path().string()));
    }
    NMM_TRY(run.round(all[i]));
    progress.update(static_cast<int64_t>(i) + 1, all[i].tensors.front());
  }
  progress.finish();
  return {};
}

}  // namespace neuronmm::compress
