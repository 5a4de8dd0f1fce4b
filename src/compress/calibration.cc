#include "compress/calibration.h"

#include <algorithm>
#include <optional>

#include "base/interrupt.h"
#include "io/safetensors.h"
#include "model/transformer.h"

namespace neuronmm::compress {
namespace {

namespace fs = std::filesystem;

// Below ten tokens per dimension the held-out loss is more than 4 % above the optimum
// (synthetic activations, rank 64 of 160; real tokens, being correlated, need more).
constexpr int64_t kEnoughTokensPerDimension = 10;

constexpr const char* kStateName = "calibration.safetensors";

// FNV-1a, 64 bits: names a text in metadata.
uint64_t text_hash(std::string_view text) {
  uint64_t hash = 0xCBF29CE484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  return hash;
}

// Between two sequences of one layer: rows of sequences before `sequence` have passed `layer`
// already, the others have not.
struct State {
  int64_t layer = 0, sequence = 0;
  Matrix hidden;  // [all tokens, H]
  GramAccumulator in, out;
};

class GramObserver : public model::MlpObserver {
 public:
  explicit GramObserver(State& state) : state_(state) {}
  void on_mlp(int64_t, ConstMatrixView input, ConstMatrixView output) override {
    state_.in.add(input);
    state_.out.add(output);
  }

 private:
  State& state_;
};

template <typename Owner>
std::span<const std::byte> bytes_of(const Owner& matrix, int64_t size) {
  return std::as_bytes(std::span(matrix.data(), static_cast<size_t>(size)));
}

Status save_state(const State& state, const fs::path& path) {
  const Shape hidden = {state.hidden.rows(), state.hidden.columns()};
  const Shape gram = {state.hidden.columns(), state.hidden.columns()};
  NMM_ASSIGN(auto writer,
             io::SafetensorsWriter::create(path,
                                           {{"gram_in", DType::kF64, gram},
                                            {"gram_out", DType::kF64, gram},
                                            {"hidden", DType::kF32, hidden}},
                                           {{"layer", std::to_string(state.layer)},
                                            {"sequence", std::to_string(state.sequence)}}));
  const DoubleMatrix &in = state.in.lower_triangle(), &out = state.out.lower_triangle();
  NMM_TRY(writer.append(bytes_of(in, in.size())));
  NMM_TRY(writer.append(bytes_of(out, out.size())));
  NMM_TRY(writer.append(bytes_of(state.hidden, state.hidden.rows() * state.hidden.columns())));
  return writer.finish();
}

// nullopt: there is none, or it is not ours. The settings of the run were compared before.
std::optional<State> load_state(const fs::path& path, int64_t tokens, int64_t hidden_size) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return std::nullopt;
  const auto file = io::SafetensorsFile::open(path);
  if (!file.ok()) return std::nullopt;
  const auto has = [&](const std::string& name, DType dtype, const Shape& shape) {
    const auto found = file->tensors().find(name);
    return found != file->tensors().end() && found->second.dtype == dtype &&
           found->second.shape == shape;
  };
  const Shape gram = {hidden_size, hidden_size};
  if (!has("hidden", DType::kF32, {tokens, hidden_size}) || !has("gram_in", DType::kF64, gram) ||
      !has("gram_out", DType::kF64, gram) || !file->metadata().contains("layer") ||
      !file->metadata().contains("sequence")) {
    return std::nullopt;
  }
  State state{std::atoll(file->metadata().at("layer").c_str()),
              std::atoll(file->metadata().at("sequence").c_str()), Matrix(tokens, hidden_size),
              GramAccumulator(hidden_size), GramAccumulator(hidden_size)};
  to_floats(file->tensors().at("hidden"), 0, tokens * hidden_size, state.hidden.data());
  const int64_t size = hidden_size * hidden_size;
  to_doubles(file->tensors().at("gram_in"), 0, size, state.in.lower_triangle().data());
  to_doubles(file->tensors().at("gram_out"), 0, size, state.out.lower_triangle().data());
  return state;
}

bool all_done(const io::ModelConfig& config, const fs::path& work) {
  std::error_code ignored;
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    if (!fs::exists(layer_gram_path(work, layer), ignored)) return false;
  }
  return !fs::exists(work / kStateName, ignored);
}

class Calibration {
 public:
  Calibration(const io::Checkpoint& checkpoint, const io::ModelConfig& config,
              const ops::Backend& backend, const CalibrationSequences& text, const fs::path& work,
              Progress& progress)
      : checkpoint_(checkpoint),
        config_(config),
        backend_(backend),
        text_(text),
        work_(work),
        progress_(progress) {}

  Status run() {
    const int64_t layers = config_.num_hidden_layers;
    NMM_TRY(start());
    progress_.start("calibrating", layers * sequences());
    cache_ =
        backend_.make_kv_cache({1, config_.num_key_value_heads, config_.head_dim, text_.length()});
    while (state_->layer < layers) NMM_TRY(run_layer());
    progress_.finish();
    std::error_code ignored;
    fs::remove(state_path(), ignored);
    return {};
  }

