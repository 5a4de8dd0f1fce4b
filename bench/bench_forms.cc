// Compares the fused MLP in every form with the dense one on the CPU, at the same share of
// parameters. No form should cost more per multiplication than two factors (uv). Each form should
// be faster than the dense MLP by as much as it has fewer parameters. This holds for the
// multiplications of a prefill and for the bytes of a decode step.
//
// All forms run in one process and in turns, with their weights in memory and not in a cache. The
// program prints the median and the quartiles of --repeats turns. "gain" is the dense median
// divided by this form's. "of allowed" is the gain times the share of parameters. "to uv" is the
// time per parameter of uv divided by this form's.

#include <cmath>
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "base/parallel.h"
#include "cpu/backend.h"
#include "cpu/kernels.h"
#include "machine_limits.h"
#include "mlp_shapes.h"
#include "random_weight.h"
#include "timing.h"

namespace neuronmm::bench {
namespace {

struct Options {
  std::vector<std::string> models = {"smollm2-135m", "llama-3.2-1b"};
  std::vector<int64_t> rows = {1, 4, 16, 128, 512};
  std::vector<int> bits = {16, 8};
  double ratio = 0.2;
  int64_t block = 32;
  int repeats = 15, threads = 0;
};

// Every weight that some form needs, by its place in the MLP. Weights that a form does not have are
// empty.
class FormWeights {
 public:
  FormWeights(const MlpShape& shape, std::mt19937& random) : shape_(shape), random_(random) {}

  ops::MlpWeight view(int bits) const {
    ops::MlpWeight mlp = {linear(gate_, bits), linear(up_, bits), linear(down_, bits)};
    mlp.in = pivots(in_, bits);
    return mlp;
  }
  int64_t parameters() const {
    const ops::MlpWeight mlp = view(16);
    return mlp.gate.parameters() + mlp.up.parameters() + mlp.down.parameters() +
           mlp.in.map_t.size();
  }

  void make_uv(int64_t rank) {
    for (Part* part : {&gate_, &up_}) {
      part->u = weight(rank, shape_.hidden);
      part->v = weight(shape_.intermediate, rank);
    }
    down_.u = weight(rank, shape_.intermediate);
    down_.v = weight(shape_.hidden, rank);
  }
  void make_pivoted(int64_t rank) {
    for (Part* part : {&gate_, &up_}) {
      part->w = weight(shape_.intermediate, rank);
      part->in = map(rank, rank, shape_.hidden - rank);
    }
    down_.w = weight(rank, shape_.intermediate);
    down_.out = map(rank, shape_.hidden - rank, rank);
  }
  // A size that is not reduced gets no pivots.
  void make_mixed(int64_t input, int64_t neurons, int64_t output) {
    gate_.w = weight(neurons, input);
    up_.w = weight(neurons, input);
    down_.w = weight(output, neurons);
    if (input < shape_.hidden) in_ = map(input, input, shape_.hidden - input);
    if (output < shape_.hidden) down_.out = map(output, shape_.hidden - output, output);
  }

 private:
  using OwnedWeight = std::unique_ptr<RandomWeight>;
  struct Map {
    std::vector<int32_t> index;
    OwnedWeight values;
  };
  struct Part {
    OwnedWeight w, u, v;
    Map in, out;
  };

  OwnedWeight weight(int64_t rows, int64_t columns) {
    return std::make_unique<RandomWeight>(rows, columns, random_);
  }
  // Makes a map whose pivots are spread over all elements.
  Map map(int64_t rank, int64_t rows, int64_t columns) {
    Map out = {{}, weight(rows, columns)};
    for (int64_t i = 0; i < rank; ++i) {
      out.index.push_back(static_cast<int32_t>(i * shape_.hidden / rank));
    }
    return out;
  }
  static ops::WeightView view(const OwnedWeight& owned, int bits) {
    return owned ? owned->view(bits) : ops::WeightView();
  }
  static ops::Pivots pivots(const Map& map, int bits) {
    return {.index = map.index, .map_t = view(map.values, bits)};
  }
  static ops::LinearWeight linear(const Part& part, int bits) {
    return {.w_t = view(part.w, bits),
            .u_t = view(part.u, bits),
            .v_t = view(part.v, bits),
            .in = pivots(part.in, bits),
            .out = pivots(part.out, bits)};
  }

