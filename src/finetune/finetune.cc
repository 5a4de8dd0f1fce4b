#include "finetune/finetune.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <random>
#include <set>
#include <system_error>

#include <nlohmann/json.hpp>

#include "base/interrupt.h"
#include "base/parallel.h"
#include "compress/found_ranks.h"
#include "compress/model_card.h"
#include "compress/transformers_code.h"
#include "finetune/dataset.h"
#include "finetune/trainable_model.h"
#include "finetune/training_folder.h"
#include "io/file_identity.h"
#include "io/folder_writer.h"
#include "io/model_files.h"
#include "io/safetensors_writer.h"
#include "io/shards.h"
#include "io/text_file.h"

namespace neuronmm::finetune {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// Assumed: what a killed run may lose.
constexpr auto kCheckpointInterval = std::chrono::minutes(5);

// What the models were before anything of them was read.
struct ModelIdentities {
  nlohmann::ordered_json model, teacher;
};

Result<ModelIdentities> identities_of(const FinetuneRequest& request) {
  ModelIdentities models;
  NMM_ASSIGN(models.model, io::folder_identity(request.model));
  if (request.teacher.empty()) return models;
  NMM_ASSIGN(models.teacher, io::folder_identity(request.teacher));
  return models;
}

// All that the result depends on: a resumed run must have the same.
std::string settings_of(const FinetuneRequest& request, const ModelIdentities& models) {
  const Recipe& recipe = request.recipe;
  nlohmann::ordered_json phases = nlohmann::ordered_json::array();
  for (const Part part : recipe.phases) phases.push_back(part_name(part));
  nlohmann::ordered_json settings = {{"command", "finetune"},
                                     {"model", models.model},
                                     {"data", io::file_identity(request.data)},
                                     {"teacher", models.teacher},
                                     {"which", phases},
                                     {"rank", recipe.rank},
                                     {"alpha", recipe.alpha},
                                     {"learning_rate", recipe.learning_rate},
                                     {"epochs", recipe.epochs},
                                     {"steps", recipe.steps},
                                     {"batch", recipe.batch},
                                     {"micro_batch", recipe.micro_batch},
                                     {"warmup", recipe.warmup},
                                     {"cutoff", recipe.cutoff},
                                     {"seed", recipe.seed},
                                     {"device", request.device}};
  return settings.dump(2) + "\n";
}

// The order of the examples in one epoch of one phase.
// Fisher-Yates with the remainder of a 64-bit number: std::shuffle differs between standard
// libraries. The order is a function of seed, phase and epoch, so that resuming needs no saved
// order.
std::vector<size_t> shuffled(size_t count, uint64_t seed, int64_t phase, int64_t epoch) {
  std::seed_seq seeds = {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32),
                         static_cast<uint32_t>(phase), static_cast<uint32_t>(epoch)};
  std::mt19937_64 random(seeds);
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  for (size_t i = count; i-- > 1;) std::swap(order[i], order[random() % (i + 1)]);
  return order;
}

class Training {
 public:
  Training(const FinetuneRequest& request, const Dataset& data, TrainableModel& model,
           TrainingFolder& folder, Progress& progress, const OnStep& on_step)
      : recipe_(request.recipe),
        data_(data),
        model_(model),
        folder_(folder),
        progress_(progress),
        on_step_(on_step),
        position_(folder.position()) {}

  Status run() {
    NMM_TRY(folder_.load_factors(model_));
    const auto phases = static_cast<int64_t>(recipe_.phases.size());
    while (position_.phase < phases) NMM_TRY(run_phase());
    progress_.finish();
    return {};
  }

  std::vector<PhaseSummary> summary() const {
    std::vector<PhaseSummary> phases;
    auto epoch = position_.epochs.begin();
    for (const Part part : recipe_.phases) {
      phases.push_back({part, total_steps(), {}});
      for (int64_t i = 0; i < epochs_begun(); ++i)
        phases.back().epoch_losses.push_back((epoch++)->mean());
    }
    return phases;
  }

