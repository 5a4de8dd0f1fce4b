#include "fit/reach.h"

#include <algorithm>
#include <limits>
#include <vector>

namespace neuronmm::fit {
namespace {

// Returns 0, which stands for the whole, and the multiples of `block` below `whole`.
std::vector<int64_t> sizes_of(int64_t whole, int64_t block) {
  std::vector<int64_t> sizes = {0};
  for (int64_t size = block; size < whole; size += block) sizes.push_back(size);
  return sizes;
}

// Returns the least cost of an MLP among the shapes of the forms mixed and pivoted. Costs grow with
// the number of neurons, and the numbers of pivots add to them independently.
template <typename Cost>
double least_of_shapes(const std::vector<int64_t>& ranks, int64_t neurons, const Cost& cost) {
  const auto least = [&](const io::MlpShape& base,
                         const std::vector<int64_t io::MlpShape::*>& choices) {
    const double whole = cost(base);
    double sum = whole;
    for (const auto choice : choices) {
      double lowest = whole;
      for (const int64_t rank : ranks) {
        io::MlpShape shape = base;
        shape.*choice = rank;
        lowest = std::min(lowest, cost(shape));
      }
      sum += lowest - whole;
    }
    return sum;
  };
  return std::min(least({.neurons = neurons}, {&io::MlpShape::input, &io::MlpShape::down}),
                  least({}, {&io::MlpShape::gate, &io::MlpShape::up, &io::MlpShape::down}));
}

template <typename Cost>
double least_of_formats(const std::vector<size_t>& formats, const Cost& cost) {
  double least = std::numeric_limits<double>::infinity();
  for (const size_t format : formats) least = std::min(least, cost(format));
  return least;
}

std::vector<size_t> formats_of(bool rounded) {
  if (!rounded) return {kAsIs};
  std::vector<size_t> formats;
  for (size_t format = 0; format < kFormats; ++format) formats.push_back(format);
  return formats;
}

// Returns the fewest neurons that a narrower MLP has, or 0 if it cannot have fewer.
int64_t fewest_neurons(const io::ModelConfig& config, int64_t block) {
  return block < config.intermediate_size ? block : 0;
}

}  // namespace

Reach::Reach(const FitRequest& request, const io::Checkpoint& checkpoint,
             const io::ModelConfig& config, bool simulated)
    : request_(request),
      config_(config),
      bytes_(checkpoint, config, request.embedding_bits),
      rounds_(!simulated) {}

double Reach::least_bytes(bool rounded) const {
  const std::vector<int64_t> ranks = sizes_of(config_.hidden_size, request_.block);
  const std::vector<size_t> formats = formats_of(rounded);
  double layer = least_of_formats(formats, [&](size_t gate) {
    return least_of_formats(rounded ? formats : std::vector{gate}, [&](size_t down) {
      return least_of_shapes(
          ranks, fewest_neurons(config_, request_.block),
          [&](const io::MlpShape& shape) { return bytes_.mlp(shape, gate, down); });
    });
  });
  for (const Part part : kAttentionParts) {
    layer +=
        least_of_formats(formats, [&](size_t format) { return bytes_.attention(part, format); });
  }
  return bytes_.fixed() + static_cast<double>(config_.num_hidden_layers) * layer +
         least_of_formats(bytes_.head_formats(rounded),
                          [&](size_t format) { return bytes_.head(format); }) +
         least_of_formats(bytes_.table_formats(rounded),
                          [&](size_t format) { return bytes_.table(format); });
}

double Reach::least_bytes() const {
  return rounds_ ? std::min(least_bytes(false), least_bytes(true)) : least_bytes(false);
}

double Reach::dense_bytes() const {
  double layer = bytes_.mlp({}, kAsIs, kAsIs);
  for (const Part part : kAttentionParts) layer += bytes_.attention(part, kAsIs);
  return bytes_.fixed() + bytes_.head(kAsIs) + bytes_.table(kAsIs) +
         static_cast<double>(config_.num_hidden_layers) * layer;
}

Status Reach::check_bytes() const {
  const Budget& budget = request_.budget;
  if (!budget.bytes) return {};
  const double least = least_bytes();
  if (*budget.bytes < least) {
    return fail(
        "{}: {:.0f} bytes are out of reach: the smallest form and format of this model has "
        "{:.0f} bytes",
        request_.model.string(), *budget.bytes, least);
  }
  const double dense = dense_bytes();
  const bool only_bytes = !budget.divergence && budget.decode.value_or(1.0) <= 1.0 &&
                          budget.prefill.value_or(1.0) <= 1.0;
  if (!only_bytes || *budget.bytes < dense) return {};
  return fail("{}: the model has {:.0f} bytes and meets the budget as it is",
              request_.model.string(), dense);
}

Seconds Reach::dense_seconds(const Costs& costs) const {
  return costs.rest() + costs.head(kAsIs) +
         static_cast<double>(config_.num_hidden_layers) *
             (costs.attention(kAsIs) + *costs.mlp({}, kAsIs, kAsIs));
}

// The least times of MLPs are known only where a time is a line over the parameters. A simulated
// device could be slower with a smaller shape, so that its MLPs count as nothing.
Seconds Reach::least_seconds(const Costs& costs) const {
  const std::vector<size_t> formats = formats_of(rounds_);
  const auto least = [&](double Seconds::*which) {
    const auto of_formats = [&](const auto& seconds) {
      return std::min(seconds(kAsIs).*which, least_of_formats(formats, [&](size_t format) {
                        return seconds(format).*which;
                      }));
    };
    double layer = of_formats([&](size_t format) { return costs.attention(format); });
    if (rounds_) {
      layer += of_formats([&](size_t format) {
        Seconds seconds;
        seconds.*which = least_of_shapes(
            {0, request_.block}, fewest_neurons(config_, request_.block),
            [&](const io::MlpShape& shape) { return (*costs.mlp(shape, format, format)).*which; });
        return seconds;
      });
    }
    return costs.rest().*which + of_formats([&](size_t format) { return costs.head(format); }) +
           static_cast<double>(config_.num_hidden_layers) * layer;
  };
  Seconds seconds;
  seconds.decode = least(&Seconds::decode);
  seconds.prefill = least(&Seconds::prefill);
  return seconds;
}

Status Reach::check_speed(const Costs& costs) const {
  const Budget& budget = request_.budget;
  if (!budget.decode && !budget.prefill) return {};
  const Seconds dense = dense_seconds(costs), least = least_seconds(costs);
  const auto check = [&](const std::optional<double>& wanted, const char* name, double most) {
    if (!wanted || *wanted <= most) return Status();
    return Status(
        fail("{}: {} {:.2f} times as fast is out of reach: the smallest form and format "
             "of this model is at most {:.2f} times as fast",
             request_.model.string(), name, *wanted, most));
  };
  NMM_TRY(check(budget.decode, "decoding", dense.decode / least.decode));
  return check(budget.prefill, "prefill", dense.prefill / least.prefill);
}

}  // namespace neuronmm::fit
