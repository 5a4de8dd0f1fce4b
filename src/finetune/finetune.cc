#include "finetune/finetune.h"

#include <algorithm>
#include <map>
#include <optional>
#include <system_error>

#include <nlohmann/json.hpp>
#include <unistd.h>

#include "base/kept_work.h"
#include "base/parallel.h"
#include "compress/output/model_card.h"
#include "compress/output/rank_record.h"
#include "compress/output/tensor_writer.h"
#include "compress/output/transformers_code.h"
#include "compress/rounding/stored_format.h"
#include "finetune/dataset.h"
#include "finetune/trainable_model.h"
#include "finetune/training.h"
#include "finetune/training_folder.h"
#include "io/file_identity.h"
#include "io/folder_writer.h"
#include "io/model_files.h"
#include "io/model_folder.h"
#include "io/quantization.h"
#include "io/text_file.h"
#include "model/self_generated.h"
#include "model/tensor_specs.h"

namespace neuronmm::finetune {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kValidationTokens = 16384;

using Rounding = std::optional<io::Quantization>;

std::string weights_name(const Rounding& rounding) {
  return rounding ? io::quantization_text(*rounding) : "original";
}

// The identities of both folders, taken before anything is read from them.
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

Result<nlohmann::ordered_json> identity_of(const fs::path& file) {
  if (file.empty()) return nlohmann::ordered_json();
  return io::file_identity(file);
}

// Returns everything that the result depends on as JSON. A resumed run must have the same settings.
Result<std::string> settings_of(const FinetuneRequest& request, const ModelIdentities& models,
                                const Rounding& rounding) {
  const Recipe& recipe = request.recipe;
  NMM_ASSIGN(const nlohmann::ordered_json data, identity_of(request.data));
  NMM_ASSIGN(const nlohmann::ordered_json validation, identity_of(request.validation));
  nlohmann::ordered_json phases = nlohmann::ordered_json::array();
  for (const Part part : recipe.all_phases()) phases.push_back(part_name(part));
  nlohmann::ordered_json settings = {{"command", "finetune"},
                                     {"model", models.model},
                                     {"data", data},
                                     {"validation", validation},
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
                                     {"block_epochs", recipe.block_epochs},
                                     {"block_tokens", recipe.block_tokens},
                                     {"block_learning_rate", recipe.block_learning_rate},
                                     {"validate_every", recipe.validate_every},
                                     {"patience", recipe.patience},
                                     {"self_generated", recipe.self_generated},
                                     {"device", request.device},
                                     {"products", dtype_name(request.compute)},
                                     {"weights", weights_name(rounding)}};
  return settings.dump(2) + "\n";
}

compress::TensorSource factor_source(const TrainableModel& model, const io::TensorSpec& factor,
                                     const Rounding& rounding) {
  compress::TensorSource source = {factor};
  if (rounding) {
    source.rounding = rounding->format_of(factor.name);
    source.stored = [&model, name = factor.name] { return model.stored(name); };
    return source;
  }
  source.spec.dtype = written_dtype(model.checkpoint().tensors().at(factor.name).dtype);
  source.visit = [&model, spec = source.spec](const compress::TensorSource::Use& use) -> Status {
    const std::vector<float> values = model.read(spec.name);
    NMM_TRY(compress::check_range(spec.name, values, spec.dtype));
    std::vector<std::byte> bytes;
    append_rounded(spec.dtype, values.data(), std::ssize(values), bytes);
    return use({spec.dtype, spec.shape, bytes.data()});
  };
  return source;
}

// Returns the weight that a tensor of scales or groups belongs to, or "" for any other tensor.
std::string weight_of_parts(const std::string& name) {
  for (const std::string_view ending : {io::kScaleEnding, io::kGroupEnding}) {
    if (name.ends_with(ending)) return name.substr(0, name.size() - ending.size());
  }
  return {};
}

// Lists the tensors of the output: those of the checkpoint, with the factors taken from the trained
// model. A tensor that has few bits already and is not trained is copied with its scales and
// groups.
std::vector<compress::TensorSource> sources_of(const TrainableModel& model,
                                               const Rounding& rounding) {
  std::map<std::string, io::TensorSpec> factors;
  for (const io::TensorSpec& factor : model.factor_tensors()) factors[factor.name] = factor;
  std::vector<compress::TensorSource> sources;
  for (const auto& [name, tensor] : model.checkpoint().tensors()) {
    if (factors.contains(weight_of_parts(name))) continue;
    if (const auto factor = factors.find(name); factor != factors.end()) {
      sources.push_back(factor_source(model, factor->second, rounding));
      continue;
    }
    compress::TensorSource source = {{name, written_dtype(tensor.dtype), tensor.shape}};
    if (rounding && is_float(tensor.dtype)) {
      source.rounding = model::rounding_of(name, model.config(), *rounding);
    }
    source.visit = [&tensor](const compress::TensorSource::Use& use) { return use(tensor); };
    sources.push_back(std::move(source));
  }
  return sources;
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
          "{}: its weights are {} already, found weights {}; rounded once more they would "
          "lose twice, begin with the original",
          request.model.string(), io::quantization_text(*config.quantization),
          compress::weights_text(request.weights));
    }
  }
  return config.quantization;
}

