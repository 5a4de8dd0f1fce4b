#include "compress/statistics/layerwise_pass.h"

#include <algorithm>
#include <cstdlib>
#include <system_error>

#include "base/freed_memory.h"
#include "compress/statistics/data_parallel.h"
#include "compress/statistics/matrix_tensor.h"
#include "io/safetensors.h"
#include "io/safetensors_writer.h"
#include "model/rope.h"
#include "model/transformer.h"

namespace neuronmm::compress {
namespace {

namespace fs = std::filesystem;

constexpr const char* kHiddenName = "hidden";
std::string sum_name(size_t which) { return fmt::format("sum_{}", which); }
std::string group_sum_name(size_t which) { return fmt::format("group_sum_{}", which); }

// Returns whether the saved state has hidden states of exactly the type and shape that this run
// would have saved.
bool has_hidden(const io::SafetensorsFile& file, const Shape& shape) {
  const auto found = file.tensors().find(kHiddenName);
  return found != file.tensors().end() && found->second.dtype == DType::kF32 &&
         found->second.shape == shape;
}

}  // namespace

Result<LayerwisePass> LayerwisePass::open(const CompressionInputs& inputs, const fs::path& work,
                                          const Settings& settings) {
  keep_freed_memory();
  const io::ModelConfig& config = inputs.config;
  LayerwisePass pass(inputs);
  pass.work_ = work;
  pass.settings_ = settings;
  pass.held_ = std::make_unique<Held>();
  pass.held_->rotary = model::RotaryTables(config);
  pass.held_->cache = inputs.backend.make_kv_cache(
      {1, config.num_key_value_heads, config.head_dim, inputs.text->longest()});
  pass.num_layers_ = config.num_hidden_layers;
  pass.hidden_size_ = config.hidden_size;
  if (settings.sums.empty()) {
    pass.settings_.sums.assign(2, {config.hidden_size, config.hidden_size});
  }
  pass.groups_ = sequence_groups(pass.sequences());
  pass.first_row_ = {0};
  for (const auto& sequence : pass.sequences()) {
    pass.first_row_.push_back(pass.first_row_.back() + std::ssize(sequence));
  }
  // The hidden states of the whole text stay in memory, so that the weights of each layer are read
  // only once.
  pass.hidden_ = Matrix(pass.first_row_.back(), config.hidden_size);
  if (!pass.load()) NMM_TRY(pass.embed());
  pass.start_progress();
  return pass;
}

// Starts the progress at the saved position, and says what was found.
void LayerwisePass::start_progress() const {
  const auto each = std::ssize(sequences());
  const int64_t done = layer_ * each + static_cast<int64_t>(sequence_);
  if (done > 0) {
    inputs_.progress.print(settings_.label + ": " +
                           found_text(layer_, num_layers_, "layer", "layers"));
  }
  inputs_.progress.start(settings_.label, num_layers_ * each, done);
}

Status LayerwisePass::embed() {
  const io::Checkpoint& checkpoint = inputs_.checkpoint;
  NMM_ASSIGN(const TensorView table,
             checkpoint.require(model::tensor_prefix(checkpoint) + "embed_tokens.weight",
                                {inputs_.config.vocab_size, hidden_size_}));
  for (size_t s = 0; s < sequences().size(); ++s) {
    model::embed(table, sequences()[s], inputs_.config.embedding_scale, hidden(s));
  }
  embedded_ = true;
  return {};
}

fs::path LayerwisePass::state_path(const fs::path& work, const std::string& name) {
  return work / (name + ".safetensors");
}

MutableMatrixView LayerwisePass::hidden(size_t sequence) {
  const int64_t first = first_row_.at(sequence);
  return hidden_.view().row_range(first, first_row_.at(sequence + 1) - first);
}

// If a layer was interrupted between two sequences, this process finishes the layer alone.
Status LayerwisePass::visit(const LayerVisit& layer_visit) {
  const VisitContext context = {inputs_.checkpoint, inputs_.config, inputs_.backend, held_->rotary,
                                *held_->cache};
  const auto visit = make_visit(context, layer_visit);
  if (inputs_.helpers != nullptr && sequence_ == 0) return visit_with_helpers(layer_visit, visit);
  if (!visit.ok()) return visit.error();
  for (const SequenceGroup& group : groups_) {
    while (sequence_ < group.end) {
      if (interrupted()) return stop();
      if (group_sums_.empty()) group_sums_ = zero_sums();
      visit_next(**visit);
      if (sequence_ == group.end) close_group();
    }
  }
  return interrupted() ? stop() : Status();
}

Status LayerwisePass::visit_with_helpers(const LayerVisit& layer_visit,
                                         const Result<std::unique_ptr<SequenceVisit>>& visit) {
  DataParallel& helpers = *inputs_.helpers;
  if (!helpers_have_) {
    helpers.open_pass({&sequences(), embedded_ ? nullptr : &hidden_, settings_.sums});
    helpers_have_ = true;
  }
  NMM_TRY(helpers.begin_visit(layer_visit, visit.ok() ? Status() : Status(visit.error())));
  embedded_ = false;
  const auto processes = static_cast<size_t>(helpers.processes());
  for (size_t group = 0; group < groups_.size(); group += processes) {
    // Asked once, because a signal may come after the helpers know the answer.
    const bool stops = interrupted();
    helpers.begin_round(!stops);
    if (stops) return stopped();
    if (group_sums_.empty()) group_sums_ = zero_sums();
    for (sequence_ = groups_[group].first; sequence_ < groups_[group].end;) visit_next(**visit);
    close_group();
    helpers.add_sums(group, groups_.size(), sums_);
  }
  group_sums_.clear();
  sequence_ = sequences().size();
  report();
  return {};
}

void LayerwisePass::visit_next(SequenceVisit& visit) {
  visit.visit({hidden(sequence_), group_sums_});
  ++sequence_;
  report();
}

// Adds the sums of a complete group to the sums of the layer. The sums of the first group become
// the sums of the layer. After the last group the memory of the group's sums is freed.
void LayerwisePass::close_group() {
  if (sums_.empty()) {
    sums_ = std::move(group_sums_);
    group_sums_.clear();
    return;
  }
  for (size_t i = 0; i < sums_.size(); ++i) add(group_sums_[i], sums_[i]);
  if (sequence_ == sequences().size()) {
    group_sums_.clear();
  } else {
    for (DoubleMatrix& sum : group_sums_) std::fill_n(sum.data(), sum.size(), 0.0);
  }
}

// The state is saved after every layer, and when an interrupt comes between two sequences. A run
// that is killed therefore loses at most one layer.
Status LayerwisePass::next_layer() {
  // Without this call everything that was read counts as memory in use.
  inputs_.checkpoint.release_pages();
  ++layer_;
  sequence_ = 0;
  clear_sums();
  report();
  if (!done()) {
    if (helpers_have_) inputs_.helpers->collect_hidden(first_row_, hidden_);
    return save();
  }
  inputs_.progress.finish();
  std::error_code ignored;
  fs::remove(state_path(work_, settings_.name), ignored);
  return {};
}

// The state is written before the message claims that it is kept.
Status LayerwisePass::stop() const {
  NMM_TRY(save());
  return stopped();
}

Error LayerwisePass::stopped() const {
  return interrupted_error(
      fmt::format("calibration has done {} of {} layers", layer_, num_layers_));
}

void LayerwisePass::report() {
  inputs_.progress.update(layer_ * std::ssize(sequences()) + static_cast<int64_t>(sequence_),
                          fmt::format("layer {}", std::min(layer_, num_layers_ - 1)));
}

void LayerwisePass::clear_sums() {
  sums_.clear();
  group_sums_.clear();
}

std::vector<DoubleMatrix> LayerwisePass::zero_sums() const {
  std::vector<DoubleMatrix> sums;
  for (const Shape& shape : settings_.sums) sums.emplace_back(shape.at(0), shape.at(1));
  return sums;
}

// Writes the state. Sums stay fp64 and hidden states fp32, so that a run that continues gets the
// same bits.
Status LayerwisePass::save() const {
  std::vector<io::TensorSpec> specs;
  for (size_t i = 0; i < sums_.size(); ++i) {
    specs.push_back({sum_name(i), DType::kF64, settings_.sums[i]});
  }
  for (size_t i = 0; i < group_sums_.size(); ++i) {
    specs.push_back({group_sum_name(i), DType::kF64, settings_.sums[i]});
  }
  specs.push_back({kHiddenName, DType::kF32, {first_row_.back(), hidden_size_}});
  NMM_ASSIGN(auto writer, io::SafetensorsWriter::create_checked(
                              state_path(work_, settings_.name), specs,
                              {{"layer", std::to_string(layer_)},
                               {"sequence", std::to_string(sequence_)},
                               {"sums", std::to_string(sums_.size())},
                               {"group_sums", std::to_string(group_sums_.size())}}));
  for (const DoubleMatrix& sum : sums_) NMM_TRY(writer.append(bytes_of(sum)));
  for (const DoubleMatrix& sum : group_sums_) NMM_TRY(writer.append(bytes_of(sum)));
  const auto values = static_cast<size_t>(hidden_.rows() * hidden_.columns());
  NMM_TRY(writer.append(std::as_bytes(std::span(hidden_.data(), values))));
  return writer.finish();
}

// Loads the saved state and returns whether it did. Returns false if there is no state or if its
// shapes and positions do not fit this run. The caller has already compared the settings of the run
// that saved it.
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
  const int64_t layer = number("layer"), sequence = number("sequence");
  const int64_t count = std::ssize(settings_.sums);
  const auto all_or_none = [count](int64_t sums) { return sums == 0 || sums == count; };
  const bool ours = layer >= 0 && layer < num_layers_ && sequence >= 0 &&
                    sequence <= std::ssize(sequences()) && all_or_none(number("sums")) &&
                    all_or_none(number("group_sums")) &&
                    has_hidden(*file, {first_row_.back(), hidden_size_});
  if (!ours) return false;
  std::vector<DoubleMatrix> sums, group_sums;
  if (!load_sums(*file, sum_name, number("sums"), sums) ||
      !load_sums(*file, group_sum_name, number("group_sums"), group_sums)) {
    return false;
  }
  sums_ = std::move(sums);
  group_sums_ = std::move(group_sums);
  to_floats(file->tensors().at(kHiddenName), 0, first_row_.back() * hidden_size_, hidden_.data());
  layer_ = layer;
  sequence_ = static_cast<size_t>(sequence);
  return true;
}

// Loads `count` sums. Returns false if the file has other sums.
bool LayerwisePass::load_sums(const io::SafetensorsFile& file, std::string (*name)(size_t),
                              int64_t count, std::vector<DoubleMatrix>& sums) const {
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
    auto sum = read_matrix(file, name(i), settings_.sums[i], {});
    if (!sum.ok()) return false;
    sums.push_back(std::move(sum).value());
  }
  return true;
}

}  // namespace neuronmm::compress
