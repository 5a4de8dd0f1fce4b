#include "compress/statistics/output_metric.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "base/parallel.h"
#include "base/task_labels.h"
#include "compress/linear_algebra/gram.h"
#include "compress/linear_algebra/linear_algebra.h"
#include "compress/statistics/data_parallel.h"
#include "compress/statistics/matrix_tensor.h"
#include "compress/statistics/sequence_groups.h"
#include "io/checksum.h"
#include "io/safetensors.h"
#include "io/safetensors_writer.h"
#include "parallel/agreement.h"
#include "training/output_gradients.h"

namespace neuronmm::compress {
namespace {

namespace fs = std::filesystem;
using Sequences = std::vector<std::vector<text::TokenId>>;

// The number of sequences, and the tokens of each, for the output metric. Measured: 16,384 tokens
// gain nothing (docs/measurements/quality.md, "More calibration text").
constexpr size_t kMetricSequences = 6;
constexpr size_t kMetricTokens = 1024;

// The sums of one layer over some tokens: "out" [H, H], of which the lower triangle counts, "gate"
// and "up" [1, I].
using LayerSums = std::vector<DoubleMatrix>;
constexpr const char* kSumNames[] = {"out", "gate", "up"};

LayerSums zero_sums(const io::ModelConfig& config) {
  LayerSums sums;
  sums.emplace_back(config.hidden_size, config.hidden_size);
  sums.emplace_back(1, config.intermediate_size);
  sums.emplace_back(1, config.intermediate_size);
  return sums;
}

// Computes sums[j] += Σ x[i][j]² over the rows.
void add_squares(ConstMatrixView rows, DoubleMatrix& sums) {
  NMM_CHECK(rows.columns == sums.columns());
  parallel_ranges(rows.columns, [&](int64_t first, int64_t last) {
    for (int64_t i = 0; i < rows.rows; ++i) {
      const float* const row = rows.row(i);
      for (int64_t j = first; j < last; ++j) {
        sums.data()[j] += static_cast<double>(row[j]) * static_cast<double>(row[j]);
      }
    }
  });
}

// Returns a text that only the same sequences, seed and products have.
std::string identity(const MetricRequest& request, training::Precision precision) {
  std::string tokens = fmt::format("{} {}", request.seed, static_cast<int>(precision));
  for (const auto& sequence : request.sequences) {
    tokens += '\n';
    for (const text::TokenId token : sequence) tokens += fmt::format(" {}", token);
  }
  return io::checksum(tokens);
}

// The sums of every layer over the groups that are done, in files of the work folder.
class SavedSums {
 public:
  SavedSums(const io::ModelConfig& config, fs::path work, std::string of)
      : config_(config), work_(std::move(work)), of_(std::move(of)) {
    for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
      groups_.push_back(found_groups(layer));
    }
  }

  // Returns the number of groups that a layer's sums have, or that of the layer with the fewest.
  size_t groups(int64_t layer) const { return groups_[static_cast<size_t>(layer)]; }
  size_t whole_groups() const { return *std::ranges::min_element(groups_); }

  // Returns the sums of a layer, which are 0 without groups.
  Result<LayerSums> read(int64_t layer) const {
    if (groups(layer) == 0) return zero_sums(config_);
    return stored(layer);
  }

  // Replaces the sums of a layer by those over so many groups.
  Status write(int64_t layer, const LayerSums& sums, size_t groups) {
    std::vector<io::TensorSpec> specs;
    for (size_t i = 0; i < sums.size(); ++i) {
      specs.push_back({kSumNames[i], DType::kF64, {sums[i].rows(), sums[i].columns()}});
    }
    NMM_ASSIGN(auto writer,
               io::SafetensorsWriter::create_checked(
                   path(layer), specs, {{"of", of_}, {"groups", std::to_string(groups)}}));
    for (const DoubleMatrix& sum : sums) NMM_TRY(writer.append(bytes_of(sum)));
    NMM_TRY(writer.finish());
    groups_[static_cast<size_t>(layer)] = groups;
    return {};
  }

