// The command neuronmm inspect: shows the content of a model folder and how each MLP matrix was
// compressed.

#include <map>
#include <vector>

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/printable.h"
#include "commands.h"
#include "flags.h"
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

// Returns " in N of M layers", or nothing if it is all of them.
std::string layers_text(int64_t count, const io::ModelConfig& config) {
  if (count == config.num_hidden_layers) return {};
  return fmt::format(" in {} of {} layers", count, config.num_hidden_layers);
}

void print_windows(const ReportWriter& writer, const io::ModelConfig& config) {
  std::map<int64_t, int64_t> layers_of;
  for (const io::LayerAttention& layer : config.layers) ++layers_of[layer.window];
  for (const auto& [window, count] : layers_of) {
    if (window == 0) continue;
    writer.print("  {:<24}{}{}\n", "sliding_window", window, layers_text(count, config));
  }
}

void print_ropes(const ReportWriter& writer, const io::ModelConfig& config) {
  std::map<int64_t, int64_t> layers_of;
  for (const io::LayerAttention& layer : config.layers) ++layers_of[layer.rope];
  for (const auto& [index, count] : layers_of) {
    const std::string layers = layers_text(count, config);
    if (index == io::kNoRope) {
      writer.print("  {:<24}none{}\n", "RoPE", layers);
      continue;
    }
    const io::RopeTable& table = config.ropes.at(static_cast<size_t>(index));
    const bool partial = table.rotary_width > 0 && table.rotary_width < config.head_dim;
    writer.print(
        "  {:<24}theta {}{}{}{}\n", "RoPE", table.theta,
        table.scaling.index() == 0 ? "" : fmt::format(", {} scaling", io::rope_type(table.scaling)),
        partial ? fmt::format(", of {} dimensions", table.rotary_width) : "", layers);
  }
}

// Returns the switches of the forward pass that are not as in Llama and stand in no other line.
std::string other_switches(const io::ModelConfig& config) {
  std::vector<std::string> names;
  const auto number = [&](const char* name, double value, double usual) {
    if (value != usual) names.push_back(fmt::format("{} {:.6g}", name, value));
  };
  if (config.output_norms) {
    names.emplace_back(config.input_norms ? "norms of inputs and outputs"
                                          : "norms of outputs only");
  }
  if (config.activation == io::Activation::kGeluTanh) names.emplace_back("GeGLU (tanh)");
  if (config.activation == io::Activation::kClampedSwiglu) names.emplace_back("clamped SwiGLU");
  if (config.attention_sinks) names.emplace_back("attention sinks");
  if (config.attention_output_bias) names.emplace_back("o bias");
  if (config.mlp_bias) names.emplace_back("MLP biases");
  if (config.qk_norm == io::QkNorm::kWholeWidth) names.emplace_back("q/k norm of the whole width");
  if (config.qk_norm_after_rope) names.emplace_back("q/k norm after RoPE");
  number("gain offset", config.gain_offset, 0.0);
  number("score scale", config.score_scale, 0.0);
  number("score cap", config.score_cap, 0.0);
  number("logit cap", config.logit_cap, 0.0);
  number("embedding scale", config.embedding_scale, 1.0);
  number("residual scale", config.residual_scale, 1.0);
  number("logit divisor", config.logit_divisor, 1.0);
  number("clamp of q, k and v", config.qkv_clamp, 0.0);
  number("query temperature", config.query_temperature.beta, 0.0);
  return fmt::format("{}", fmt::join(names, ", "));
}

// Prints how many layers are mixtures, and of what.
void print_experts(const ReportWriter& writer, const io::ModelConfig& config) {
  if (!config.experts) return;
  const io::Experts& experts = *config.experts;
  int64_t layers = 0;
  for (int64_t i = 0; i < config.num_hidden_layers; ++i) layers += config.is_mixture(i) ? 1 : 0;
  writer.print("  {:<24}{}, {} per token, {}{} neurons each{}{}\n", "experts", experts.count,
               experts.active, experts.widths.empty() ? "" : "at most ", experts.width,
               experts.divided ? "" : ", weights not divided by their sum",
               layers_text(layers, config));
  int64_t input = 0, output = 0;
  for (const auto& [in, out] : experts.bases) {
    input += in > 0 ? 1 : 0;
    output += out > 0 ? 1 : 0;
  }
  if (input + output == 0) return;
  writer.print("  {:<24}of inputs in {} layers, of outputs in {}\n", "shared bases", input, output);
}

void print_config(const ReportWriter& writer, const io::ModelConfig& config) {
  writer.print("{}\n", io::architecture_name(config.architecture));
  writer.print("  {:<24}{}\n  {:<24}{}\n  {:<24}{}\n", "hidden_size", config.hidden_size,
               "intermediate_size", config.intermediate_size, "num_hidden_layers",
               config.num_hidden_layers);
  writer.print("  {:<24}{} heads, {} kv heads, head_dim {}{}{}\n", "attention",
               config.num_attention_heads, config.num_key_value_heads, config.head_dim,
               config.attention_bias ? ", q/k/v bias" : "",
               config.qk_norm != io::QkNorm::kNone ? ", q/k norm" : "");
  print_experts(writer, config);
  print_windows(writer, config);
  writer.print("  {:<24}{}{}\n", "vocab_size", config.vocab_size,
               config.tie_word_embeddings ? ", tied LM head" : "");
  writer.print("  {:<24}{}\n", "max_position_embeddings", config.max_position_embeddings);
  print_ropes(writer, config);
  if (const std::string others = other_switches(config); !others.empty()) {
    writer.print("  {:<24}{}\n", "other switches", others);
  }
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
    if (config.quantization->reconstruction_tokens > 0) {
      writer.print("  {:<24}from {} tokens\n", "layers learnt",
                   config.quantization->reconstruction_tokens);
    }
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
               const MatrixRow& row) {
  writer.print("{:<9}{:<8}{:>8}{:>8}{:>8}{:>10.4f}{:>12.3f}\n", range, name, row.in,
               row.rank == 0 ? "dense" : fmt::format("{}", row.rank), row.out, kept_share(row),
               megabytes(row.bytes));
}

// Prints one group of rows for each run of adjacent layers with equal rows.
void print_layers(const ReportWriter& writer, const std::vector<LayerRows>& layers) {
  writer.print("\n{:<9}{:<8}{:>8}{:>8}{:>8}{:>10}{:>12}\n", "layers", "matrix", "K (in)", "rank",
               "N (out)", "kept", "MB each");
  for (size_t first = 0, last = 0; first < layers.size(); first = last) {
    while (last < layers.size() && layers[last] == layers[first]) ++last;
    const std::string range =
        last - first == 1 ? fmt::format("{}", first) : fmt::format("{}-{}", first, last - 1);
    const LayerRows& layer = layers[first];
    if (layer.input.rank > 0) print_row(writer, range, "input", layer.input);
    for (size_t i = 0; i < kMatrixNames.size(); ++i) {
      print_row(writer, range, kMatrixNames[i], layer.matrices[i]);
    }
    if (layer.output.rank > 0) print_row(writer, range, "output", layer.output);
    const MatrixRow total = layer.total();
    writer.print("{:<9}{:<8}{:>24}{:>10.4f}{:>12.3f}\n", range, "MLP",
                 layer.experts == 0 ? fmt::format("{} neurons", layer.neurons)
                                    : fmt::format("{} x {} neurons", layer.experts, layer.neurons),
                 kept_share(total), megabytes(total.bytes));
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
  print_layers(writer, layers);
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
  add_adapter_option(command);
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
