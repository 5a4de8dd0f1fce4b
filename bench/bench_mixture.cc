// Measures one layer of experts: how fast decoding reads the weights of the chosen experts, and how
// fast a prompt is multiplied with them. It is compared with dense MLPs that have the same bytes
// and the same multiplications per token, and with the layer that applies one expert after the
// other.
//
// Every implementation has as many bytes of weights in all as the experts, so that none finds more
// of them in a cache: dense MLPs take turns, as the layers of a model do. Experts share the values
// of a few random weights, but each has its own packed copy.

#include <algorithm>
#include <functional>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include "base/parallel.h"
#include "cpu/backend.h"
#include "cpu/kernels.h"
#include "io/mxfp4.h"
#include "ops/mixture.h"
#include "random_weight.h"
#include "timing.h"

namespace neuronmm::bench {
namespace {

struct Options {
  int64_t hidden = 2048, width = 768, experts = 128, active = 8, prompt_tokens = 512;
  int bits = 4, decoded_tokens = 64, repeats = 3;
  bool mxfp4 = false;  // in place of `bits`
};

// Random codes and scales of a matrix in MXFP4.
class RandomMxfp4 {
 public:
  RandomMxfp4(int64_t rows, int64_t columns, std::mt19937& random)
      : codes_(static_cast<size_t>(rows * columns / 2)),
        scales_(static_cast<size_t>(rows * columns / io::kMxfp4Group)),
        matrix_(codes_.data(), scales_.data(), 0, 1, rows, io::Mxfp4Matrix::groups_of(columns)) {
    for (std::byte& code : codes_) code = static_cast<std::byte>(random());
    // Sums over some thousand columns are then about as large as the inputs.
    for (std::byte& scale : scales_) scale = static_cast<std::byte>(119 + random() % 3);
  }
  ops::WeightView view() const { return matrix_.view(); }

 private:
  std::vector<std::byte> codes_, scales_;
  io::Mxfp4Matrix matrix_;
};

// Random weights of an MLP, rounded to `bits`.
struct RandomMlp {
  RandomMlp(int64_t hidden, int64_t width, std::mt19937& random)
      : gate(width, hidden, random),
        up(width, hidden, random),
        down(hidden, width, random),
        gate4(width, hidden, random),
        up4(width, hidden, random),
        down4(hidden, width, random) {}
  ops::MlpWeight view(const Options& options) const {
    if (options.mxfp4) return {{.w_t = gate4.view()}, {.w_t = up4.view()}, {.w_t = down4.view()}};
    const int bits = options.bits;
    return {{.w_t = gate.view(bits)}, {.w_t = up.view(bits)}, {.w_t = down.view(bits)}};
  }
  RandomWeight gate, up, down;
  RandomMxfp4 gate4, up4, down4;
};

int64_t stored_bytes(const ops::MlpWeight& weight) {
  return weight.gate.stored_bytes() + weight.up.stored_bytes() + weight.down.stored_bytes();
}

Matrix random_rows(int64_t rows, int64_t columns, std::mt19937& random) {
  Matrix x(rows, columns);
  std::normal_distribution<float> normal;
  std::generate_n(x.data(), rows * columns, [&] { return normal(random); });
  return x;
}

// The layers that are compared. Each has one layer, or some that take turns.
struct Layers {
  std::string name;
  std::vector<std::unique_ptr<ops::Mlp>> layers;
  size_t next = 0;