  void remove() const {
    std::error_code ignored;
    for (int64_t layer = 0; layer < std::ssize(groups_); ++layer) fs::remove(path(layer), ignored);
  }

 private:
  fs::path path(int64_t layer) const {
    return work_ / fmt::format("metric-{:05}.safetensors", layer);
  }

  // Returns 0 if there is no file, or one that is damaged or of other sequences.
  size_t found_groups(int64_t layer) const {
    const auto file = io::SafetensorsFile::open_checked(path(layer));
    if (!file.ok() || !stored(layer).ok()) return 0;
    const auto of = file->metadata().find("of"), groups = file->metadata().find("groups");
    if (of == file->metadata().end() || of->second != of_) return 0;
    if (groups == file->metadata().end()) return 0;
    return static_cast<size_t>(std::max(0LL, std::atoll(groups->second.c_str())));
  }

  Result<LayerSums> stored(int64_t layer) const {
    NMM_ASSIGN(const auto file, io::SafetensorsFile::open(path(layer)));
    LayerSums sums = zero_sums(config_);
    for (size_t i = 0; i < sums.size(); ++i) {
      NMM_ASSIGN(sums[i], read_matrix(file, kSumNames[i], {sums[i].rows(), sums[i].columns()},
                                      path(layer).string()));
    }
    return sums;
  }

  const io::ModelConfig& config_;
  fs::path work_;
  std::string of_;
  std::vector<size_t> groups_;  // of every layer
};

// Writes the means of the sums.
Status write_means_of(const SavedSums& saved, const io::ModelConfig& config, int64_t tokens,
                      const fs::path& path, const std::string& source) {
  std::vector<io::TensorSpec> specs;
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    const std::string prefix = fmt::format("model.layers.{}.mlp.metric_", layer);
    specs.push_back({prefix + "out", DType::kF64, {config.hidden_size, config.hidden_size}});
    specs.push_back({prefix + "gate", DType::kF64, {config.intermediate_size}});
    specs.push_back({prefix + "up", DType::kF64, {config.intermediate_size}});
  }
  NMM_ASSIGN(auto writer, io::SafetensorsWriter::create_checked(
                              path, specs,
                              {{"hidden_size", std::to_string(config.hidden_size)},
                               {"intermediate_size", std::to_string(config.intermediate_size)},
                               {"num_hidden_layers", std::to_string(config.num_hidden_layers)},
                               {"tokens", std::to_string(tokens)}}));
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    NMM_ASSIGN(LayerSums sums, saved.read(layer));
    mirror_lower_triangle(sums[0]);
    for (DoubleMatrix& sum : sums) {
      for (int64_t j = 0; j < sum.columns(); ++j) {
        sum.scale_column(j, 1.0 / static_cast<double>(tokens));
      }
      if (!sum.all_finite()) {
        return fail("{}: the MLP of layer {} has gradients that are NaN or infinite", source,
                    layer);
      }
      NMM_TRY(writer.append(bytes_of(sum)));
    }
  }
  return writer.finish();
}

// The model, and sequences with their groups. All processes have the same.
struct MetricText {
  training::Model<float>& model;
  const Sequences& sequences;
  uint64_t seed;
  std::vector<SequenceGroup> groups;

  int64_t layers() const { return model.num_layers(); }
};

// Is called after every layer in both directions. On the way back it gets the sums of the layer,
// which are empty in a process without a group. An error ends the pass.
using AfterLayer = std::function<Status(int64_t layer, const LayerSums* sums)>;

