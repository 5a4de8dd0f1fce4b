#include "fit/part_timing.h"

#include <algorithm>

#include <unistd.h>

#include "base/interrupt.h"
#include "fit/model_latency.h"

namespace neuronmm::fit {
namespace {

// The number of bytes of all copies of a weight if the system does not say how large the last cache
// is. It exceeds the cache of most core complexes (AMD's X3D: 96 MB). Assumed.
constexpr int64_t kMinCopyBytes = 128 << 20;
// A measurement is the lower quartile of at least kRounds rounds, which take at least
// kMinSeconds. Assumed.
constexpr int64_t kRounds = 5, kMaxRounds = 1000;
constexpr double kMinSeconds = 0.05;
// Rounds that take long scatter little, so that fewer are enough after these seconds. Assumed.
constexpr double kEnoughSeconds = 1.0;

// Returns twice the size of the last cache, so that a copy has left the cache when its turn comes.
// Measured on an Intel Xeon with a cache of 480 MB: copies of 128 MB were read from the cache. A
// model whose predicted decoding was 1.7 times as fast was then 2.8 times as fast.
int64_t copy_bytes() {
  return std::max<int64_t>(kMinCopyBytes, 2 * int64_t{sysconf(_SC_LEVEL3_CACHE_SIZE)});
}

// Returns the largest number of rows of a weight. The other side of such a weight is hidden_size.
int64_t max_rows(const io::ModelConfig& config) {
  const int64_t heads = 2 * (config.num_attention_heads + config.num_key_value_heads);
  return std::max({config.vocab_size, 3 * config.intermediate_size, heads * config.head_dim,
                   config.hidden_size});
}

std::optional<LowBitFormat> format_of(size_t index) {
  if (index == kAsIs) return std::nullopt;
  return kCandidates[index];
}

void fill(Matrix& matrix) {
  for (int64_t i = 0; i < matrix.rows() * matrix.columns(); ++i) {
    matrix.data()[i] = static_cast<float>(i % 17) * 0.1f - 0.8f;
  }
}

// Returns how many copies of a weight are used in turns. A prompt computes so long with every
// weight that it does not matter where the weight comes from.
size_t turns(int64_t rows, size_t copies) { return rows == 1 ? copies : 1; }

template <typename Time>
Seconds decode_and_prefill(int64_t prompt, const Time& time) {
  return {time(1), time(prompt)};
}

}  // namespace

PartTiming::PartTiming(const io::ModelConfig& config, DType dtype, Device device,
                       std::unique_ptr<ops::Backend> backend)
    : config_(config),
      device_(std::move(device)),
      backend_(std::move(backend)),
      prompt_(latency_settings(config, 1).prompt_tokens),
      weights_(max_rows(config), max_rows(config) * config.hidden_size, dtype) {}

// Returns the seconds of one call on the clock, when `copies` are called in turns.
double PartTiming::seconds_per_call(size_t copies, const std::function<void(size_t)>& apply) const {
  const auto round = [&] {
    const double start = backend_->clock_seconds();
    for (size_t i = 0; i < copies; ++i) apply(i);
    return (backend_->clock_seconds() - start) / static_cast<double>(copies);
  };
  // On a CPU this round touches the memory for the first time and is not counted.
  const double first = round();
  if (device_.simulated) return first;
  std::vector<double> rounds;
  double sum = 0.0;
  const auto seconds = [&] { return sum * static_cast<double>(copies); };
  while (seconds() < kEnoughSeconds && (std::ssize(rounds) < kRounds || seconds() < kMinSeconds)) {
    rounds.push_back(round());
    sum += rounds.back();
    if (interrupted() || std::ssize(rounds) == kMaxRounds) break;
  }
  std::ranges::sort(rounds);
  return rounds[rounds.size() / 4];
}

size_t PartTiming::copy_count(const ops::WeightView& weight) const {
  if (device_.simulated) return 1;
  const int64_t turns = copy_bytes() / std::max<int64_t>(1, weight.stored_bytes());
  return static_cast<size_t>(
      std::clamp<int64_t>(turns, 1, std::max<int64_t>(1, config_.num_hidden_layers)));
}

Seconds PartTiming::attention(size_t format) const {
  const auto f = format_of(format);
  const int64_t hidden = config_.hidden_size, dim = config_.head_dim;
  const int64_t queries = config_.num_attention_heads * dim;
  const int64_t keys = config_.num_key_value_heads * dim;
  struct Projections {
    std::unique_ptr<ops::Linear> q, k, v, o;
  };
  const auto linear = [&](int64_t rows, int64_t columns) {
    ops::LinearWeight weight;
    weight.w_t = weights_.weight(rows, columns, f);
    return backend_->make_linear(weight);
  };
  std::vector<Projections> copies(copy_count(weights_.weight(2 * (queries + keys), hidden, f)));
  for (Projections& copy : copies) {
    copy = {linear(queries, hidden), linear(keys, hidden), linear(keys, hidden),
            linear(hidden, queries)};
  }
  return decode_and_prefill(prompt_, [&](int64_t rows) {
    Matrix x(rows, hidden), q(rows, queries), k(rows, keys), v(rows, keys), y(rows, hidden);
    fill(x);
    fill(q);
    return seconds_per_call(turns(rows, copies.size()), [&](size_t i) {
      const Projections& copy = copies[i];
      const ops::Linear* const readers[] = {copy.q.get(), copy.k.get(), copy.v.get()};
      const MutableMatrixView made[] = {q.view(), k.view(), v.view()};
      backend_->apply_together(readers, x.view(), made);
      copy.o->apply(q.view(), y.view());
    });
  });
}

Seconds PartTiming::head(size_t format) const {
  ops::LinearWeight weight;
  weight.w_t = weights_.weight(config_.vocab_size, config_.hidden_size, format_of(format));
  weight.round_input_twice = format != kAsIs;
  std::vector<std::unique_ptr<ops::Linear>> copies(copy_count(weight.w_t));
  for (auto& copy : copies) copy = backend_->make_linear(weight);
  Matrix x(1, config_.hidden_size), y(1, config_.vocab_size);
  fill(x);
  const double seconds =
      seconds_per_call(copies.size(), [&](size_t i) { copies[i]->apply(x.view(), y.view()); });
  return {seconds, seconds};
}

Seconds PartTiming::mlp(const io::MlpShape& shape, size_t format) const {
  const ops::MlpWeight weight = synthetic_mlp(shape, format);
  std::vector<std::unique_ptr<ops::Mlp>> copies(
      copy_count(weights_.weight(3 * weight.neurons(), config_.hidden_size, format_of(format))));
  for (auto& copy : copies) copy = backend_->make_mlp(weight);
  return decode_and_prefill(prompt_, [&](int64_t rows) {
    Matrix x(rows, config_.hidden_size), y(rows, config_.hidden_size);
    fill(x);
    return seconds_per_call(turns(rows, copies.size()),
                            [&](size_t i) { copies[i]->apply(x.view(), y.view()); });
  });
}

// A new device is made for each shape, because a device that was asked for an MLP it cannot run
// refuses everything afterwards.
std::optional<Seconds> PartTiming::simulated_mlp(const io::MlpShape& shape) const {
  const ops::MlpWeight weight = synthetic_mlp(shape, kAsIs);
  const auto backend = device_.make();
  if (!backend.ok() || !(*backend)->supports(weight).ok()) return std::nullopt;
  const auto mlp = (*backend)->make_mlp(weight);
  if (!(*backend)->prepare(1).ok() || !(*backend)->prepare(prompt_).ok()) return std::nullopt;
  return decode_and_prefill(prompt_, [&](int64_t rows) {
    Matrix x(rows, config_.hidden_size), y(rows, config_.hidden_size);
    const double start = (*backend)->clock_seconds();
    mlp->apply(x.view(), y.view());
    return (*backend)->clock_seconds() - start;
  });
}

ops::MlpWeight PartTiming::synthetic_mlp(const io::MlpShape& shape, size_t format) const {
  const auto f = format_of(format);
  const int64_t hidden = config_.hidden_size;
  const int64_t neurons = shape.neurons > 0 ? shape.neurons : config_.intermediate_size;
  const auto width = [&](int64_t own) {
    return shape.input > 0 ? shape.input : own > 0 ? own : hidden;
  };
  ops::MlpWeight mlp;
  mlp.activation = config_.activation;
  mlp.gate.w_t = weights_.weight(neurons, width(shape.gate), f);
  mlp.up.w_t = weights_.weight(neurons, width(shape.up), f);
  mlp.down.w_t = weights_.weight(shape.down > 0 ? shape.down : hidden, neurons, f);
  if (shape.input > 0) mlp.in = pivots(shape.input, false);
  if (shape.gate > 0) mlp.gate.in = pivots(shape.gate, false);
  if (shape.up > 0) mlp.up.in = pivots(shape.up, false);
  if (shape.down > 0) mlp.down.out = pivots(shape.down, true);
  return mlp;
}

ops::Pivots PartTiming::pivots(int64_t rank, bool out) const {
  ops::Pivots pivots;
  for (int64_t i = 0; i < rank; ++i) pivots.index.push_back(static_cast<int32_t>(i));
  const int64_t others = config_.hidden_size - rank;
  pivots.map_t = out ? weights_.weight(others, rank, std::nullopt)
                     : weights_.weight(rank, others, std::nullopt);
  return pivots;
}

}  // namespace neuronmm::fit
