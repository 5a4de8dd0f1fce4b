// Compares our CPU kernels for MLP weights with the machine's limits and with other libraries. All
// run in one process and in turns. Every contender finds its weights in memory and not in a cache,
// as a layer of a large model does.
//
//   dense  Y = X·W, the up projection        xuv  Y = X·U·V, the same at --ratio
//   mlp    down(silu(gate X) * up X), all three low-rank
//
// The program prints the median and the quartiles of --repeats turns, and rates are of the median.
// FLOPs are those of the method itself, and bytes those of its weights.
//
// "limit" is the share of the machine's limits, which are measured at the start. It is the larger
// of the time to compute and the time to read the weights, divided by the measured time. "x best"
// is the time of the best peer divided by ours. Our bf16 is compared with peers of 16 and 32 bits,
// and our int8 with all peers. "x int8" is the time of our int8 divided by that of fewer bits (4
// bits in groups of 16).

#include <cmath>
#include <fstream>
#include <map>
#include <random>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/parallel.h"
#include "cpu/backend.h"
#include "cpu/kernels.h"
#include "machine_limits.h"
#include "mlp_shapes.h"
#include "peers.h"
#include "random_weight.h"
#include "timing.h"

namespace neuronmm::bench {
namespace {

const std::map<std::string, cpu::DotProducts> kDotProducts = {
    {"none", cpu::DotProducts::kNone},
    {"int8", cpu::DotProducts::kInt8},
    {"bf16", cpu::DotProducts::kInt8AndBf16}};

struct Options {
  std::vector<std::string> models = {"llama-3.2-1b"};
  std::vector<int64_t> rows = {1, 2, 4, 8, 16, 64, 128, 512, 1024};
  std::vector<std::string> operations = {"dense", "xuv", "mlp"};
  double ratio = 0.2;
  int repeats = 7, threads = 0;
  cpu::DotProducts dot_products = cpu::DotProducts::kInt8;
  bool amx = true, peers = true;
  std::string json;
};

// Returns the rank after `ratio` of the weights is removed, a multiple of 128 (the rule of
// `compress`).
int64_t rank_of(const MlpShape& shape, double ratio) {
  const auto h = static_cast<double>(shape.hidden), i = static_cast<double>(shape.intermediate);
  return std::max<int64_t>(1, std::lround((1 - ratio) * h * i / ((h + i) * 128))) * 128;
}

struct LowRank {
  LowRank(int64_t k, int64_t rank, int64_t n, std::mt19937& random)
      : u(rank, k, random), v(n, rank, random) {}
  ops::LinearWeight weight(int bits) const { return {.u_t = u.view(bits), .v_t = v.view(bits)}; }
  RandomWeight u, v;
};

struct Weights {
  Weights(const MlpShape& shape, int64_t rank, std::mt19937& random)
      : dense(shape.intermediate, shape.hidden, random),
        gate(shape.hidden, rank, shape.intermediate, random),
        up(shape.hidden, rank, shape.intermediate, random),
        down(shape.intermediate, rank, shape.hidden, random) {}
  RandomWeight dense;
  LowRank gate, up, down;
};

// An implementation of an operation, ours or a peer's.
struct Contender {
  std::string name;
  bool ours;
  int bits;           // of a weight
  double size_bytes;  // the bytes of all weights
  std::function<void()> run;
  // Returns element [i, j] of the result, to check that all contenders compute the same. Empty if
  // only times are meaningful.
  std::function<float(int64_t, int64_t)> result;
};

// A chain of a peer's products with the activations between them.
class PeerLinear {
 public:
  PeerLinear(const Peer& peer, const std::vector<const Matrix*>& weights, int64_t rows) {
    for (const Matrix* w_t : weights) {
      products_.push_back(peer.product(*w_t, rows, w_t == weights.back()));
      outputs_.emplace_back(static_cast<size_t>(rows * w_t->rows()));
    }
  }
  void run(const void* x) {
    for (size_t i = 0; i < products_.size(); ++i) {
      products_[i]->apply(x, outputs_[i].data());
      x = outputs_[i].data();
    }
  }
  std::vector<float>& output() { return outputs_.back(); }

