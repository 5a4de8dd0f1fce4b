#include "compress/reconstruction/reconstruction.h"

#include <algorithm>
#include <span>

#include <fmt/format.h>

#include "base/interrupt.h"
#include "base/task_labels.h"
#include "compress/output/tensor_writer.h"
#include "compress/reconstruction/hidden_states.h"
#include "compress/reconstruction/layer_learning.h"
#include "io/model_folder.h"
#include "io/safetensors.h"
#include "model/transformer.h"
#include "model/weight_reader.h"
#include "training/products.h"

namespace neuronmm::compress {
namespace {

namespace fs = std::filesystem;
using TokenSequences = std::vector<std::vector<text::TokenId>>;

// A sequence is cut into pieces of at most so many tokens, so that a step has one long piece or
// some short ones. Assumed: it is enough for attention to learn from, and costs little.
constexpr int64_t kPieceTokens = 512;
// Of pieces without a text to hold out, one in so many is held out. Assumed.
constexpr size_t kHeldOutShare = 8;
// Hidden states that take at most this share of the memory that is left stay in memory. Assumed.
constexpr int64_t kMemoryShare = 4;

// Returns sequences that are spread evenly over all of them, with at most `tokens` tokens. The last
// one may be cut.
TokenSequences chosen_sequences(const TokenSequences& all, int64_t tokens) {
  int64_t have = 0;
  for (const auto& sequence : all) have += std::ssize(sequence);
  if (tokens >= have) return all;
  const auto count = std::max<int64_t>(1, tokens * std::ssize(all) / have);
  TokenSequences chosen;
  int64_t left = tokens;
  for (int64_t i = 0; i < count && left > 0; ++i) {
    const auto& sequence = all[static_cast<size_t>(i * std::ssize(all) / count)];
    const int64_t length = std::min(left, std::ssize(sequence));
    chosen.emplace_back(sequence.begin(), sequence.begin() + length);
    left -= length;
  }
  return chosen;
}

// Cuts sequences into pieces of nearly equal length.
TokenSequences cut(const TokenSequences& sequences) {
  TokenSequences pieces;
  for (const auto& sequence : sequences) {
    const int64_t length = std::ssize(sequence), count = (length + kPieceTokens - 1) / kPieceTokens;
    for (int64_t i = 0; i < count; ++i) {
      pieces.emplace_back(sequence.begin() + length * i / count,
                          sequence.begin() + length * (i + 1) / count);
    }
  }
  return pieces;
}

// The sequences that layers learn from and those that judge them.
struct SplitText {
  TokenSequences trained, held_out;
};
SplitText split_text(const CalibrationSequences& text, int64_t tokens) {
  TokenSequences pieces = cut(chosen_sequences(text.sequences, tokens));
  if (text.has_held_out) return {std::move(pieces), cut(text.held_out)};
  if (pieces.size() == 1) return {pieces, pieces};  // there is no other text
  SplitText parts;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const bool held_out = i % kHeldOutShare == std::min(kHeldOutShare, pieces.size()) - 1;
    (held_out ? parts.held_out : parts.trained).push_back(std::move(pieces[i]));
  }
  return parts;
}

int64_t append_pieces(const TokenSequences& sequences, int64_t row, std::vector<Piece>& pieces) {
  for (const auto& sequence : sequences) {
    pieces.push_back({row, std::ssize(sequence)});
    row += std::ssize(sequence);
  }
  return row;
}

class Reconstruction {
 public:
  Reconstruction(const CompressionInputs& inputs, const io::ModelFolder& compressed,
                 const Originals& originals, const ReconstructionPlan& plan, const fs::path& work)
      : inputs_(inputs),
        dense_(inputs.checkpoint, inputs.config),
        compressed_(compressed.checkpoint, compressed.config, originals),
        work_(work),
        passes_(plan.passes),
        text_(split_text(*inputs.text, plan.tokens)) {
    const int64_t trained = append_pieces(text_.trained, 0, pieces_);
    tokens_ = append_pieces(text_.held_out, trained, pieces_);
    summary_.tokens = trained;
    summary_.held_out_tokens = tokens_ - trained;
    summary_.passes = passes_;
  }

