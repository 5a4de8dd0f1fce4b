#include "compress/layerwise_pass.h"

#include <algorithm>
#include <system_error>

#include "io/safetensors.h"
#include "io/safetensors_writer.h"
#include "model/transformer.h"

namespace neuronmm::compress {
namespace {

namespace fs = std::filesystem;

std::string hidden_name(size_t stream) { return fmt::format("hidden_{}", stream); }
std::string sum_name(size_t which) { return fmt::format("sum_{}", which); }

template <typename Owner>
std::span<const std::byte> bytes_of(const Owner& matrix, int64_t size) {
  return std::as_bytes(std::span(matrix.data(), static_cast<size_t>(size)));
}

// A tensor of the saved state, if it is exactly what this run would have saved.
bool has(const io::SafetensorsFile& file, const std::string& name, DType dtype,
         const Shape& shape) {
  const auto found = file.tensors().find(name);
  return found != file.tensors().end() && found->second.dtype == dtype &&
         found->second.shape == shape;
}

}  // namespace

Result<LayerwisePass> LayerwisePass::open(const io::Checkpoint& checkpoint,
                                          const io::ModelConfig& config,
                                          const CalibrationSequences& text, const fs::path& work,
                                          const Settings& settings, Progress& progress) {
  LayerwisePass pass;
  pass.work_ = work;
  pass.settings_ = settings;
  pass.text_ = &text;
  pass.progress_ = &progress;
  pass.num_layers_ = config.num_hidden_layers;
  pass.hidden_size_ = config.hidden_size;
  if (settings.sums.empty()) {
    pass.settings_.sums.assign(2, {config.hidden_size, config.hidden_size});
  }
  pass.first_row_ = {0};
  for (const auto& sequence : text.sequences) {
    pass.first_row_.push_back(pass.first_row_.back() + static_cast<int64_t>(sequence.size()));
  }
  // The hidden states of all of the text stay in memory, in every stream, so that each layer's
  // weights are read once.
  for (int64_t i = 0; i < settings.streams; ++i) {
    pass.hidden_.emplace_back(pass.first_row_.back(), config.hidden_size);
  }
  pass.clear_sums();
  if (!pass.load()) {
    NMM_ASSIGN(const TensorView table,
               checkpoint.require(model::tensor_prefix(checkpoint) + "embed_tokens.weight",
                                  {config.vocab_size, config.hidden_size}));
    for (int64_t stream = 0; stream < settings.streams; ++stream) {
      for (size_t s = 0; s < text.sequences.size(); ++s) {
        model::embed(table, text.sequences[s], pass.hidden(stream, s));
      }
    }
  }
  progress.start(settings.label,
                 pass.num_layers_ * settings.stages * static_cast<int64_t>(text.sequences.size()));
  return pass;
}

fs::path LayerwisePass::state_path(const fs::path& work, const std::string& name) {
  return work / (name + ".safetensors");
}

MutableMatrixView LayerwisePass::hidden(int64_t stream, size_t sequence) {
  const int64_t first = first_row_.at(sequence);
  return hidden_.at(static_cast<size_t>(stream))
      .view()
      .row_range(first, first_row_.at(sequence + 1) - first);
}

// A layer has several stages where a matrix must be compressed before the next one's input is
// known. Sums are of one stage.
void LayerwisePass::next_stage() {
  ++stage_;
  sequence_ = 0;
  clear_sums();
  report();
}

// A layer is the unit that an interruption costs at most: its state is saved here, and between two
// sequences when interrupted.
Status LayerwisePass::next_layer() {
  ++layer_;
  stage_ = 0;
  sequence_ = 0;
  clear_sums();
  report();
  if (!done()) return save();
  progress_->finish();
  std::error_code ignored;
  fs::remove(state_path(work_, settings_.name), ignored);
  return {};
}

// The state is written before the message says that it is kept.
Status LayerwisePass::stop() const {
  NMM_TRY(save());
  return interrupted_error(fmt::format(
      "calibration has done {} of {} layers, which are kept in {}; run the same command "
      "again to go on",
      layer_, num_layers_, work_.parent_path().string()));
}

void LayerwisePass::report() {
  const auto sequences = static_cast<int64_t>(text_->sequences.size());
  progress_->update(
      (layer_ * settings_.stages + stage_) * sequences + static_cast<int64_t>(sequence_),
      fmt::format("layer {}", std::min(layer_, num_layers_ - 1)));
}

void LayerwisePass::clear_sums() {
  sums_.clear();
  for (const Shape& shape : settings_.sums) sums_.emplace_back(shape.at(0), shape.at(1));
}

// fp64 sums and fp32 states as they are, so that going on from them gives the same bits.
Status LayerwisePass::save() const {
  std::vector<io::TensorSpec> specs;
  const Shape hidden = {first_row_.back(), hidden_size_};
  for (size_t i = 0; i < sums_.size(); ++i) {
    specs.push_back({sum_name(i), DType::kF64, settings_.sums[i]});
  }
  for (size_t i = 0; i < hidden_.size(); ++i) {
    specs.push_back({hidden_name(i), DType::kF32, hidden});
  }
  NMM_ASSIGN(auto writer,
             io::SafetensorsWriter::create_checked(state_path(work_, settings_.name), specs,
                                                   {{"layer", std::to_string(layer_)},
                                                    {"stage", std::to_string(stage_)},
                                                    {"sequence", std::to_string(sequence_)}}));
  for (const DoubleMatrix& sum : sums_) NMM_TRY(writer.append(bytes_of(sum, sum.size())));
  for (const Matrix& rows : hidden_) {
    NMM_TRY(writer.append(bytes_of(rows, rows.rows() * rows.columns())));
  }
  return writer.finish();
}

// Whether the state was loaded. False means that there is none, or none of this run: shapes and
// positions must fit. That the run's settings are the same was compared before.
bool LayerwisePass::load() {
  const fs::path path = state_path(work_, settings_.name);
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return false;
  const auto file = io::SafetensorsFile::open_checked(path);
  if (!file.ok()) return false;
  const auto number = [&](const char* key) {
    const auto found = file->metadata().find(key);
    return found == file->metadata().end() ? -1 : std::atoll(found->second.c_str());
  };
  const int64_t layer = number("layer"), stage = number("stage"), sequence = number("sequence");
  bool ours = layer >= 0 && layer < num_layers_ && stage >= 0 && stage < settings_.stages &&
              sequence >= 0 && sequence <= static_cast<int64_t>(text_->sequences.size());
  const int64_t hidden_values = first_row_.back() * hidden_size_;
  for (size_t i = 0; i < sums_.size(); ++i) {
    ours = ours && has(*file, sum_name(i), DType::kF64, settings_.sums[i]);
  }
  for (size_t i = 0; i < hidden_.size(); ++i) {
    ours = ours && has(*file, hidden_name(i), DType::kF32, {first_row_.back(), hidden_size_});
  }
  if (!ours) return false;
  for (size_t i = 0; i < sums_.size(); ++i) {
    to_doubles(file->tensors().at(sum_name(i)), 0, sums_[i].size(), sums_[i].data());
  }
  for (size_t i = 0; i < hidden_.size(); ++i) {
    to_floats(file->tensors().at(hidden_name(i)), 0, hidden_values, hidden_[i].data());
  }
  layer_ = layer;
  stage_ = stage;
  sequence_ = static_cast<size_t>(sequence);
  return true;
}

}  // namespace neuronmm::compress