 private:
  std::vector<std::unique_ptr<PeerProduct>> products_;
  std::vector<std::vector<float>> outputs_;
};

void silu_multiply(const std::vector<float>& gate, std::vector<float>& up) {
  static const cpu::Kernels& kernels = cpu::best_kernels();
  parallel_ranges(std::ssize(up), [&](int64_t first, int64_t last) {
    kernels.silu_multiply(gate.data() + first, up.data() + first, last - first);
  });
}

// All contenders of one operation for one x.
class OperationBenchmark {
 public:
  OperationBenchmark(const ops::Backend& backend, const std::vector<std::unique_ptr<Peer>>& peers,
                     const Weights& weights, const Matrix& x)
      : backend_(backend), peers_(peers), weights_(weights), x_(x) {}

  std::vector<Contender> contenders(const std::string& operation) const {
    std::vector<Contender> all;
    for (const int bits : {16, 8, 6, 4}) {
      if (operation == "mlp") {
        add_our_mlp(all, bits);
      } else if (operation == "xuv") {
        add_ours(all, " fused", bits, weights_.up.weight(bits));
        add_sequential(all, bits);
      } else {
        add_ours(all, "", bits, {.w_t = weights_.dense.view(bits)});
      }
    }
    for (const std::unique_ptr<Peer>& peer : peers_) add_peer(all, *peer, operation);
    return all;
  }

 private:
  static double bytes(const ops::LinearWeight& weight) {
    double sum = 0;
    for (const ops::WeightView* view : {&weight.w_t, &weight.u_t, &weight.v_t}) {
      if (!view->empty()) sum += static_cast<double>(view->stored_bytes());
    }
    return sum;
  }
  static std::string our_name(int bits, const char* method) {
    return fmt::format("neuronmm {}{}{}", bits == 16 ? "bf" : "int", bits, method);
  }

  void add(std::vector<Contender>& all, std::string name, int bits, double size_bytes, int64_t n,
           const std::function<void(MutableMatrixView)>& apply) const {
    const auto y = std::make_shared<Matrix>(x_.rows(), n);
    all.push_back({std::move(name), true, bits, size_bytes, [=] { apply(y->view()); },
                   [=](int64_t i, int64_t j) { return y->row(i)[j]; }});
  }

  void add_ours(std::vector<Contender>& all, const char* method, int bits,
                const ops::LinearWeight& weight) const {
    const std::shared_ptr<ops::Linear> linear = backend_.make_linear(weight);
    add(all, our_name(bits, method), bits, bytes(weight), weight.out_features(),
        [=, this](MutableMatrixView y) { linear->apply(x_.view(), y); });
  }

  void add_sequential(std::vector<Contender>& all, int bits) const {
    const ops::LinearWeight weight = weights_.up.weight(bits);
    const std::shared_ptr<ops::Linear> u = backend_.make_linear({.w_t = weight.u_t});
    const std::shared_ptr<ops::Linear> v = backend_.make_linear({.w_t = weight.v_t});
    const auto inner = std::make_shared<Matrix>(x_.rows(), weight.rank());
    add(all, our_name(bits, " sequential"), bits, bytes(weight), weight.out_features(),
        [=, this](MutableMatrixView y) {
          u->apply(x_.view(), inner->view());
          v->apply(inner->view(), y);
        });
  }

  void add_our_mlp(std::vector<Contender>& all, int bits) const {
    const ops::MlpWeight weight = {weights_.gate.weight(bits), weights_.up.weight(bits),
                                   weights_.down.weight(bits)};
    const std::shared_ptr<ops::Mlp> mlp = backend_.make_mlp(weight);
    add(all, our_name(bits, " fused"), bits,
        bytes(weight.gate) + bytes(weight.up) + bytes(weight.down), weight.down.out_features(),
        [=, this](MutableMatrixView y) { mlp->apply(x_.view(), y); });
  }

  static std::vector<const Matrix*> chain(const LowRank& weight) {
    return {&weight.u.floats(), &weight.v.floats()};
  }
  bool supports(const Peer& peer, const std::vector<const Matrix*>& weights) const {
    return std::all_of(weights.begin(), weights.end(), [&](const Matrix* w_t) {
      return peer.supports(x_.rows(), w_t->columns(), w_t->rows());
    });
  }

  // Returns x in the peer's layout. The values do not matter if the peer's type is not fp32.
  std::shared_ptr<std::vector<float>> x_in_peer_layout(const Peer& peer) const {
    const auto values =
        std::make_shared<std::vector<float>>(static_cast<size_t>(x_.rows() * x_.columns()));
    if (peer.type() != PeerType::kFp32) return values;
    for (int64_t i = 0; i < x_.rows(); ++i) {
      for (int64_t j = 0; j < x_.columns(); ++j) {
        (*values)[static_cast<size_t>(peer.index(i, j, x_.rows(), x_.columns()))] = x_.row(i)[j];
      }
    }
    return values;
  }