Status check_request(const FinetuneRequest& request, const io::ModelConfig& config,
                     const Rounding& rounding) {
  const Recipe& recipe = request.recipe;
  if (recipe.cutoff < 2 || recipe.cutoff > config.max_position_embeddings) {
    return fail("cutoff: expected 2 to {} tokens (the model's max_position_embeddings), found {}",
                config.max_position_embeddings, recipe.cutoff);
  }
  if (request.data.empty() && recipe.self_generated == 0) {
    return fail("data: expected a file, or text that a teacher writes, found neither");
  }
  if (request.teacher.empty() && (recipe.self_generated > 0 || recipe.block_epochs > 0)) {
    return fail("teacher: expected the model before compression for {}, found none",
                recipe.self_generated > 0 ? "text that it writes" : "refining layers");
  }
  const bool no_adapters = std::ranges::all_of(
      recipe.phases, [](const Part part) { return part == Part::kFactors || part == Part::kAll; });
  if (rounding && !no_adapters) {
    return fail(
        "which: expected factors or all, found adapters; what is rounded to {} are the factors "
        "themselves",
        io::quantization_text(*rounding));
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

// Limits the validation text, because validations cost time. The sequences that stay are spread
// over the whole text, and there are as many of them as the token limit allows.
Dataset subsample(Dataset dataset) {
  int64_t tokens = 0;
  for (const Example& example : dataset.examples) tokens += example.length();
  const auto count = static_cast<int64_t>(dataset.examples.size());
  const int64_t kept =
      std::max<int64_t>(1, count * kValidationTokens / std::max(tokens, int64_t{1}));
  if (kept >= count) return dataset;
  std::vector<Example> examples;
  for (int64_t i = 0; i < kept; ++i) {
    examples.push_back(std::move(dataset.examples[static_cast<size_t>(i * count / kept)]));
  }
  dataset.examples = std::move(examples);
  return dataset;
}

int64_t scored_tokens(const Dataset& data) {
  int64_t tokens = 0;
  for (const Example& example : data.examples) tokens += example.scored_tokens();
  return tokens;
}

Status write_card(const FinetuneRequest& request, const io::ModelConfig& config,
                  const Rounding& rounding, const io::FolderWriter& output) {
  compress::ModelCard card = compress::model_card(output.out(), request.model, ", fine-tuned");
  card.relation = "finetune";
  if (config.compression) {
    card.tags = {std::string(compress::form_tag(config.compression->form))};
    card.facts = compress::compression_facts(*config.compression, config, weights_name(rounding));
  } else if (!request.recipe.trains_all()) {
    card.tags = {"low-rank"};  // folders of the reference system have no record
  }
  if (rounding) card.tags.push_back(compress::bits_tag(rounding->format));
  std::string parts;
  for (const Part part : request.recipe.all_phases()) {
    parts += fmt::format("{}{}", parts.empty() ? "" : ", ", part_name(part));
  }
  std::string data;
  if (!request.data.empty()) data = compress::folder_name(request.data);
  if (request.recipe.self_generated > 0) {
    data += fmt::format("{}{} tokens that the model wrote before compression",
                        data.empty() ? "" : ", ", request.recipe.self_generated);
  }
  card.facts.emplace_back("fine-tuned on", data);
  card.facts.emplace_back("what was trained", parts);
  return io::write_text_file(output.staging() / "README.md", compress::model_card_text(card));
}

// Writes config.json. Folders of earlier versions and of the reference system become folders that
// transformers opens.
Status write_config(const FinetuneRequest& request, const io::ModelConfig& config,
                    const TrainableModel& model, const Rounding& rounding, const fs::path& folder) {
  const fs::path original = request.model / "config.json";
  NMM_ASSIGN(std::string text, io::config_text(model.checkpoint()));
  NMM_ASSIGN(text, compress::with_rank_record(std::move(text), model.checkpoint(), config));
  if (rounding) {
    NMM_ASSIGN(text, io::with_quantization(text, original.string(), *rounding));
  }
  NMM_ASSIGN(const auto written, io::ModelConfig::parse(text, original.string()));
  if (!written.compression && !rounding) return io::write_text_file(folder / "config.json", text);
  return compress::write_transformers_files(folder, text, original.string());
}

Result<TrainingFolder> open_work(const FinetuneRequest& request, const ModelIdentities& models,
                                 const Rounding& rounding, const fs::path& folder) {
  using IfStarted = TrainingFolder::IfStarted;
  const IfStarted if_started = request.resume  ? IfStarted::kResume
                               : request.force ? IfStarted::kRestart
                                               : IfStarted::kResumeSame;
  NMM_ASSIGN(const std::string settings, settings_of(request, models, rounding));
  return TrainingFolder::open(folder, settings, if_started);
}

struct Data {
  Dataset training, validation;
  int64_t generated_tokens = 0;
};

Result<Data> load_all_data(const FinetuneRequest& request, const io::ModelConfig& config,
                           Progress& progress) {
  Data data;
  NMM_ASSIGN(data.training, load_data(request.data, request, config));
  NMM_ASSIGN(data.validation, load_data(request.validation, request, config));
  data.validation = subsample(std::move(data.validation));
  if (!request.data.empty()) {
    progress.print(
        fmt::format("{}: {} sequences, {} tokens with a loss ({} sequences cut off, {} "
                    "left out: nothing but prompt)",
                    request.data.string(), data.training.examples.size(),
                    scored_tokens(data.training), data.training.truncated, data.training.skipped));
  }
  if (!request.validation.empty()) {
    progress.print(fmt::format("{}: {} sequences held out, {} tokens with a loss",
                               request.validation.string(), data.validation.examples.size(),
                               scored_tokens(data.validation)));
  }
  return data;
}

// Adds text that the teacher writes to the training data. The caller has unloaded the trained
// model, so that only the teacher is in memory.
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

// Returns how many bytes of activations a step may keep. Computing activations again takes a fourth
// of a step. Assumed: a batch may use an eighth of the machine's memory.
int64_t activation_budget() {
  const int64_t physical = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  return std::max(int64_t{1} << 30, physical / 8);
}

ModelOptions options_of(const FinetuneRequest& request, const Rounding& rounding) {
  ModelOptions options;
  options.model = request.model;
  options.teacher = request.teacher;
  options.device = request.device;
  options.compute = request.compute;
  options.rounding = rounding;
  options.activation_bytes = activation_budget();
  options.all_matrices = request.recipe.trains_all();
  return options;
}

Status write_output(const FinetuneRequest& request, const io::ModelConfig& config,
                    const TrainableModel& model, const Rounding& rounding,
                    const io::FolderWriter& output, Progress& progress) {
  NMM_TRY(compress::write_tensors(sources_of(model, rounding), config.architecture,
                                  output.staging(), progress));
  NMM_TRY(write_config(request, config, model, rounding, output.staging()));
  NMM_TRY(write_card(request, config, rounding, output));
  NMM_ASSIGN(const auto left_out, io::copy_model_files(request.model, output.staging()));
  for (const std::string& note : left_out) progress.print(note);
  return {};
}

Result<FinetuneSummary> train(const FinetuneRequest& request, Progress& progress,
                              const OnStep& on_step,
                              const io::BeforeOutput<FinetuneSummary>& before_output) {
  set_torch_threads(num_threads());
  const auto if_exists =
      request.force ? io::FolderWriter::IfExists::kReplace : io::FolderWriter::IfExists::kRefuse;
  NMM_TRY(io::FolderWriter::check(request.out, if_exists, request.model));
  NMM_ASSIGN(const ModelIdentities models, identities_of(request));
  NMM_ASSIGN(const io::ModelFolder opened, io::open_model(request.model));
  const io::ModelConfig& config = opened.config;
  NMM_TRY(io::refuse_mixtures(config, request.model.string(), "finetune",
                              "train the original model with another program"));
  NMM_ASSIGN(const Rounding rounding, rounding_of(request, config));
  NMM_TRY(check_request(request, config, rounding));
  NMM_ASSIGN(Data data, load_all_data(request, config, progress));
  auto model = TrainableModel::load(
      options_of(request, rounding));  // refuses a model that cannot be trained
  if (!model.ok()) return model.error();
  NMM_ASSIGN(auto output, io::FolderWriter::create(request.out, if_exists, request.model));
  NMM_ASSIGN(auto folder, open_work(request, models, rounding, output.resume_folder()));
  const KeptWork kept(folder.path().parent_path().string(),
                      "run the same command again with --resume to go on");
  progress.expect(expected_tasks(request.recipe, std::ssize(data.training.examples)));
  if (request.recipe.self_generated > 0) {
    model = fail("the teacher writes");  // frees the memory of the model
    NMM_TRY(add_generated(request, folder.path(), data, progress));
    model = TrainableModel::load(options_of(request, rounding));
    if (!model.ok()) return model.error();
  }
  Training training(request.recipe, data.training, data.validation, *model, folder, progress,
                    on_step);
  NMM_TRY(training.run());
  NMM_TRY(write_output(request, config, *model, rounding, output, progress));
  NMM_TRY(io::check_unchanged(request.model, models.model));
  FinetuneSummary summary = {static_cast<int64_t>(data.training.examples.size()),
                             scored_tokens(data.training), data.generated_tokens,
                             scored_tokens(data.validation), training.summary()};
  if (before_output) NMM_TRY(before_output(summary));
  NMM_TRY(output.commit());
  return summary;
}

}  // namespace

Result<FinetuneSummary> finetune(const FinetuneRequest& request, Progress& progress,
                                 const OnStep& on_step,
                                 const io::BeforeOutput<FinetuneSummary>& before_output) {
  try {
    return train(request, progress, on_step, before_output);
  } catch (const std::exception& error) {  // libtorch throws when memory is short
    const std::string_view what = error.what();
    return fail("libtorch: {}; if memory is short, a smaller micro_batch or cutoff may fit",
                what.substr(0, what.find('\n')));
  }
}

}  // namespace neuronmm::finetune
