// The command neuronmm inspect: shows the content of a model folder and how each MLP matrix was
// compressed.

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "base/printable.h"
#include "commands.h"
#include "io/checkpoint.h"
#include "io/compression_record.h"
#include "io/model_config.h"
#include "io/model_folder.h"
#include "io/quantization.h"
#include "model/model_rows.h"
#include "model/processes_plan.h"
#include "report_writer.h"

namespace neuronmm::apps {
namespace {

using Json = nlohmann::ordered_json;

struct InspectOptions {
  std::string folder, json;
  bool tensors = false;
  int processes = 0;  // the number of processes to plan for; 0 means no plan
};

// Returns the size in units of 10^6 bytes, as for disks and downloads.
double megabytes(int64_t bytes) { return static_cast<double>(bytes) / 1e6; }
// Returns the percentage, or 0 for a model without parameters.
double percent(int64_t part, int64_t whole) {
  return whole == 0 ? 0.0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

void print_config(const ReportWriter& writer, const io::ModelConfig& config) {
  writer.print("{}\n", io::architecture_name(config.architecture));
  writer.print("  {:<24}{}\n  {:<24}{}\n  {:<24}{}\n", "hidden_size", config.hidden_size,
               "intermediate_size", config.intermediate_size, "num_hidden_layers",
               config.num_hidden_layers);
  writer.print("  {:<24}{} heads, {} kv heads, head_dim {}{}{}\n", "attention",
               config.num_attention_heads, config.num_key_value_heads, config.head_dim,
               config.attention_bias ? ", q/k/v bias" : "", config.qk_norm ? ", q/k norm" : "");
  if (config.sliding_window > 0)
    writer.print("  {:<24}{}\n", "sliding_window", config.sliding_window);
  writer.print("  {:<24}{}{}\n", "vocab_size", config.vocab_size,
               config.tie_word_embeddings ? ", tied LM head" : "");
  writer.print("  {:<24}{}\n", "max_position_embeddings", config.max_position_embeddings);
  writer.print("  {:<24}theta {}{}\n", "RoPE", config.rope_theta,
               config.rope_scaling.index() == 0
                   ? ""
                   : fmt::format(", {} scaling", io::rope_type(config.rope_scaling)));
}

void print_totals(const ReportWriter& writer, const io::Checkpoint& checkpoint,
                  const std::vector<LayerRows>& layers) {
  int64_t parameters = 0, bytes = 0;
  for (const LayerRows& layer : layers) {
    const MatrixRow total = layer.total();
    parameters += total.parameters;
    bytes += total.bytes;
  }
  writer.print("  {:<24}{} in {} tensors, {}, {:.1f} MB\n", "parameters", checkpoint.parameters(),
               checkpoint.tensors().size(), dtypes_of(checkpoint),
               megabytes(checkpoint.size_bytes()));
  writer.print("  {:<24}{} ({:.1f} % of all), {:.1f} MB\n", "MLP parameters", parameters,
               percent(parameters, checkpoint.parameters()), megabytes(bytes));
  writer.print("  {:<24}{:.3f}, of the MLPs {:.3f}\n", "bits per weight",
               bits_per_weight(checkpoint.size_bytes(), checkpoint.parameters()),
               bits_per_weight(bytes, parameters));
}

void print_calibration(const ReportWriter& writer,
                       const std::vector<io::CalibrationSource>& calibration) {
  for (const io::CalibrationSource& text : calibration) {
    writer.print("  {:<24}{} tokens of {} ({} bytes, xxh3 {})\n", "calibration", text.tokens,
                 printable(text.name), text.bytes, printable(text.xxh3));
  }
}

void print_compression(const ReportWriter& writer, const io::ModelConfig& config,
                       const io::Checkpoint& checkpoint) {
  if (config.quantization) {
    writer.print("  {:<24}{}; a bf16 scale per row and {} columns\n", "weights",
                 io::quantization_text(*config.quantization), io::kScaleGroupSize);
    print_calibration(writer, config.quantization->calibration);
  }
  if (!checkpoint.foreign_text().empty()) {
    writer.print("  {:<24}{}\n", "weights", checkpoint.foreign_text());
  }
  if (!config.compression) return;
  const io::CompressionRecord& record = *config.compression;
  writer.print("  {:<24}form {}, method {}, ratio {} (removed), block {}{}, allocate {}\n",
               "compression", record.form, record.method, record.ratio, record.block,
               record.align.empty() ? "" : ", align " + record.align, record.allocate);
  print_calibration(writer, record.calibration);
}

void print_row(const ReportWriter& writer, std::string_view range, std::string_view name,
               const MatrixRow& row, const io::ModelConfig& config) {
  writer.print("{:<9}{:<8}{:>8}{:>8}{:>8}{:>10.4f}{:>12.3f}\n", range, name, row.in,
               row.rank == 0 ? "dense" : fmt::format("{}", row.rank), row.out,
               kept_share(row, config), megabytes(row.bytes));
}

// Prints one group of rows for each run of adjacent layers with equal rows.
void print_layers(const ReportWriter& writer, const std::vector<LayerRows>& layers,
                  const io::ModelConfig& config) {
  writer.print("\n{:<9}{:<8}{:>8}{:>8}{:>8}{:>10}{:>12}\n", "layers", "matrix", "K (in)", "rank",
               "N (out)", "kept", "MB each");
  for (size_t first = 0, last = 0; first < layers.size(); first = last) {
    while (last < layers.size() && layers[last] == layers[first]) ++last;
    const std::string range =
        last - first == 1 ? fmt::format("{}", first) : fmt::format("{}-{}", first, last - 1);
    const LayerRows& layer = layers[first];
    if (layer.input.rank > 0) print_row(writer, range, "input", layer.input, config);
    for (size_t i = 0; i < kMatrixNames.size(); ++i) {
      print_row(writer, range, kMatrixNames[i], layer.matrices[i], config);
    }
    const MatrixRow total = layer.total();
    writer.print("{:<9}{:<8}{:>24}{:>10.4f}{:>12.3f}\n", range, "MLP",
                 fmt::format("{} neurons", layer.neurons),
                 kept_share(total, config, std::ssize(layer.matrices)), megabytes(total.bytes));
  }
}

void print_tensors(const ReportWriter& writer, const io::Checkpoint& checkpoint) {
  writer.print("\n{:<56}{:<6}{:<20}{:>14}\n", "tensor", "dtype", "shape", "bytes");
  for (const auto& [name, tensor] : checkpoint.tensors()) {
    // The debug format escapes control characters in a hostile name. Its quotes are removed.
    const std::string quoted = fmt::format("{:?}", name);
    writer.print("{:<56}{:<6}{:<20}{:>14}\n", quoted.substr(1, quoted.size() - 2),
                 type_name(tensor), shape_string(tensor.shape), tensor.size_bytes());
  }
}

Json tensors_json(const io::Checkpoint& checkpoint) {
  Json tensors = Json::object();
  for (const auto& [name, tensor] : checkpoint.tensors()) {
    tensors[name] = {
        {"dtype", type_name(tensor)}, {"shape", tensor.shape}, {"bytes", tensor.size_bytes()}};
  }
  return tensors;
}

Result<int> run_inspect(const InspectOptions& options) {
  NMM_ASSIGN(ReportWriter writer, ReportWriter::open(options.json));
  const std::filesystem::path folder = options.folder;
  NMM_ASSIGN(const io::ModelFolder model, io::open_model(folder));
  const io::ModelConfig& config = model.config;
  const io::Checkpoint& checkpoint = model.checkpoint;
  NMM_ASSIGN(const std::vector<LayerRows> layers, read_layers(checkpoint, config));
  print_config(writer, config);
  print_totals(writer, checkpoint, layers);
  print_compression(writer, config, checkpoint);
  print_layers(writer, layers, config);
  if (options.processes > 0) {
    NMM_TRY(print_processes(writer, checkpoint, config, options.processes));
  }
  if (options.tensors) print_tensors(writer, checkpoint);
  Json json = model_json(config, checkpoint, layers);
  if (options.tensors) json["tensors"] = tensors_json(checkpoint);
  NMM_TRY(writer.write_json(json));
  return 0;
}

}  // namespace

void add_inspect(Program& program) {
  auto options = std::make_shared<InspectOptions>();
  CLI::App* command =
      program.add(CommandGroup::kModels, "inspect", "Show a model's shape, size and ranks",
                  {"neuronmm inspect MODEL_DIR", "neuronmm inspect MODEL_DIR --tensors"});
  command->add_option("MODEL_DIR", options->folder, kModelHelp)->required()->group(kInput);
  command->add_flag("--tensors", options->tensors, "Also list every tensor")->group(kOutput);
  add_json_option(command, options->json, "the description");
  command
      ->add_option("--processes", options->processes,
                   "Also show how N processes under mpirun would share it")
      ->check(CLI::Range(2, 1024))
      ->group(kAdvanced);
  program.set_run(command, [options] { return run_inspect(*options); });
}

}  // namespace neuronmm::apps