  void apply(ConstMatrixView x, MutableMatrixView y) {
    layers[next++ % layers.size()]->apply(x, y);
  }
};

std::vector<Layers> make_layers(const Options& options, const ops::Backend& backend,
                                int64_t& bytes_of_expert) {
  std::mt19937 random(1);
  constexpr int kDistinct = 3;
  std::vector<std::unique_ptr<RandomMlp>> drawn;
  for (int i = 0; i < kDistinct; ++i) {
    drawn.push_back(std::make_unique<RandomMlp>(options.hidden, options.width, random));
  }
  const Matrix router = random_rows(options.experts, options.hidden, random);
  ops::MixtureWeight weight = {
      .router = {.w_t = TensorView{DType::kF32,
                                   {options.experts, options.hidden},
                                   reinterpret_cast<const std::byte*>(router.view().data)}},
      .active = options.active};
  for (int64_t e = 0; e < options.experts; ++e) {
    weight.experts.push_back(drawn[static_cast<size_t>(e % kDistinct)]->view(options));
  }
  bytes_of_expert = stored_bytes(weight.experts[0]);
  std::vector<Layers> all(3);
  all[0].name = "dense MLPs";
  const RandomMlp dense(options.hidden, options.active * options.width, random);
  for (int64_t i = 0; i < std::max<int64_t>(options.experts / options.active, 1); ++i) {
    all[0].layers.push_back(backend.make_mlp(dense.view(options)));
  }
  all[1].name = "mixture";
  all[1].layers.push_back(backend.make_mixture(weight));
  all[2].name = "one expert after the other";
  all[2].layers.push_back(ops::compose_mixture(backend, weight));
  return all;
}

// Returns a run of each implementation that applies it to some rows at a time.
std::vector<std::function<void()>> runs_of(std::vector<Layers>& all, const Matrix& x, Matrix& y,
                                           int64_t rows) {
  std::vector<std::function<void()>> runs;
  for (Layers& layers : all) {
    runs.emplace_back([&, rows] {
      for (int64_t i = 0; i + rows <= x.rows(); i += rows) {
        layers.apply(x.view().row_range(i, rows), y.view().row_range(i, rows));
      }
    });
  }
  return runs;
}

void run(const Options& options) {
  const auto backend = cpu::make_backend(cpu::best_kernels(cpu::default_choice()));
  int64_t bytes_of_expert = 0;
  std::vector<Layers> all = make_layers(options, *backend, bytes_of_expert);
  std::mt19937 random(2);
  const auto nothing = [](size_t) {};
  fmt::print("{}; {} experts of {} x {}, {} active, {}; median (fastest)\n", backend->name(),
             options.experts, options.hidden, options.width, options.active,
             options.mxfp4 ? "MXFP4" : fmt::format("{} bits", options.bits));

  const Matrix tokens = random_rows(options.decoded_tokens, options.hidden, random);
  Matrix y(std::max<int64_t>(options.decoded_tokens, options.prompt_tokens), options.hidden);
  const auto decode = take_turns(runs_of(all, tokens, y, 1), options.repeats, nothing);
  const Matrix prompt = random_rows(options.prompt_tokens, options.hidden, random);
  const auto read =
      take_turns(runs_of(all, prompt, y, options.prompt_tokens), options.repeats, nothing);

  // A mixture reads its router, too, which has 4 bytes per weight.
  const auto bytes_of = [&](size_t i) {
    const int64_t router = i == 0 ? 0 : 4 * options.experts * options.hidden;
    return static_cast<double>((options.active * bytes_of_expert + router) *
                               options.decoded_tokens);
  };
  const double dense_speed = bytes_of(0) / decode[0].median;
  const double operations = 6.0 * static_cast<double>(options.prompt_tokens * options.active) *
                            static_cast<double>(options.hidden * options.width);
  for (size_t i = 0; i < all.size(); ++i) {
    const double bytes = bytes_of(i), speed = bytes / decode[i].median;
    fmt::print(
        "{:28} decode {:7.2f} ({:7.2f}) GB/s, {:5.1f} %   prompt of {} {:8.1f} ({:8.1f}) "
        "GFLOP/s, {:5.1f} %\n",
        all[i].name, speed / 1e9, bytes / decode[i].minimum / 1e9, 100 * speed / dense_speed,
        options.prompt_tokens, operations / read[i].median / 1e9,
        operations / read[i].minimum / 1e9, 100 * read[0].median / read[i].median);
  }
}

int main(int argc, char** argv) {
  Options options;
  int threads = num_threads();
  CLI::App app(
      "Compares a layer of experts with dense MLPs of the same bytes and multiplications.");
  const auto sizes = CLI::Range(1, 1 << 20);
  app.add_option("--hidden", options.hidden, "hidden size (default 2048)")->check(sizes);
  app.add_option("--width", options.width, "neurons of an expert (default 768)")->check(sizes);
  app.add_option("--experts", options.experts, "number of experts (default 128)")->check(sizes);
  app.add_option("--active", options.active, "experts per token (default 8)")->check(sizes);
  app.add_option("--bits", options.bits, "bits of weights: 4, 6, 8 or 16 (default 4)")
      ->check(CLI::IsMember({4, 6, 8, 16}));
  app.add_flag("--mxfp4", options.mxfp4, "weights of MXFP4 in place of --bits")->excludes("--bits");
  app.add_option("--prompt-tokens", options.prompt_tokens, "tokens of the prompt (default 512)")
      ->check(sizes);
  app.add_option("--new-tokens", options.decoded_tokens, "tokens to decode (default 64)")
      ->check(sizes);
  app.add_option("--runs", options.repeats, "timed turns (default 3)")->check(CLI::Range(1, 1000));
  app.add_option("--threads", threads, "number of threads (default: all cores)")
      ->check(CLI::Range(1, 1024));
  CLI11_PARSE(app, argc, argv);
  if (options.active > options.experts) {
    fmt::print(stderr, "bench_mixture: --active {} is more than --experts {}\n", options.active,
               options.experts);
    return 2;
  }
  set_num_threads(threads);
  run(options);
  return 0;
}

}  // namespace
}  // namespace neuronmm::bench

int main(int argc, char** argv) { return neuronmm::bench::main(argc, argv); }