  void add_peer(std::vector<Contender>& all, const Peer& peer, const std::string& operation) const {
    // Without bf16 instructions such peers are many times slower.
    constexpr int64_t kSlowRows = 16;
    const bool slow = !__builtin_cpu_supports("avx512bf16");
    if (slow && peer.type() == PeerType::kBf16 && x_.rows() > kSlowRows) return;
    if (operation == "mlp") {
      if (peer.type() == PeerType::kFp32) add_peer_mlp(all, peer);
      return;
    }
    const std::vector<const Matrix*> weights =
        operation == "xuv" ? chain(weights_.up) : std::vector{&weights_.dense.floats()};
    if (!supports(peer, weights)) return;
    const auto linear = std::make_shared<PeerLinear>(peer, weights, x_.rows());
    const auto x = x_in_peer_layout(peer);
    add_peer(all, peer, weights, weights.back()->rows(), linear, [=] { linear->run(x->data()); });
  }

  void add_peer_mlp(std::vector<Contender>& all, const Peer& peer) const {
    const auto chain_of = [&](const LowRank& weight) {
      return std::make_shared<PeerLinear>(peer, chain(weight), x_.rows());
    };
    std::vector<const Matrix*> weights;
    for (const LowRank* weight : {&weights_.gate, &weights_.up, &weights_.down}) {
      for (const Matrix* w_t : chain(*weight)) weights.push_back(w_t);
    }
    if (!supports(peer, weights)) return;
    const auto gate = chain_of(weights_.gate), up = chain_of(weights_.up);
    const auto down = chain_of(weights_.down);
    const auto x = x_in_peer_layout(peer);
    add_peer(all, peer, weights, weights_.down.v.floats().rows(), down, [=] {
      gate->run(x->data());
      up->run(x->data());
      silu_multiply(gate->output(), up->output());
      down->run(up->output().data());
    });
  }

  void add_peer(std::vector<Contender>& all, const Peer& peer,
                const std::vector<const Matrix*>& weights, int64_t n,
                const std::shared_ptr<PeerLinear>& last, std::function<void()> run) const {
    const int bits = peer.type() == PeerType::kFp32 ? 32 : peer.type() == PeerType::kBf16 ? 16 : 8;
    double size_bytes = 0;
    for (const Matrix* w_t : weights) {
      size_bytes += static_cast<double>(w_t->rows() * w_t->columns()) * bits / 8;
    }
    Contender contender = {peer.name(), false, bits, size_bytes, std::move(run), {}};
    if (peer.type() == PeerType::kFp32) {
      contender.result = [=, &peer, rows = x_.rows()](int64_t i, int64_t j) {
        return last->output()[static_cast<size_t>(peer.index(i, j, rows, n))];
      };
    }
    all.push_back(std::move(contender));
  }

  const ops::Backend& backend_;
  const std::vector<std::unique_ptr<Peer>>& peers_;
  const Weights& weights_;
  const Matrix& x_;
};

// Returns whether all results agree, to their precision, on a sample. A benchmark of wrong results
// is worthless.
bool results_agree(const std::vector<Contender>& all, int64_t rows, int64_t columns) {
  for (const Contender& contender : all) {
    if (!contender.result) continue;
    double error = 0, norm = 0;
    for (int64_t i = 0; i < rows; i += std::max<int64_t>(1, rows / 5)) {
      for (int64_t j = 0; j < columns; j += 37) {
        const double expected = static_cast<double>(all[0].result(i, j));
        error += std::pow(static_cast<double>(contender.result(i, j)) - expected, 2);
        norm += expected * expected;
      }
    }
    // The activations of the first contender may be bf16 (8 bits), up to four times in a row.
    const double tolerance = contender.bits == 4 ? 0.3 : contender.bits <= 8 ? 0.08 : 0.01;
    if (!(std::sqrt(error) <= tolerance * std::sqrt(norm))) {
      fmt::print(stderr, "{} is off by {:.1e} of the result\n", contender.name,
                 std::sqrt(error / norm));
      return false;
    }
  }
  return true;
}

class Report {
 public:
  Report(const std::string& device, const MachineLimits& limits, const Options& options)
      : limits_(limits),
        our_dot_products_(cpu::best_kernels({options.dot_products, options.amx}).dot_products) {
    fmt::print(
        "{}: {:.0f} GFLOP/s of FMA, {:.0f} of bf16 products, {:.0f} GOP/s of 8-bit products, "
        "streaming read {:.1f} GB/s\n",
        device, limits.fma_gflops, limits.bf16_gflops, limits.int8_gops, limits.read_gb_s);
    json_ = {{"device", device},
             {"fma_gflops", limits.fma_gflops},
             {"bf16_gflops", limits.bf16_gflops},
             {"int8_gops", limits.int8_gops},
             {"read_gb_s", limits.read_gb_s},
             {"ratio", options.ratio},
             {"repeats", options.repeats},
             {"results", nlohmann::json::array()}};
  }