// Runs a group, or goes through the layers without one if there is no such group.
Status run_group(const MetricText& text, size_t group, const AfterLayer& after_layer) {
  const int64_t layers = text.layers();
  LayerSums sums;
  int64_t step = 0;
  const auto layer_done = [&] {
    const int64_t at = step++;
    return at < layers ? after_layer(at, nullptr) : after_layer(2 * layers - 1 - at, &sums);
  };
  if (group >= text.groups.size()) {
    while (step < 2 * layers) NMM_TRY(layer_done());
    return {};
  }
  const auto [first, end] = text.groups[group];
  const auto on_layer = [&](int64_t, const training::MlpGradients<float>& gradients) {
    sums = zero_sums(text.model.config());
    add_gram(gradients.down, sums[0]);
    add_squares(gradients.gate, sums[1]);
    add_squares(gradients.up, sums[2]);
  };
  const auto own = training::output_gradients<float>(
      text.model, std::span(text.sequences).subspan(first, end - first), text.seed,
      static_cast<int64_t>(first), {.on_layer = on_layer, .layer_done = layer_done});
  return own.ok() ? Status() : own.error();
}

Result<std::unique_ptr<training::Model<float>>> open_dense(const fs::path& folder) {
  NMM_ASSIGN(auto model, training::Model<float>::open(folder, training::fastest_precision(),
                                                      training::Residence::kOneByOne));
  // Nothing is trained, so that the head is kept as factors of products alone.
  model->train([](std::string_view) { return false; });
  return model;
}

// One run of process 0 over the groups that are not done. Each round has one group per process.
class MetricRun {
 public:
  MetricRun(const CompressionInputs& inputs, const MetricRequest& request, const MetricText& text)
      : inputs_(inputs),
        request_(request),
        text_(text),
        saved_(inputs.config, request.work, identity(request, text.model.precision())) {}

  size_t first_group() const { return saved_.whole_groups(); }

  Status run() {
    start_progress();
    for (size_t group = first_group(); group < text_.groups.size(); group += processes()) {
      NMM_TRY(run_round(group));
    }
    inputs_.progress.finish();
    int64_t tokens = 0;
    for (const auto& sequence : request_.sequences) tokens += std::ssize(sequence);
    NMM_TRY(write_means_of(saved_, inputs_.config, tokens, request_.file,
                           inputs_.checkpoint.folder().string()));
    saved_.remove();
    return {};
  }

 private:
  size_t processes() const {
    return inputs_.helpers == nullptr ? 1 : static_cast<size_t>(inputs_.helpers->processes());
  }
  // A group passes every layer twice.
  int64_t steps_of(size_t groups) const {
    return 2 * text_.layers() * static_cast<int64_t>(std::min(groups, text_.groups.size()));
  }

  void start_progress() {
    const auto found = static_cast<int64_t>(first_group()), total = std::ssize(text_.groups);
    if (found > 0) {
      inputs_.progress.print(std::string(task::kMetric) + ": " +
                             found_text(found, total, "group of sequences", "groups"));
    }
    steps_ = steps_of(first_group());
    inputs_.progress.start(task::kMetric, steps_of(text_.groups.size()), steps_);
  }

  Status run_round(size_t first) {
    const size_t end = std::min(first + processes(), text_.groups.size());
    Status failed, agreed;
    const auto agree = [&](const Status& own) {
      agreed = inputs_.helpers == nullptr ? own : inputs_.helpers->agree(own);
      return own.ok() ? agreed : own;  // an interrupt keeps its kind
    };
    const Status ran = run_group(text_, first, [&](int64_t layer, const LayerSums* sums) -> Status {
      if (failed.ok() && request_.stop()) failed = stopped(first);
      NMM_TRY(agree(failed));
      if (sums != nullptr) failed = add(layer, first, end, *sums);
      steps_ += static_cast<int64_t>(end - first);
      inputs_.progress.update(steps_, fmt::format("group {}", first + 1));
      return {};
    });
    // After an error that all processes know, none of them waits for another one.
    if (!agreed.ok()) return ran;
    return agree(failed.ok() ? ran : failed);
  }

  Error stopped(size_t group) const {
    return interrupted_error(fmt::format("the output metric has {} of {} groups of sequences",
                                         group, text_.groups.size()));
  }