  Result<ReconstructionSummary> run(const ReconstructionPlan& plan) {
    const int64_t layers = inputs_.config.num_hidden_layers;
    const int64_t bytes = 2 * tokens_ * inputs_.config.hidden_size * int64_t{sizeof(float)};
    const bool in_memory = bytes <= TrainingMachine::this_one().memory_left / kMemoryShare;
    inputs_.progress.print(fmt::format(
        "reconstruction: {} layers learn from {} tokens, each at most {} times ({}); memory for a "
        "layer is about {} MB, and hidden states take {} MB {}",
        layers, summary_.tokens, passes_, plan.reason, layer_memory(inputs_.config) / 1'000'000,
        bytes / 1'000'000, in_memory ? "of it" : "in files"));
    const auto file = [&](const char* name) { return in_memory ? fs::path() : work_ / name; };
    NMM_ASSIGN(auto targets, embedded(dense_, file("targets.states")));
    NMM_ASSIGN(auto states, embedded(compressed_, file("inputs.states")));
    const int64_t per_layer = passes_ * steps_per_pass(trained());
    inputs_.progress.start(task::kReconstructing, layers * per_layer);
    for (int64_t layer = 0; layer < layers; ++layer) {
      NMM_TRY(reconstruct(layer, per_layer, states, targets));
      inputs_.progress.update((layer + 1) * per_layer);
    }
    inputs_.progress.finish();
    return std::move(summary_);
  }

 private:
  std::span<const Piece> trained() const { return std::span(pieces_).first(text_.trained.size()); }

  // Returns the embeddings of all tokens. The table of a rounded model may be rounded, too.
  Result<HiddenStates> embedded(const LayerReader& reader, const fs::path& file) const {
    const io::ModelConfig& config = reader.config();
    NMM_ASSIGN(auto states, HiddenStates::create(tokens_, config.hidden_size, file));
    NMM_ASSIGN(const auto table, model::require_weight(reader.checkpoint(), config,
                                                       model::tensor_prefix(reader.checkpoint()) +
                                                           "embed_tokens.weight",
                                                       {config.vocab_size, config.hidden_size}));
    size_t piece = 0;
    for (const TokenSequences* const sequences : {&text_.trained, &text_.held_out}) {
      for (const auto& sequence : *sequences) {
        const training::Rows<float> rows(std::ssize(sequence), config.hidden_size);
        model::embed(table, sequence, config.embedding_scale, rows.view());
        NMM_TRY(states.write(pieces_[piece++].first, rows.view()));
      }
    }
    reader.checkpoint().release_pages();
    return states;
  }

  // Moves a stream behind the layer.
  Status advance(TrainingLayer& layer, HiddenStates& states) const {
    return for_each_group(pieces_, [&](std::span<const Piece> group) -> Status {
      NMM_ASSIGN(const auto rows, rows_of(states, group));
      const auto y = training::run_layer<float>(layer, precision_, rows.view(), lengths_of(group));
      int64_t row = 0;
      for (const Piece& piece : group) {
        const MatrixView<const float> all = y.view();
        NMM_TRY(states.write(piece.first, all.row_range(row, piece.length)));
        row += piece.length;
      }
      return {};
    });
  }

  Status reconstruct(int64_t index, int64_t steps, HiddenStates& states, HiddenStates& targets) {
    NMM_TRY(stop_if_interrupted());
    {
      NMM_ASSIGN(const auto dense, dense_.read(index));
      NMM_TRY(with_place(advance(*dense, targets)));
    }
    NMM_ASSIGN(auto layer, compressed_.read(index));
    const fs::path path = reconstructed_path(work_, index);
    auto outcome = read_reconstructed(path, compressed_, *layer);
    if (!outcome) {
      NMM_ASSIGN(outcome, learn(index, steps, layer, states, targets));
      NMM_TRY(write_reconstructed(path, compressed_, *layer, *outcome));
    }
    summary_.layers.push_back(*outcome);
    if (outcome->skipped > 0) {
      inputs_.progress.print(
          fmt::format("layer {}: {} steps were left out, because their gradients were not finite",
                      index, outcome->skipped));
    }
    return with_place(advance(*layer, states));
  }

  Result<LayerOutcome> learn(int64_t index, int64_t steps, std::unique_ptr<TrainingLayer>& layer,
                             const HiddenStates& states, const HiddenStates& targets) {
    int64_t done = index * steps;
    auto learned = learn_layer(
        *layer, {states, targets, trained(), std::span(pieces_).subspan(text_.trained.size())},
        {precision_, passes_, inputs_.config.hidden_size}, compressed_, [&](double error) {
          inputs_.progress.update(++done, fmt::format("layer {}: error {:.3e}", index, error));
        });
    if (!learned.ok()) return with_place(learned.error()).error();
    if (!learned->changed) {
      NMM_ASSIGN(layer, compressed_.read(index));
    }
    return learned->outcome;
  }