 private:
  Part part() const { return recipe_.phases[static_cast<size_t>(position_.phase)]; }
  int64_t examples() const { return static_cast<int64_t>(data_.examples.size()); }
  int64_t steps_per_epoch() const { return (examples() + recipe_.batch - 1) / recipe_.batch; }
  // Of a phase.
  int64_t total_steps() const {
    const int64_t all = steps_per_epoch() * recipe_.epochs;
    return recipe_.steps > 0 ? std::min(all, recipe_.steps) : all;
  }
  int64_t epochs_begun() const {
    return (total_steps() + steps_per_epoch() - 1) / steps_per_epoch();
  }
  int64_t epoch() const { return position_.step / steps_per_epoch(); }
  // Sequences that so many steps of a phase see.
  int64_t sequences_in(int64_t steps) const {
    return steps / steps_per_epoch() * examples() + steps % steps_per_epoch() * recipe_.batch;
  }
  int64_t sequences_done() const { return sequences_in(position_.step); }

  // A phase trains one part, or both, from the first step or from where an interrupted run was. Its
  // adapters are merged at its end, and the next phase starts from the merged factors.
  Status run_phase() {
    model_.begin_phase(part(), recipe_, recipe_.seed + static_cast<uint64_t>(position_.phase));
    NMM_TRY(folder_.load_state(model_));
    const std::string label = recipe_.phases.size() == 1
                                  ? fmt::format("training {}", part_name(part()))
                                  : fmt::format("phase {} of {} ({})", position_.phase + 1,
                                                recipe_.phases.size(), part_name(part()));
    progress_.print(fmt::format("{}: {} trainable parameters, {} steps", label,
                                model_.trainable_parameters(), total_steps()));
    progress_.start(label, sequences_in(total_steps()), sequences_done());
    started_ = saved_ = Clock::now();
    tokens_ = 0;
    const UnsavedWork unsaved;  // a step may take long, and saving after each would take longer
    while (position_.step < total_steps()) {
      NMM_TRY(run_step());
      if (Clock::now() - saved_ > kCheckpointInterval) NMM_TRY(save());
    }
    model_.end_phase();
    ++position_.phase;
    position_.step = 0;
    return folder_.save_factors(model_, position_);
  }

  // Sequences of similar length together, so that little is padded.
  std::vector<const Example*> batch_of(int64_t step) const {
    const std::vector<size_t> order =
        shuffled(data_.examples.size(), recipe_.seed, position_.phase, epoch());
    const int64_t first = step % steps_per_epoch() * recipe_.batch;
    const int64_t last = std::min(examples(), first + recipe_.batch);
    std::vector<const Example*> batch;
    for (int64_t i = first; i < last; ++i)
      batch.push_back(&data_.examples[order[static_cast<size_t>(i)]]);
    std::ranges::stable_sort(batch, std::ranges::greater(), &Example::length);
    return batch;
  }

  // One update: the gradient of the mean loss over all scored tokens of the batch, summed over
  // micro-batches that memory holds.
  Status run_step() {
    const std::vector<const Example*> batch = batch_of(position_.step);
    EpochLoss loss;
    for (const Example* const example : batch) loss.tokens += example->scored_tokens();
    model_.clear_gradients();
    const auto together = static_cast<size_t>(recipe_.micro_batch);
    for (size_t first = 0; first < batch.size(); first += together) {
      if (interrupted()) return stop();
      const Batch micro = Batch(batch).subspan(first, std::min(together, batch.size() - first));
      loss.sum += model_.accumulate(micro, 1.0 / static_cast<double>(loss.tokens));
      if (!std::isfinite(loss.sum)) return diverged("loss");
      show(first, micro);
    }
    // Checked before the update: a gradient that is not finite would destroy the weights.
    if (!std::isfinite(model_.gradient_norm())) return diverged("gradient");
    const double learning_rate = learning_rate_at(recipe_, position_.step, total_steps());
    model_.update(learning_rate, position_.step + 1);
    if (on_step_) {
      on_step_({part(), position_.phase, position_.step, loss.mean(), learning_rate});
    }
    record(loss);
    return {};
  }

  // An epoch's loss is the mean over its tokens, not over its batches, which have different numbers
  // of them.
  void record(const EpochLoss& loss) {
    if (position_.step % steps_per_epoch() == 0) position_.epochs.emplace_back();
    position_.epochs.back().sum += loss.sum;
    position_.epochs.back().tokens += loss.tokens;
    ++position_.step;
    last_loss_ = loss.mean();
  }