  void begin(const std::string& model, const MlpShape& shape, int64_t rank) {
    model_ = model;
    fmt::print(
        "\n{}: K {}, r {}, N {}\n{:>5} {:<6}{:<25} {:>9} {:>19} {:>8} {:>7} {:>6} {:>7} {:>7}\n",
        model, shape.hidden, rank, shape.intermediate, "M", "what", "who", "median ms",
        "quartiles ms", "GFLOP/s", "GB/s", "limit", "x best", "x int8");
  }

  void add(const std::string& operation, int64_t m, int64_t parameters,
           const std::vector<Contender>& all, const std::vector<Seconds>& times) {
    for (size_t i = 0; i < all.size(); ++i) add(operation, m, parameters, all, times, i);
  }

  bool write(const std::string& path) const {
    std::ofstream file(path);
    file << json_.dump(2) << '\n';
    return file.good();
  }

 private:
  bool rounds_to_bf16(const Contender& contender) const {
    return contender.bits == 16 &&
           (!contender.ours || our_dot_products_ == cpu::DotProducts::kInt8AndBf16);
  }

  // Returns the median of the fastest peer. Peers are left out if their weights have fewer bits
  // than `bits`.
  static double best_peer(const std::vector<Contender>& all, const std::vector<Seconds>& times,
                          int bits) {
    double best = std::numeric_limits<double>::infinity();
    for (size_t i = 0; i < all.size(); ++i) {
      if (!all[i].ours && all[i].bits >= bits) best = std::min(best, times[i].median);
    }
    return best;
  }

  // Returns the median of our int8 kernels with the same method.
  static double our_int8(const std::vector<Contender>& all, const std::vector<Seconds>& times,
                         const Contender& contender) {
    const std::string method = contender.name.substr(std::string("neuronmm int4").size());
    for (size_t i = 0; i < all.size(); ++i) {
      if (all[i].name == "neuronmm int8" + method) return times[i].median;
    }
    return 0;
  }

  void add(const std::string& operation, int64_t m, int64_t parameters,
           const std::vector<Contender>& all, const std::vector<Seconds>& times, size_t i) {
    const Contender& contender = all[i];
    const Seconds& s = times[i];
    const double gflops = 2 * static_cast<double>(m * parameters) / s.median / 1e9;
    const double gigabytes = contender.size_bytes / s.median / 1e9;
    const double peak = contender.bits <= 8         ? limits_.int8_gops
                        : rounds_to_bf16(contender) ? limits_.bf16_gflops
                                                    : limits_.fma_gflops;
    const double limit = std::max(peak > 0 ? gflops / peak : 0, gigabytes / limits_.read_gb_s);
    const double ratio = best_peer(all, times, contender.bits) / s.median;
    const double speedup_over_int8 =
        contender.bits < 8 ? our_int8(all, times, contender) / s.median : 0;
    fmt::print(
        "{:>5} {:<6}{:<25} {:>9.3f} {:>9.3f}-{:<9.3f} {:>8.1f} {:>7.2f} {:>5.0f}% {:>7} {:>7}\n", m,
        operation, contender.name, s.median * 1e3, s.lower_quartile * 1e3, s.upper_quartile * 1e3,
        gflops, gigabytes, 100 * limit,
        contender.ours && std::isfinite(ratio) ? fmt::format("{:.2f}", ratio) : "",
        speedup_over_int8 > 0 ? fmt::format("{:.2f}", speedup_over_int8) : "");
    json_["results"].push_back({{"model", model_},
                                {"operation", operation},
                                {"m", m},
                                {"who", contender.name},
                                {"seconds_min", s.minimum},
                                {"seconds_lower_quartile", s.lower_quartile},
                                {"seconds_median", s.median},
                                {"seconds_upper_quartile", s.upper_quartile},
                                {"gflops", gflops},
                                {"gb_s", gigabytes},
                                {"times_int8", speedup_over_int8},
                                {"limit_share", limit}});
  }