  Status stop_if_interrupted() const {
    return interrupted() ? Status(interrupted_error(done_text())) : Status();
  }
  // Says in the error of an interrupt how far the run has come.
  Status with_place(Status status) const {
    if (status.ok() || status.error().kind != Error::Kind::kInterrupted) return status;
    return interrupted_error(done_text());
  }
  std::string done_text() const {
    return fmt::format("{} of {} layers are reconstructed", summary_.layers.size(),
                       inputs_.config.num_hidden_layers);
  }

  const CompressionInputs& inputs_;
  LayerReader dense_, compressed_;
  const fs::path& work_;
  const int64_t passes_;
  const SplitText text_;
  const training::Precision precision_ = training::fastest_precision();
  std::vector<Piece> pieces_;  // of the text to learn from, then of the held-out text
  int64_t tokens_ = 0;
  ReconstructionSummary summary_;
};

double mean(const std::vector<LayerOutcome>& layers, double LayerOutcome::*error) {
  double sum = 0.0;
  int64_t count = 0;
  for (const LayerOutcome& layer : layers) {
    if (!(layer.before > 0.0)) continue;
    sum += layer.*error;
    ++count;
  }
  return count == 0 ? 0.0 : sum / static_cast<double>(count);
}

}  // namespace

int64_t ReconstructionSummary::skipped() const {
  int64_t steps = 0;
  for (const LayerOutcome& layer : layers) steps += layer.skipped;
  return steps;
}

double ReconstructionSummary::seconds() const {
  double sum = 0.0;
  for (const LayerOutcome& layer : layers) sum += layer.seconds;
  return sum;
}

double ReconstructionSummary::mean_before() const { return mean(layers, &LayerOutcome::before); }
double ReconstructionSummary::mean_after() const { return mean(layers, &LayerOutcome::after); }

std::string reconstruction_text(const ReconstructionSummary& summary) {
  return fmt::format("on {} tokens: mean error of a layer {:.4f}, was {:.4f}", summary.tokens,
                     summary.mean_after(), summary.mean_before());
}

Result<std::optional<ReconstructionPlan>> planned_reconstruction(const Reconstruct& asked,
                                                                 const CompressionInputs& inputs) {
  std::optional<ReconstructionPlan> plan;
  if (asked.mode == Reconstruct::Mode::kOff) return plan;
  const TrainingMachine machine = TrainingMachine::this_one();
  NMM_TRY(check_reconstruct(asked, inputs.config, machine));
  plan = plan_reconstruction(asked, inputs.text, inputs.config, machine);
  if (plan->tokens > 0) return plan;
  inputs.progress.print(fmt::format("reconstruction: off, because {}", plan->reason));
  return std::optional<ReconstructionPlan>();
}

Result<ReconstructionSummary> reconstruct(const CompressionInputs& inputs,
                                          const fs::path& compressed,
                                          const ReconstructionPlan& plan, const fs::path& work,
                                          const Originals& originals) {
  NMM_ASSIGN(const io::ModelFolder opened, io::open_model(compressed));
  NMM_CHECK(opened.config.num_hidden_layers == inputs.config.num_hidden_layers &&
            opened.config.hidden_size == inputs.config.hidden_size);
  auto summary = Reconstruction(inputs, opened, originals, plan, work).run(plan);
  training::drop_pooled_memory();
  return summary;
}

Status write_reconstructed_model(const fs::path& compressed, const fs::path& work,
                                 const fs::path& folder, Progress& progress) {
  NMM_ASSIGN(const io::ModelFolder opened, io::open_model(compressed));
  std::map<std::string, fs::path> files;
  for (int64_t layer = 0; layer < opened.config.num_hidden_layers; ++layer) {
    const fs::path path = reconstructed_path(work, layer);
    NMM_ASSIGN(const auto file, io::SafetensorsFile::open_checked(path));
    for (const auto& [name, tensor] : file.tensors()) files[name] = path;
  }
  std::vector<TensorSource> sources;
  for (const auto& [name, tensor] : opened.checkpoint.tensors()) {
    const auto found = files.find(name);
    const auto visit = [&checkpoint = opened.checkpoint, name = name, view = tensor,
                        path = found == files.end() ? fs::path() : found->second](
                           const TensorSource::Use& use) -> Status {
      if (!path.empty()) {
        NMM_ASSIGN(const auto file, io::SafetensorsFile::open(path));
        return use(file.tensors().at(name));
      }
      Status used = use(view);
      checkpoint.release_pages();
      return used;
    };
    sources.push_back({{name, written_dtype(tensor.dtype), tensor.shape}, {}, visit});
  }
  return write_tensors(sources, opened.config.architecture, folder, progress);
}

}  // namespace neuronmm::compress