  void show(size_t first, Batch micro) {
    for (const Example* const example : micro) tokens_ += example->length();
    const std::chrono::duration<double> elapsed = Clock::now() - started_;
    std::string note = fmt::format("epoch {}, {:.0f} tokens/s", epoch() + 1,
                                   static_cast<double>(tokens_) / elapsed.count());
    if (last_loss_) note += fmt::format(", loss {:.4f}", *last_loss_);
    progress_.update(sequences_done() + static_cast<int64_t>(first + micro.size()), note);
  }

  Status save() {
    NMM_TRY(folder_.save_state(model_, position_));
    saved_ = Clock::now();
    return {};
  }

  // Nothing has been trained before the first step is done, so that there is nothing to keep.
  Error stop() {
    if (position_.step > 0) {
      const Status saved = save();
      if (!saved.ok()) return saved.error();
    }
    return interrupted_error(
        fmt::format("{} of {} steps of phase {} of {} are kept and can be resumed", position_.step,
                    total_steps(), position_.phase + 1, recipe_.phases.size()));
  }

  // The kept state is from before the divergence, and the message says which one it is.
  Error diverged(const char* what) const {
    const Position& kept = folder_.position();
    return fail(
        "the {} is NaN or infinite at step {} of phase {}; the state of phase {}, step {} is kept: "
        "resume from it with a learning rate below {}",
        what, position_.step + 1, position_.phase + 1, kept.phase + 1, kept.step,
        recipe_.learning_rate);
  }

  const Recipe& recipe_;
  const Dataset& data_;
  TrainableModel& model_;
  TrainingFolder& folder_;
  Progress& progress_;
  const OnStep& on_step_;
  Position position_;
  Clock::time_point started_, saved_;
  int64_t tokens_ = 0;  // of this run in this phase
  std::optional<double> last_loss_;
};

// Every tensor of the checkpoint byte for byte, but the factors from the model.
Status write_weights(const TrainableModel& model, const fs::path& folder, Progress& progress) {
  std::set<std::string> factors;
  for (const io::TensorSpec& factor : model.factor_tensors()) factors.insert(factor.name);
  std::vector<io::TensorSpec> specs;
  for (const auto& [name, tensor] : model.checkpoint().tensors())
    specs.push_back({name, tensor.dtype, tensor.shape});
  const std::vector<io::Shard> shards = io::plan_shards(specs);
  progress.start("writing", static_cast<int64_t>(specs.size()));
  int64_t done = 0;
  for (const io::Shard& shard : shards) {
    NMM_ASSIGN(auto writer, io::SafetensorsWriter::create(folder / shard.file_name, shard.specs,
                                                          {{"format", "pt"}}));
    for (const io::TensorSpec& spec : shard.specs) {
      const TensorView& tensor = model.checkpoint().tensors().at(spec.name);
      if (factors.contains(spec.name)) {
        const std::vector<float> values = model.read(spec.name);
        std::vector<std::byte> bytes;
        append_rounded(spec.dtype, values.data(), tensor.size(), bytes);
        NMM_TRY(writer.append(bytes));
      } else {
        NMM_TRY(writer.append(std::span(tensor.data, static_cast<size_t>(tensor.size_bytes()))));
      }
      progress.update(++done, spec.name);
    }
    NMM_TRY(writer.finish());
  }
  progress.finish();
  if (shards.size() == 1) return {};
  return io::write_text_file(folder / io::kIndexFileName, io::index_json(shards));
}

Result<Dataset> load_data(const FinetuneRequest& request, const io::ModelConfig& config) {
  const int64_t cutoff = request.recipe.cutoff;
  if (cutoff < 2 || cutoff > config.max_position_embeddings) {
    return fail("cutoff: expected 2 to {} tokens (the model's max_position_embeddings), found {}",
                config.max_position_embeddings, cutoff);
  }
  NMM_ASSIGN(const auto content, io::read_text_file(request.data, io::kMaxTextBytes));
  NMM_ASSIGN(const auto tokenizer, text::Tokenizer::load(request.model));
  return read_dataset(content, request.data, tokenizer, config, cutoff);
}

