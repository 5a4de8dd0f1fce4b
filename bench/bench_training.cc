// Measures the speed of src/training in tokens per second: the gradients of MLP outputs, the
// reconstruction of one layer, and distillation with all matrices of the layers trained. The tokens
// are random. With --limit it also measures the CPU's limit for the products.
//
//   bench_training MODEL_DIR [--sequences 4] [--length 512] [--repeats 3] [--kept-gb 2] [--limit]
//
// Processor seconds are the sum over all threads. On a machine with other work they say more than
// the time on the clock.

#include <ctime>
#include <random>

#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include "base/parallel.h"
#include "machine_limits.h"
#include "timing.h"
#include "training/layer_training.h"
#include "training/model_training.h"
#include "training/output_gradients.h"

namespace neuronmm::bench {
namespace {

using training::Model;
using training::Precision;
using training::Rows;

struct Settings {
  std::string model;
  int64_t sequences = 4, length = 512;
  int repeats = 3;
  double kept_gb = 2.0;  // of activations
  bool limit = false;

  double tokens() const { return static_cast<double>(sequences * length); }
};

// Runs `work` once to warm up and then several times, and prints its speed for `tokens` tokens.
template <typename Work>
void print_speed(const char* what, double tokens, int repeats, const Work& work) {
  work();
  std::vector<double> wall;
  const std::clock_t start = std::clock();
  for (int i = 0; i < repeats; ++i) wall.push_back(seconds_of(work));
  const double processor = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  fmt::print("{:<34}{:8.0f} tokens/s, {:.3f} processor ms per token\n", what,
             tokens / statistics_of(wall).median, 1e3 * processor / tokens / repeats);
}

std::vector<training::TokenSequence> random_sequences(const Settings& settings,
                                                      int64_t vocabulary) {
  std::mt19937_64 random(1);
  std::vector<training::TokenSequence> sequences(static_cast<size_t>(settings.sequences));
  for (training::TokenSequence& tokens : sequences) {
    for (int64_t i = 0; i < settings.length; ++i) {
      tokens.push_back(static_cast<text::TokenId>(random() % static_cast<uint64_t>(vocabulary)));
    }
  }
  return sequences;
}

bool is_layer_matrix(std::string_view name) {
  return name.find("layers.") != std::string_view::npos && name.ends_with("_proj.weight");
}

void measure_metric(const Settings& settings, Model<float>& model,
                    std::span<const training::TokenSequence> sequences) {
  const training::OutputObserver<float> observer = {
      [](int64_t, const training::MlpGradients<float>&) {}};
  print_speed("gradients of outputs", settings.tokens(), settings.repeats,
              [&] { (void)training::output_gradients(model, sequences, 1, 0, observer).ok(); });
}

// One layer is trained, and the speed is that of all layers.
void measure_layer(const Settings& settings, Model<float>& model,
                   std::span<const training::TokenSequence> sequences) {
  training::Tape<float> silent(model.precision(), false);
  const auto x = model.embed(silent, sequences);
  const training::Sequences lengths = training::lengths_of(sequences);
  training::Layer<float>& layer = model.layer(0);
  const Rows<float> targets =
      training::run_layer<float>(layer, model.precision(), x->view(), lengths);
  training::train<float>(layer, [](std::string_view) { return true; });
  training::LayerTraining<float> trained(layer, model.precision(), {});
  const double tokens = settings.tokens() / static_cast<double>(model.num_layers());
  print_speed("reconstruction of all layers", tokens, settings.repeats, [&] {
    trained.optimizer().clear_gradients();
    trained.accumulate(x->view(), targets.view(), lengths, 1.0 / settings.tokens());
    trained.optimizer().update(1e-6);
  });
}

Status run(const Settings& settings) {
  const Precision precision = training::fastest_precision();
  fmt::print("{} threads, products in {}\n", num_threads(),
             precision == Precision::kBf16 ? "bf16" : "fp32");
  if (settings.limit) {
    const MachineLimits limits = measure_machine_limits();
    fmt::print("limit of products: {:.0f} GFLOP/s\n",
               precision == Precision::kBf16 ? limits.bf16_gflops : limits.fma_gflops);
  }
  NMM_ASSIGN(auto student, Model<float>::open(settings.model, precision));
  const auto sequences = random_sequences(settings, student->config().vocab_size);
  measure_metric(settings, *student, sequences);
  measure_layer(settings, *student, sequences);
  NMM_ASSIGN(auto teacher, Model<float>::open(settings.model, precision));
  teacher->freeze();
  student->train(is_layer_matrix);
  const auto kept = static_cast<int64_t>(settings.kept_gb * 1e9);
  training::ModelTraining<float> distillation(*student, teacher.get(), kept);
  training::Optimizer<float> optimizer(training::trained_parameters<float>(*student), {});
  print_speed("distillation", settings.tokens(), settings.repeats, [&] {
    optimizer.clear_gradients();
    distillation.accumulate({sequences}, 1.0 / settings.tokens());
    optimizer.update(1e-6);
  });
  return {};
}

}  // namespace
}  // namespace neuronmm::bench

int main(int argc, char** argv) {
  neuronmm::bench::Settings settings;
  CLI::App app("Measures the speed of training.");
  app.add_option("MODEL_DIR", settings.model, "folder of a model with float weights")->required();
  app.add_option("--sequences", settings.sequences, "sequences in the batch (default 4)")
      ->check(CLI::PositiveNumber);
  app.add_option("--length", settings.length, "tokens in a sequence (default 512)")
      ->check(CLI::Range(2, 8192));
  app.add_option("--repeats", settings.repeats, "timed steps (default 3)")
      ->check(CLI::PositiveNumber);
  app.add_option("--kept-gb", settings.kept_gb, "activations that are kept (default 2)")
      ->check(CLI::NonNegativeNumber);
  app.add_flag("--limit", settings.limit, "also measure the CPU's limit for products");
  CLI11_PARSE(app, argc, argv);
  const neuronmm::Status done = neuronmm::bench::run(settings);
  if (!done.ok()) fmt::print(stderr, "{}\n", done.error().message);
  return done.ok() ? 0 : 1;
}
