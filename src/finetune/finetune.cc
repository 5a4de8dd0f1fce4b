#include "finetune/finetune.h"

#include <algorithm>
#include <map>
#include <optional>

#include <nlohmann/json.hpp>

#include "base/kept_work.h"
#include "compress/output/fused_sources.h"
#include "compress/output/tensor_writer.h"
#include "finetune/dataset.h"
#include "finetune/held_out.h"
#include "finetune/memory_need.h"
#include "finetune/student.h"
#include "finetune/training.h"
#include "finetune/training_folder.h"
#include "finetune/written_folder.h"
#include "io/file_identity.h"
#include "io/folder_writer.h"
#include "io/model_folder.h"
#include "io/quantization.h"
#include "io/text_file.h"
#include "model/self_generated.h"

namespace neuronmm::finetune {
namespace {

namespace fs = std::filesystem;

// The held-out text has a 32nd of the tokens that are trained on, between these two. Assumed: it is
// read about ten times, without a backward pass.
constexpr int64_t kHeldOutShare = 32, kLeastHeldOut = 4096, kMostHeldOut = 16384;
// A held-out text may share this part of its runs of tokens with the training text. Assumed: so
// much is quoted by chance.
constexpr double kSharedByChance = 0.1;

// The identities of all inputs, taken before anything is read from them. Those of files that are
// not given are null.
struct InputIdentities {
  nlohmann::ordered_json model, teacher, data, validation;
};

Result<InputIdentities> identities_of(const FinetuneRequest& request) {
  InputIdentities inputs;
  NMM_ASSIGN(inputs.model, io::folder_identity(request.model));
  if (!request.teacher.empty()) {
    NMM_ASSIGN(inputs.teacher, io::folder_identity(request.teacher));
  }
  if (!request.data.empty()) {
    NMM_ASSIGN(inputs.data, io::file_identity(request.data));
  }
  if (!request.validation.empty()) {
    NMM_ASSIGN(inputs.validation, io::file_identity(request.validation));
  }
  return inputs;
}

// Returns everything that the result depends on as JSON. A resumed run must have the same settings.
std::string settings_of(const FinetuneRequest& request, const InputIdentities& inputs,
                        const Rounding& rounding) {
  const Recipe& recipe = request.recipe;
  const bool bf16 = request.precision == training::Precision::kBf16;
  const nlohmann::ordered_json settings = {{"command", "finetune"},
                                           {"model", inputs.model},
                                           {"data", inputs.data},
                                           {"validation", inputs.validation},
                                           {"teacher", inputs.teacher},
                                           {"lora", recipe.lora_rank},
                                           {"learning_rate", recipe.learning_rate},
                                           {"tokens", recipe.tokens},
                                           {"batch", recipe.batch},
                                           {"cutoff", recipe.cutoff},
                                           {"seed", recipe.seed},
                                           {"self_generated", recipe.self_generated},
                                           {"products", bf16 ? "bf16" : "fp32"},
                                           {"weights", weights_name(rounding)}};
  // Paths may hold bytes that are not UTF-8.
  return settings.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

// Returns the rounding that the folder has or is to have, or nullopt for float weights.
Result<Rounding> rounding_of(const FinetuneRequest& request, const io::ModelConfig& config) {
  NMM_TRY(compress::check_table(request.weights, config, request.model.string()));
  Rounding requested = compress::quantization_of(request.weights, config);
  if (!config.quantization) return requested;
  if (requested) {
    // The folder decides about a table that nobody asked for.
    if (!request.weights->embedding_given) {
      const auto own = config.quantization->exceptions.find("embed_tokens");
      requested->exceptions.erase("embed_tokens");
      if (own != config.quantization->exceptions.end()) requested->exceptions.insert(*own);
    }
    requested->calibration = config.quantization->calibration;
    if (*requested != *config.quantization) {
      return fail(
          "{}: its weights are rounded already ({}); to round them to {} would lose twice, so "
          "begin with the original model",
          request.model.string(), io::quantization_text(*config.quantization),
          compress::weights_text(request.weights));
    }
  }
  return config.quantization;
}

// PEFT loads adapters into the published class, whose matrices may be fused.
bool adapts_fused_matrices(const io::Checkpoint& checkpoint, const io::ModelConfig& config) {
  std::vector<compress::TensorSource> sources;
  for (const auto& [name, tensor] : checkpoint.tensors()) {
    if (may_adapt(name, config)) sources.push_back({{name, tensor.dtype, tensor.shape}});
  }
  const size_t count = sources.size();
  return compress::fused_sources(std::move(sources), config.architecture).size() < count;
}

// Fails if the model may have no adapters.
Status check_adapters(const fs::path& model, const io::ModelFolder& opened,
                      const Rounding& rounding) {
  if (rounding) {
    return fail("{}: expected float weights for --lora, found {}; give the model it was made of",
                model.string(), io::quantization_text(*rounding));
  }
  if (opened.config.compression) {
    return fail(
        "{}: expected a model that is not compressed for --lora, because nothing merges an "
        "adapter into this one; train its own weights (without --lora)",
        model.string());
  }
  if (adapts_fused_matrices(opened.checkpoint, opened.config)) {
    return fail(
        "{}: its class in transformers joins matrices that adapters would have apart; train its "
        "own weights (without --lora)",
        model.string());
  }
  return {};
}

Status check_request(const FinetuneRequest& request, const io::ModelFolder& opened,
                     const Rounding& rounding) {
  const Recipe& recipe = request.recipe;
  const int64_t most = opened.config.max_position_embeddings;
  if (recipe.cutoff < 2 || recipe.cutoff > most) {
    return fail("cutoff: expected 2 to {} tokens (the model's max_position_embeddings), found {}",
                most, recipe.cutoff);
  }
  if (request.data.empty() && recipe.self_generated == 0) {
    return fail("data: expected a file, or text that a teacher writes, found neither");
  }
  if (request.teacher.empty() && recipe.self_generated > 0) {
    return fail(
        "teacher: expected the model before compression for text that it writes, found none");
  }
  return recipe.lora_rank > 0 ? check_adapters(request.model, opened, rounding) : Status();
}

// The teacher is the model before compression: it reads the same tokens and has the same width.
Status check_teacher(const FinetuneRequest& request, const io::ModelFolder& teacher,
                     const io::ModelConfig& config) {
  const std::string name = request.teacher.string();
  if (teacher.config.vocab_size != config.vocab_size) {
    return fail("{}: expected a teacher with the model's vocabulary of {} tokens, found {}", name,
                config.vocab_size, teacher.config.vocab_size);
  }
  if (teacher.config.hidden_size != config.hidden_size) {
    return fail(
        "{}: expected a teacher with the model's hidden_size {}, found {}; give the model "
        "before compression",
        name, config.hidden_size, teacher.config.hidden_size);
  }
  NMM_ASSIGN(const auto own, text::Tokenizer::load(request.model));
  NMM_ASSIGN(const auto other, text::Tokenizer::load(request.teacher));
  for (text::TokenId id = 0; id < std::max(own.vocab_size(), other.vocab_size()); ++id) {
    if (own.token_bytes(id) == other.token_bytes(id)) continue;
    return fail(
        "{}: expected the tokenizer of {}, found token {} \"{}\" where the model has "
        "\"{}\"; give the model before compression",
        name, request.model.string(), id, other.token_bytes(id), own.token_bytes(id));
  }
  return {};
}

Result<Dataset> load_data(const fs::path& path, const FinetuneRequest& request,
                          const io::ModelConfig& config) {
  if (path.empty()) return Dataset();
  NMM_ASSIGN(const auto content, io::read_text_file(path, io::kMaxTextBytes));
  NMM_TRY(io::check_corpus(content, path.string()));
  NMM_ASSIGN(const auto tokenizer, text::Tokenizer::load(request.model));
  return read_dataset(content, path, tokenizer, config, request.recipe.cutoff);
}

int64_t scored_tokens(const Dataset& data) {
  int64_t tokens = 0;
  for (const Example& example : data.examples) tokens += example.scored_tokens();
  return tokens;
}

Result<TrainingFolder> open_work(const FinetuneRequest& request, const InputIdentities& inputs,
                                 const Rounding& rounding, const fs::path& folder) {
  using IfStarted = TrainingFolder::IfStarted;
  const IfStarted if_started = request.resume  ? IfStarted::kResume
                               : request.force ? IfStarted::kRestart
                                               : IfStarted::kResumeSame;
  return TrainingFolder::open(folder, settings_of(request, inputs, rounding), if_started);
}

struct Data {
  Dataset training, held_out;
  int64_t generated_tokens = 0;
};

// Reads the texts of files.
Result<Data> load_all_data(const FinetuneRequest& request, const io::ModelConfig& config,
                           Progress& progress) {
  Data data;
  NMM_ASSIGN(data.training, load_data(request.data, request, config));
  NMM_ASSIGN(data.held_out, load_data(request.validation, request, config));
  if (!request.data.empty()) {
    progress.print(
        fmt::format("{}: {} sequences, {} tokens with a loss ({} sequences cut off, {} "
                    "left out: nothing but prompt)",
                    request.data.string(), data.training.examples.size(),
                    scored_tokens(data.training), data.training.truncated, data.training.skipped));
  }
  const double shared = share_trained_on(data.held_out, data.training);
  if (shared <= kSharedByChance) return data;
  return fail(
      "{}: expected a text that is not trained on, found {:.0f} % of it in {}; leave "
      "--validation out to hold out a part of the text",
      request.validation.string(), 100 * shared, request.data.string());
}

// Limits the held-out text, or takes it from the training text.
Status choose_held_out(const FinetuneRequest& request, Data& data, Progress& progress) {
  int64_t tokens = 0;
  for (const Example& example : data.training.examples) tokens += example.length();
  if (request.recipe.tokens > 0) tokens = std::min(tokens, request.recipe.tokens);
  const int64_t wanted = std::clamp(tokens / kHeldOutShare, kLeastHeldOut, kMostHeldOut);
  const fs::path& source = request.data.empty() ? request.teacher : request.data;
  if (request.validation.empty()) {
    NMM_ASSIGN(data.held_out, hold_out(data.training, wanted, source.string()));
  } else {
    data.held_out = spread_sample(std::move(data.held_out), wanted);
  }
  progress.print(
      fmt::format("{}: {} sequences held out, {} tokens with a loss",
                  request.validation.empty() ? source.string() : request.validation.string(),
                  data.held_out.examples.size(), scored_tokens(data.held_out)));
  return {};
}

// Adds text that the teacher writes to the training data. The trained model is not yet loaded, so
// that only the teacher is in memory.
Status add_generated(const FinetuneRequest& request, const fs::path& work, Data& data,
                     Progress& progress) {
  const Recipe& recipe = request.recipe;
  NMM_CHECK(request.backend != nullptr);
  NMM_ASSIGN(auto written, model::self_generated(
                               {request.teacher, recipe.self_generated, recipe.cutoff, recipe.seed},
                               work, *request.backend, progress));
  progress.print(fmt::format("{}: wrote {} sequences of {} tokens to train on",
                             request.teacher.string(), written.size(), recipe.cutoff));
  for (std::vector<text::TokenId>& tokens : written) {
    data.generated_tokens += std::ssize(tokens);
    data.training.examples.push_back({std::move(tokens)});
  }
  return {};
}

int64_t layer_parameters(const io::Checkpoint& checkpoint) {
  int64_t count = 0;
  for (const auto& [name, tensor] : checkpoint.tensors()) {
    if (is_of_layer(name)) count += tensor.size();
  }
  return count;
}

int64_t adapter_parameters(const io::ModelFolder& model, int64_t rank) {
  int64_t count = 0;
  for (const auto& [name, tensor] : model.checkpoint.tensors()) {
    if (may_adapt(name, model.config)) count += rank * (tensor.shape[0] + tensor.shape[1]);
  }
  return count;
}

// Returns what the run is to the estimate of its memory.
MemoryCase memory_case(const FinetuneRequest& request, const io::ModelFolder& opened,
                       const io::ModelFolder* teacher, const Rounding& rounding) {
  MemoryCase run = {
      .config = opened.config,
      .layer_parameters = layer_parameters(opened.checkpoint),
      .adapter_parameters = adapter_parameters(opened, request.recipe.lora_rank),
      .together = std::max(request.recipe.cutoff,
                           std::min(kTokensTogether, request.recipe.batch * request.recipe.cutoff)),
      .precision = request.precision,
      .rounded = rounding.has_value()};
  if (teacher != nullptr) run.teacher_parameters = layer_parameters(teacher->checkpoint);
  if (check_adapters(request.model, opened, rounding).ok()) {
    run.small_adapter_parameters = adapter_parameters(opened, kSmallRank);
  }
  return run;
}

// Everything that is known before anything is written.
struct Prepared {
  Rounding rounding;
  Data data;
  StudentOptions options;
};

Result<Prepared> prepare(const FinetuneRequest& request, Progress& progress) {
  Prepared run;
  NMM_ASSIGN(const io::ModelFolder opened, io::open_model(request.model));
  NMM_ASSIGN(run.rounding, rounding_of(request, opened.config));
  NMM_TRY(check_request(request, opened, run.rounding));
  std::optional<io::ModelFolder> teacher;
  if (!request.teacher.empty()) {
    NMM_ASSIGN(teacher, io::open_model(request.teacher));
    NMM_TRY(check_teacher(request, *teacher, opened.config));
  }
  NMM_ASSIGN(run.data, load_all_data(request, opened.config, progress));
  NMM_ASSIGN(
      const int64_t activations,
      activation_budget(memory_case(request, opened, teacher ? &*teacher : nullptr, run.rounding),
                        usable_memory(), request.model.string()));
  run.options = {.model = request.model,
                 .teacher = request.teacher,
                 .lora_rank = request.recipe.lora_rank,
                 .seed = request.recipe.seed,
                 .rounding = run.rounding,
                 .precision = request.precision,
                 .activation_bytes = activations};
  return run;
}

}  // namespace

Result<FinetuneSummary> finetune(const FinetuneRequest& request, Progress& progress,
                                 const OnStep& on_step,
                                 const io::BeforeOutput<FinetuneSummary>& before_output) {
  const auto if_exists =
      request.force ? io::FolderWriter::IfExists::kReplace : io::FolderWriter::IfExists::kRefuse;
  NMM_TRY(io::FolderWriter::check(request.out, if_exists, request.model));
  if (!request.teacher.empty()) {
    NMM_TRY(io::check_output_apart_from_input(request.out, request.teacher));
  }
  NMM_ASSIGN(const InputIdentities inputs, identities_of(request));
  NMM_ASSIGN(Prepared run, prepare(request, progress));
  Data& data = run.data;
  NMM_ASSIGN(auto output, io::FolderWriter::create(request.out, if_exists, request.model));
  NMM_ASSIGN(auto folder, open_work(request, inputs, run.rounding, output.resume_folder()));
  const KeptWork kept(folder.path().parent_path().string(),
                      "run the same command again with --resume to go on");
  int64_t tokens = request.recipe.self_generated;
  for (const Example& example : data.training.examples) tokens += example.length();
  progress.expect(expected_tasks(request.recipe, tokens));
  if (request.recipe.self_generated > 0) {
    NMM_TRY(add_generated(request, folder.path(), data, progress));
  }
  NMM_TRY(choose_held_out(request, data, progress));
  NMM_ASSIGN(const auto student, Student::load(run.options));
  Training training(request, data.training, data.held_out, *student, folder, progress, on_step);
  NMM_TRY(training.run());
  NMM_TRY(write_trained(request, *student, run.rounding, output, progress));
  NMM_TRY(io::check_unchanged(request.model, inputs.model));
  const FinetuneSummary summary = {.examples = std::ssize(data.training.examples),
                                   .scored_tokens = scored_tokens(data.training),
                                   .generated_tokens = data.generated_tokens,
                                   .held_out_tokens = scored_tokens(data.held_out),
                                   .trained_parameters = student->optimizer().trained_parameters(),
                                   .planned_steps = training.steps(),
                                   .position = training.position()};
  if (before_output) NMM_TRY(before_output(summary));
  NMM_TRY(output.commit());
  return summary;
}

}  // namespace neuronmm::finetune