int64_t scored_tokens(const Dataset& data) {
  int64_t tokens = 0;
  for (const Example& example : data.examples) tokens += example.scored_tokens();
  return tokens;
}

Status write_card(const FinetuneRequest& request, const io::ModelConfig& config,
                  const io::FolderWriter& output) {
  compress::ModelCard card = compress::model_card(output.out(), request.model, ", fine-tuned");
  card.relation = "finetune";
  card.tags = {"low-rank"};
  if (config.compression) {
    card.facts = compress::compression_facts(*config.compression, config, "original");
  }
  std::string parts;
  for (const Part part : request.recipe.phases) {
    parts += fmt::format("{}{}", parts.empty() ? "" : ", ", part_name(part));
  }
  card.facts.emplace_back("fine-tuned on", compress::folder_name(request.data));
  card.facts.emplace_back("what was trained", parts);
  return io::write_text_file(output.staging() / "README.md", compress::model_card_text(card));
}

// Folders of earlier versions, and of the reference system, become ones that transformers opens.
Status write_config(const FinetuneRequest& request, const io::ModelConfig& config,
                    const TrainableModel& model, const fs::path& folder) {
  const fs::path original = request.model / "config.json";
  NMM_ASSIGN(std::string text, io::read_text_file(original, io::kMaxConfigBytes));
  NMM_ASSIGN(text, compress::with_found_ranks(std::move(text), model.checkpoint(), config));
  return compress::write_transformers_files(folder, text, original.string());
}

Result<TrainingFolder> open_work(const FinetuneRequest& request, const ModelIdentities& models,
                                 const fs::path& folder) {
  using IfStarted = TrainingFolder::IfStarted;
  const IfStarted if_started = request.resume  ? IfStarted::kResume
                               : request.force ? IfStarted::kRestart
                                               : IfStarted::kResumeSame;
  return TrainingFolder::open(folder, settings_of(request, models), if_started);
}

Result<FinetuneSummary> train(const FinetuneRequest& request, Progress& progress,
                              const OnStep& on_step) {
  set_torch_threads(num_threads());
  NMM_ASSIGN(const ModelIdentities models, identities_of(request));
  NMM_ASSIGN(const auto config, io::ModelConfig::load(request.model / "config.json"));
  NMM_ASSIGN(const Dataset data, load_data(request, config));
  progress.print(
      fmt::format("{}: {} sequences, {} tokens with a loss ({} sequences cut off, {} "
                  "left out: nothing but prompt)",
                  request.data.string(), data.examples.size(), scored_tokens(data), data.truncated,
                  data.skipped));
  ModelOptions options;
  options.model = request.model;
  options.teacher = request.teacher;
  options.device = request.device;
  NMM_ASSIGN(auto model, TrainableModel::load(options));
  const auto if_exists =
      request.force ? io::FolderWriter::IfExists::kReplace : io::FolderWriter::IfExists::kRefuse;
  NMM_ASSIGN(auto output, io::FolderWriter::create(request.out, if_exists, request.model));
  NMM_ASSIGN(auto folder, open_work(request, models, output.work()));
  Training training(request, data, model, folder, progress, on_step);
  NMM_TRY(training.run());
  NMM_TRY(write_weights(model, output.staging(), progress));
  NMM_TRY(write_config(request, config, model, output.staging()));
  NMM_TRY(write_card(request, config, output));
  NMM_ASSIGN(const auto left_out, io::copy_model_files(request.model, output.staging()));
  for (const std::string& note : left_out) progress.print(note);
  NMM_TRY(io::check_unchanged(request.model, models.model));
  NMM_TRY(output.commit());
  return FinetuneSummary{static_cast<int64_t>(data.examples.size()), scored_tokens(data),
                         training.summary()};
}

}  // namespace

Result<FinetuneSummary> finetune(const FinetuneRequest& request, Progress& progress,
                                 const OnStep& on_step) {
  try {
    return train(request, progress, on_step);
  } catch (const std::exception& error) {  // libtorch's way to say that memory is short
    const std::string_view what = error.what();
    return fail("libtorch: {}; if memory is short, a smaller micro_batch or cutoff may fit",
                what.substr(0, what.find('\n')));
  }
}

}  // namespace neuronmm::finetune