  MlpShape shape_;
  std::mt19937& random_;
  Part gate_, up_, down_;
  Map in_;
};

struct NamedForm {
  std::string name;
  FormWeights weights;
};

// Returns every form with the sizes at which it keeps 1 - ratio of the parameters
// (docs/design/forms.md).
std::vector<NamedForm> make_forms(const MlpShape& shape, const Options& options,
                                  std::mt19937& random) {
  const auto h = static_cast<double>(shape.hidden), i = static_cast<double>(shape.intermediate);
  const double kept = 1.0 - options.ratio;
  const auto aligned = [&](double size) {
    return std::max<int64_t>(1, std::lround(size / static_cast<double>(options.block))) *
           options.block;
  };
  const auto root = [](double b, double c) { return (b - std::sqrt(b * b - 4.0 * c)) / 2.0; };
  std::vector<NamedForm> forms;
  const auto form = [&](const char* name) -> FormWeights& {
    return forms.emplace_back(NamedForm{name, FormWeights(shape, random)}).weights;
  };
  form("dense").make_mixed(shape.hidden, shape.intermediate, shape.hidden);
  form("uv").make_uv(aligned(kept * h * i / (h + i)));
  form("pivoted").make_pivoted(aligned(root(h + i, h * i * kept)));
  // The sizes of "narrow" and "mixed" solve 2rI + r(H - r) + rI + r(H - r) = 3 H I kept, where
  // "mixed" has fewer neurons I.
  const auto narrow_size = [&](double neurons) {
    return aligned(root((3.0 * neurons + 2.0 * h) / 2.0, 3.0 * h * i * kept / 2.0));
  };
  const int64_t narrow = narrow_size(i);
  form("narrow").make_mixed(narrow, shape.intermediate, narrow);
  form("neurons").make_mixed(shape.hidden, aligned(kept * i), shape.hidden);
  const int64_t neurons = aligned((1.0 - options.ratio / 2.0) * i);
  const int64_t width = narrow_size(static_cast<double>(neurons));
  form("mixed").make_mixed(width, neurons, width);
  return forms;
}

void print_rows(int64_t m, int bits, const std::vector<NamedForm>& forms,
                const std::vector<Seconds>& times) {
  const auto parameters = [&](size_t i) {
    return static_cast<double>(forms[i].weights.parameters());
  };
  for (size_t i = 0; i < forms.size(); ++i) {
    const double gain = times[0].median / times[i].median;
    const double to_uv = times[1].median / parameters(1) / (times[i].median / parameters(i));
    fmt::print(
        "{:>5} {:<5}{:<8} {:>6.3f} {:>9.3f} {:>9.3f}-{:<9.3f} {:>8.1f} {:>6.2f} {:>9.0f}% "
        "{:>6.2f}\n",
        m, bits == 8 ? "int8" : "bf16", forms[i].name, parameters(i) / parameters(0),
        times[i].median * 1e3, times[i].lower_quartile * 1e3, times[i].upper_quartile * 1e3,
        2.0 * static_cast<double>(m) * parameters(i) / times[i].median / 1e9, gain,
        100.0 * gain * parameters(i) / parameters(0), to_uv);
  }
}

void run(const Options& options, const ops::Backend& backend) {
  const CacheFlusher flush;
  for (const std::string& model : options.models) {
    const MlpShape& shape = kModels.at(model);
    std::mt19937 random(1);
    const std::vector<NamedForm> forms = make_forms(shape, options, random);
    fmt::print(
        "\n{}: hidden {}, {} neurons\n{:>5} {:<5}{:<8} {:>6} {:>9} {:>19} {:>8} {:>6} {:>10} "
        "{:>6}\n",
        model, shape.hidden, shape.intermediate, "M", "", "form", "kept", "median ms",
        "quartiles ms", "GFLOP/s", "gain", "of allowed", "to uv");
    for (const int bits : options.bits) {
      std::vector<std::unique_ptr<ops::Mlp>> mlps;
      for (const NamedForm& form : forms) mlps.push_back(backend.make_mlp(form.weights.view(bits)));
      for (const int64_t m : options.rows) {
        Matrix x(m, shape.hidden), y(m, shape.hidden);
        std::normal_distribution<float> normal;
        for (int64_t i = 0; i < m * shape.hidden; ++i) x.data()[i] = normal(random);
        std::vector<std::function<void()>> runs;
        for (const auto& mlp : mlps) runs.push_back([&] { mlp->apply(x.view(), y.view()); });
        print_rows(m, bits, forms, take_turns(runs, options.repeats, [&](size_t) { flush(); }));
      }
    }
  }
}

}  // namespace
}  // namespace neuronmm::bench

int main(int argc, char** argv) {
  using namespace neuronmm;
  bench::Options options;
  CLI::App app("Compares the speed of the fused MLP in every form with that of the dense MLP.");
  app.add_option("--models", options.models, "models whose MLP shapes are timed")
      ->check(CLI::IsMember(bench::model_names()))
      ->capture_default_str();
  app.add_option("--rows", options.rows, "numbers of tokens M that are multiplied at once")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--bits", options.bits, "bits of a weight")
      ->check(CLI::IsMember({8, 16}))
      ->capture_default_str();
  app.add_option("--ratio", options.ratio, "share of the parameters that the forms remove")
      ->check(CLI::Range(0.0, 0.95))
      ->capture_default_str();
  app.add_option("--block", options.block, "number that all sizes are multiples of")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--repeats", options.repeats, "timed turns")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--threads", options.threads, "number of threads; 0 uses all cores (default 0)")
      ->check(CLI::NonNegativeNumber);
  CLI11_PARSE(app, argc, argv);
  if (options.threads > 0) set_num_threads(options.threads);
  const auto backend = cpu::make_backend(cpu::best_kernels());
  fmt::print("{}\n", backend->name());
  bench::run(options, *backend);
  return 0;
}