  MachineLimits limits_;
  cpu::DotProducts our_dot_products_;
  std::string model_;
  nlohmann::json json_;
};

bool run(const Options& options, const ops::Backend& backend,
         const std::vector<std::unique_ptr<Peer>>& peers, Report& report) {
  const CacheFlusher flush;
  for (const std::string& model : options.models) {
    const MlpShape shape = kModels.at(model);
    const int64_t rank = rank_of(shape, options.ratio);
    std::mt19937 random(1);
    const Weights weights(shape, rank, random);
    report.begin(model, shape, rank);
    for (const int64_t m : options.rows) {
      Matrix x(m, shape.hidden);
      std::normal_distribution<float> normal;
      for (int64_t i = 0; i < m * shape.hidden; ++i) x.data()[i] = normal(random);
      for (const std::string& operation : options.operations) {
        const std::vector<Contender> all =
            OperationBenchmark(backend, peers, weights, x).contenders(operation);
        std::vector<std::function<void()>> runs;
        for (const Contender& contender : all) runs.push_back(contender.run);
        const auto before = [&](size_t i) {
          wait_until_peers_sleep();
          flush();
          if (!all[i].ours) wake_peer_threads();
        };
        const int64_t low_rank = rank * (shape.hidden + shape.intermediate);
        const int64_t parameters = operation == "dense" ? shape.hidden * shape.intermediate
                                   : operation == "xuv" ? low_rank
                                                        : 3 * low_rank;
        report.add(operation, m, parameters, all, take_turns(runs, options.repeats, before));
        const int64_t n = operation == "mlp" ? shape.hidden : shape.intermediate;
        if (!results_agree(all, m, n)) return false;
      }
    }
  }
  return true;
}

}  // namespace
}  // namespace neuronmm::bench

int main(int argc, char** argv) {
  using namespace neuronmm;
  bench::Options options;
  CLI::App app(
      "Compares the speed of the CPU kernels with the machine's limits and with other libraries.");
  app.add_option("--models", options.models, "models whose MLP shapes are timed")
      ->check(CLI::IsMember(bench::model_names()))
      ->capture_default_str();
  app.add_option("--rows", options.rows, "numbers of tokens M that are multiplied at once")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--operations", options.operations, "operations to time")
      ->check(CLI::IsMember({"dense", "xuv", "mlp"}))
      ->capture_default_str();
  app.add_option("--ratio", options.ratio, "share of the weights that the low-rank factors remove")
      ->check(CLI::Range(0.0, 0.95))
      ->capture_default_str();
  app.add_option("--repeats", options.repeats, "timed turns")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--threads", options.threads, "number of threads; 0 uses all cores (default 0)")
      ->check(CLI::NonNegativeNumber);
  app.add_option(
         "--dots", options.dot_products,
         "dot-product instructions that our kernels may use if the CPU has them (default int8); "
         "without bf16, bf16 weights are multiplied with fp32 activations")
      ->transform(CLI::Transformer(bench::kDotProducts));
  app.add_flag("!--no-amx", options.amx,
               "compute int8 products without AMX, even if the CPU has it");
  app.add_flag("!--no-peers", options.peers, "time only our own kernels");
  app.add_option("--json", options.json, "write the results to this JSON file, too");
  CLI11_PARSE(app, argc, argv);
  if (options.threads > 0) set_num_threads(options.threads);
  bench::set_peer_threads(num_threads());
  std::vector<std::string> missing;
  std::vector<std::unique_ptr<bench::Peer>> peers;
  if (options.peers) peers = bench::make_peers(missing);
  for (const std::string& name : missing) fmt::print("not built in: {}\n", name);
  const auto backend = cpu::make_backend(cpu::best_kernels({options.dot_products, options.amx}));
  bench::Report report(backend->name(), bench::measure_machine_limits(), options);
  if (!bench::run(options, *backend, peers, report)) return 1;
  if (!options.json.empty() && !report.write(options.json)) {
    fmt::print(stderr, "{}: cannot be written\n", options.json);
    return 1;
  }
  return 0;
}