 private:
  Status start() {
    const int64_t tokens = sequences() * text_.length(), hidden = config_.hidden_size;
    state_ = load_state(state_path(), tokens, hidden);
    if (state_) return {};
    state_ = State{0, 0, Matrix(tokens, hidden), GramAccumulator(hidden), GramAccumulator(hidden)};
    NMM_ASSIGN(const TensorView table,
               checkpoint_.require(model::tensor_prefix(checkpoint_) + "embed_tokens.weight",
                                   {config_.vocab_size, hidden}));
    for (int64_t s = 0; s < sequences(); ++s) {
      model::embed(table, text_.sequences[static_cast<size_t>(s)], rows_of(s));
    }
    return {};
  }

  Status run_layer() {
    State& state = *state_;
    NMM_ASSIGN(const auto weights, model::layer_weights(checkpoint_, config_, state.layer));
    // Index 0: the cache holds this one layer.
    const model::DecoderLayer layer(config_, 0, weights, backend_);
    GramObserver observer(state);
    while (state.sequence < sequences()) {
      if (interrupted()) return stop();
      const ops::SequenceRows sequence = {cache_.get(), text_.length()};
      layer.forward(rows_of(state.sequence), inverse_frequencies_, std::span(&sequence, 1),
                    &observer);
      ++state.sequence;
      progress_.update(state.layer * sequences() + state.sequence,
                       fmt::format("layer {}", state.layer));
    }
    return finish_layer();
  }

  Status finish_layer() {
    State& state = *state_;
    LayerGrams grams{state.in.symmetric(), state.out.symmetric()};
    if (!grams.in.all_finite() || !grams.out.all_finite()) {
      return fail("{}: the MLP of layer {} makes NaN or infinity of the calibration text",
                  checkpoint_.folder().string(), state.layer);
    }
    NMM_TRY(write_gram_file(layer_gram_path(work_, state.layer), config_, text_.origin, state.layer,
                            1, [&](int64_t) { return Result<LayerGrams>(std::move(grams)); }));
    ++state.layer;
    state.sequence = 0;
    state.in = state.out = GramAccumulator(config_.hidden_size);
    if (state.layer == config_.num_hidden_layers) return {};
    return save_state(state, state_path());
  }

  Error stop() {
    const Status saved = save_state(*state_, state_path());
    if (!saved.ok()) return saved.error();
    return interrupted_error(
        fmt::format("calibration has done {} of {} layers, which are kept in {}; run the same "
                    "command again to go on",
                    state_->layer, config_.num_hidden_layers, work_.parent_path().string()));
  }

  int64_t sequences() const { return static_cast<int64_t>(text_.sequences.size()); }
  MutableMatrixView rows_of(int64_t sequence) {
    return state_->hidden.view().row_range(sequence * text_.length(), text_.length());
  }
  fs::path state_path() const { return work_ / kStateName; }

  const io::Checkpoint& checkpoint_;
  const io::ModelConfig& config_;
  const ops::Backend& backend_;
  const CalibrationSequences& text_;
  const fs::path& work_;
  Progress& progress_;
  const std::vector<float> inverse_frequencies_ = model::rope_inverse_frequencies(config_);
  std::unique_ptr<ops::KvCache> cache_;
  std::optional<State> state_;
};

}  // namespace

Result<CalibrationSequences> calibration_sequences(const text::Tokenizer& tokenizer,
                                                   std::string_view text,
                                                   const std::string& text_name, int64_t max_tokens,
                                                   const io::ModelConfig& config) {
  const std::vector<text::TokenId> tokens = tokenizer.encode(text);
  const Status ids = model::check_token_ids(tokens, config);
  if (!ids.ok()) return fail("{}: {}", text_name, ids.error().message);
  const auto found = static_cast<int64_t>(tokens.size());
  const int64_t usable = std::min(found, max_tokens);
  const int64_t longest = std::min(kSequenceTokens, config.max_position_embeddings);
  const int64_t count = std::max<int64_t>(1, (usable + longest - 1) / longest);
  const int64_t length = usable / count, used = count * length;
  const int64_t enough = kEnoughTokensPerDimension * config.hidden_size;
  if (used < config.hidden_size) {
    return fail(
        "{}: expected at least {} calibration tokens (the model's hidden_size; {} are enough), "
        "found {} tokens and used {}",
        text_name, config.hidden_size, enough, found, used);
  }
  CalibrationSequences result;
  const int64_t available = found / length;
  for (int64_t i = 0; i < count; ++i) {
    const auto first = tokens.begin() + (i * available / count) * length;
    result.sequences.emplace_back(first, first + length);
  }
  result.origin = {used, fmt::format("{} fnv1a:{:016x}", text_name, text_hash(text))};
  result.few = used < enough;
  return result;
}

fs::path layer_gram_path(const fs::path& work, int64_t layer) {
  return work / fmt::format("gram-{:05}.safetensors", layer);
}

Status calibrate(const io::Checkpoint& checkpoint, const io::ModelConfig& config,
                 const ops::Backend& backend, const CalibrationSequences& text,
                 const fs::path& work, Progress& progress) {
  if (all_done(config, work)) return {};
  return Calibration(checkpoint, config, backend, text, work, progress).run();
}

}  // namespace neuronmm::compress