  // Adds the sums of the groups [first, end) to those of the layer. Those that an earlier run has
  // added already are left out.
  Status add(int64_t layer, size_t first, size_t end, const LayerSums& own) {
    const size_t known = saved_.groups(layer);
    auto read = saved_.read(layer);
    LayerSums sums = read.ok() ? std::move(read).value() : zero_sums(inputs_.config);
    for (size_t i = 0; known <= first && i < sums.size(); ++i) compress::add(own[i], sums[i]);
    if (inputs_.helpers != nullptr) {
      inputs_.helpers->add_sums(first, text_.groups.size(), sums, known);
    }
    if (!read.ok()) return read.error();
    return known < end ? saved_.write(layer, sums, end) : Status();
  }

  const CompressionInputs& inputs_;
  const MetricRequest& request_;
  const MetricText& text_;
  SavedSums saved_;
  int64_t steps_ = 0;
};

// Sends this process's sums to process 0, piece by piece.
void send_sums(parallel::Communicator& communicator, const io::ModelConfig& config,
               const LayerSums& sums) {
  const LayerSums shapes = sums.empty() ? zero_sums(config) : LayerSums();
  for (const DoubleMatrix& sum : sums.empty() ? shapes : sums) {
    for (int64_t at = 0; at < sum.size(); at += kSumPiece) {
      const auto count = static_cast<size_t>(std::min(kSumPiece, sum.size() - at));
      communicator.gather(sums.empty() ? std::span<const std::byte>()
                                       : std::as_bytes(std::span(sum.data() + at, count)));
    }
  }
}

// Runs this process's group of a round that begins with group `first`.
Status help_round(parallel::Communicator& communicator, const MetricText& text, size_t first) {
  Status agreed;
  const Status ran = run_group(text, first + static_cast<size_t>(communicator.process()),
                               [&](int64_t, const LayerSums* sums) -> Status {
                                 agreed = parallel::first_error_of_all(communicator, {});
                                 if (agreed.ok() && sums != nullptr)
                                   send_sums(communicator, text.model.config(), *sums);
                                 return agreed;
                               });
  return agreed.ok() ? parallel::first_error_of_all(communicator, ran) : agreed;
}

}  // namespace

Sequences metric_sequences(const CalibrationSequences& text) {
  Sequences out;
  const size_t count = std::min(kMetricSequences, text.sequences.size());
  for (size_t i = 0; i < count; ++i) {
    const auto& sequence = text.sequences[i * text.sequences.size() / count];
    out.emplace_back(sequence.begin(), sequence.begin() + std::min(sequence.size(), kMetricTokens));
  }
  return out;
}

Status make_output_metric(const CompressionInputs& inputs, const MetricRequest& request) {
  auto model = open_dense(inputs.checkpoint.folder());
  Status made = model.ok() ? (*model)->check(request.sequences) : Status(model.error());
  if (made.ok()) {
    const MetricText text = {**model, request.sequences, request.seed,
                             sequence_groups(request.sequences)};
    MetricRun run(inputs, request, text);
    if (inputs.helpers != nullptr) {
      inputs.helpers->open_metric(request.sequences, request.seed, run.first_group());
      made = inputs.helpers->agree({});
    }
    if (made.ok()) made = run.run();
  }
  training::drop_pooled_memory();
  return made;
}

void help_with_metric(parallel::Communicator& communicator, const fs::path& folder,
                      MessageReader& in) {
  const auto seed = in.value<uint64_t>();
  const auto first_group = static_cast<size_t>(in.value<int64_t>());
  Sequences sequences(static_cast<size_t>(in.value<int64_t>()));
  for (auto& sequence : sequences) sequence = in.values<text::TokenId>();
  const auto model = open_dense(folder);
  Status status =
      parallel::first_error_of_all(communicator, model.ok() ? Status() : Status(model.error()));
  if (status.ok()) {
    const MetricText text = {**model, sequences, seed, sequence_groups(sequences)};
    const auto processes = static_cast<size_t>(communicator.processes());
    for (size_t first = first_group; status.ok() && first < text.groups.size();
         first += processes) {
      status = help_round(communicator, text, first);
    }
  }
  training::drop_pooled_memory();
}

}  // namespace neuronmm::compress
