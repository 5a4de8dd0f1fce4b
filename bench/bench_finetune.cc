// Measures the speed of training with a teacher: the forward pass of both models, the divergence,
// and the gradients of all factors. The data is one micro-batch of random tokens, in fp32 and in
// bf16. The program compares the speed with the time that the products alone would take at this
// machine's measured limit. An update, which happens once per batch, is timed separately.
//
//   bench_finetune MODEL_DIR TEACHER_DIR [--sequences 4] [--length 256] [--repeats 3]
//
// Run it as `neuronmm finetune` runs its trainer (apps/training/trainer.h has the two environment
// variables). Processor seconds are the sum over all threads. On a machine with other work they are
// more reliable than the time on the clock.

#include <ctime>
#include <random>

#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include "base/parallel.h"
#include "finetune/trainable_model.h"
#include "machine_limits.h"
#include "timing.h"

namespace neuronmm::bench {
namespace {

struct Settings {
  std::string model, teacher;
  int64_t sequences = 4, length = 256;
  int repeats = 3;
  std::vector<std::string> products = {"bf16", "fp32"};
};

double processor_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

// Returns the elements of all matrices that every token is multiplied with, including the LM head.
double product_elements(const io::Checkpoint& checkpoint, const io::ModelConfig& config) {
  double elements = static_cast<double>(config.vocab_size * config.hidden_size);
  for (const auto& [name, tensor] : checkpoint.tensors()) {
    const bool in_layer = name.find("layers.") != std::string::npos;
    if (in_layer && tensor.shape.size() == 2) elements += static_cast<double>(tensor.size());
  }
  return elements;
}

// Returns the FLOPs of the products with keys and values for one token in one forward pass. The
// causal mask saves half of them.
double attention_flops(const io::ModelConfig& config, int64_t length) {
  return 2.0 * static_cast<double>(config.num_hidden_layers * config.num_attention_heads *
                                   config.head_dim * length);
}

// Counts a multiply-add as two. The backward pass of a product has as many FLOPs for the gradient
// of its input, and again as many for the gradient of its weight.
double flops_per_token(const finetune::TrainableModel& model, const io::Checkpoint& teacher,
                       int64_t length) {
  const double own = product_elements(model.checkpoint(), model.config());
  const double theirs = product_elements(teacher, model.config());
  return 2.0 * theirs + 4.0 * own + 2.0 * static_cast<double>(model.trainable_parameters()) +
         4.0 * attention_flops(model.config(), length);
}

std::vector<finetune::Example> random_sequences(const Settings& settings, int64_t vocabulary) {
  std::mt19937_64 random(1);
  std::vector<finetune::Example> examples(static_cast<size_t>(settings.sequences));
  for (finetune::Example& example : examples) {
    for (int64_t i = 0; i < settings.length; ++i) {
      example.tokens.push_back(
          static_cast<text::TokenId>(random() % static_cast<uint64_t>(vocabulary)));
    }
  }
  return examples;
}

Status measure(const Settings& settings, const std::string& products, double gflops_limit) {
  finetune::ModelOptions options;
  options.model = settings.model;
  options.teacher = settings.teacher;
  options.activation_bytes = int64_t{4} << 30;
  options.compute = products == "bf16" ? DType::kBF16 : DType::kF32;
  NMM_ASSIGN(auto model, finetune::TrainableModel::load(options));
  NMM_ASSIGN(const auto teacher, io::Checkpoint::open(settings.teacher));
  model.begin_phase(finetune::Part::kFactors, {}, 0);
  const auto examples = random_sequences(settings, model.config().vocab_size);
  std::vector<const finetune::Example*> batch;
  for (const finetune::Example& example : examples) batch.push_back(&example);
  const auto tokens = static_cast<double>(settings.sequences * settings.length);
  model.accumulate(batch, 1.0 / tokens);  // warms up
  std::vector<double> wall, processor;
  for (int i = 0; i < settings.repeats; ++i) {
    const double start = processor_seconds();
    wall.push_back(seconds_of([&] { model.accumulate(batch, 1.0 / tokens); }));
    processor.push_back(processor_seconds() - start);
  }
  const double update = seconds_of([&] { model.update(1e-6, 1); });
  const double flops = flops_per_token(model, teacher, settings.length);
  const double rate = tokens / statistics_of(wall).median;
  fmt::print(
      "{:<8} {:7.1f} tokens/s, {:.2f} processor ms per token; {:.3f} GFLOP per token, so {:.1f} "
      "GFLOP/s: {:.0f} % of the limit of {:.0f}, which would be {:.0f} tokens/s; update {:.2f} s\n",
      products, rate, 1e3 * statistics_of(processor).median / tokens, flops / 1e9,
      rate * flops / 1e9, 100 * rate * flops / 1e9 / gflops_limit, gflops_limit,
      gflops_limit * 1e9 / flops, update);
  return {};
}

int run(const Settings& settings) {
  finetune::set_torch_threads(num_threads());
  const MachineLimits limits = measure_machine_limits();
  for (const std::string& products : settings.products) {
    const double limit = products == "bf16" ? limits.bf16_gflops : limits.fma_gflops;
    const Status measured = measure(settings, products, limit);
    if (!measured.ok()) return fmt::print(stderr, "{}\n", measured.error().message), 1;
  }
  return 0;
}

}  // namespace
}  // namespace neuronmm::bench

int main(int argc, char** argv) {
  neuronmm::bench::Settings settings;
  CLI::App app("Measures the speed of training with a teacher.");
  app.add_option("MODEL_DIR", settings.model, "folder of the compressed model")->required();
  app.add_option("TEACHER_DIR", settings.teacher, "folder of the dense model")->required();
  app.add_option("--sequences", settings.sequences, "sequences in the micro-batch (default 4)")
      ->check(CLI::PositiveNumber);
  app.add_option("--length", settings.length, "tokens in a sequence (default 256)")
      ->check(CLI::Range(2, 8192));
  app.add_option("--repeats", settings.repeats, "timed steps (default 3)")
      ->check(CLI::PositiveNumber);
  app.add_option("--products", settings.products, "dtypes of products (default: both)")
      ->check(CLI::IsMember({"bf16", "fp32"}));
  CLI11_PARSE(app, argc, argv);
  return neuronmm::bench::run(settings);
}
