#include "training/mixture.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/pieces.h"
#include "ops/mixture.h"
#include "training/elementwise.h"
#include "training/loops.h"

namespace neuronmm::training {
namespace {

// A choice's weight or its gradient costs as much as this many multiply-adds. Assumed.
constexpr int64_t kWeightWork = 20;

// Fills `shares` [E] with the softmax over the logits of a token: over those of its experts, or
// over all. Those of experts that do not count are 0.
template <typename T>
void fill_shares(const T* logits, int64_t count, std::span<const int64_t> experts, bool divided,
                 std::vector<T>& shares) {
  const T largest = *std::max_element(logits, logits + count);
  T total = 0;
  shares.assign(static_cast<size_t>(count), T{0});
  const auto take = [&](int64_t e) {
    const T power = exp_of(logits[e] - largest);
    shares[static_cast<size_t>(e)] = power;
    total += power;
  };
  if (divided) {
    for (const int64_t e : experts) take(e);
  } else {
    for (int64_t e = 0; e < count; ++e) take(e);
  }
  for (T& share : shares) share /= total;
}

}  // namespace

template <typename T>
Routing routing_of(MatrixView<const T> logits, int64_t active) {
  Matrix rounded(logits.rows, logits.columns);
  for (int64_t i = 0; i < logits.rows; ++i) {
    for (int64_t j = 0; j < logits.columns; ++j) {
      rounded.row(i)[j] = static_cast<float>(logits.row(i)[j]);
    }
  }
  std::vector<ops::RoutedExpert> chosen(static_cast<size_t>(logits.rows * active));
  ops::route(rounded.view(), active, true, chosen);
  Routing routing = {active, {}, {}, {}};
  routing.tokens.resize(static_cast<size_t>(logits.columns));
  for (size_t i = 0; i < chosen.size(); ++i) {
    auto& tokens = routing.tokens[static_cast<size_t>(chosen[i].expert)];
    routing.experts.push_back(chosen[i].expert);
    routing.places.push_back(std::ssize(tokens));
    tokens.push_back(static_cast<int64_t>(i) / active);
  }
  return routing;
}

// With shares p of the softmax and s = Σ p·dw over the chosen experts: dlogit = p·(dw − s), where
// dw is 0 for the others.
template <typename T>
Tensor<T> expert_weights(Tape<T>& tape, const Tensor<T>& logits, const Routing& routing,
                         bool divided) {
  const int64_t count = logits->columns(), k = routing.active;
  const auto experts_of = [experts = routing.experts, k](int64_t token) {
    return std::span(experts).subspan(static_cast<size_t>(token * k), static_cast<size_t>(k));
  };
  Rows<T> weights(logits->rows(), k);
  for_each_piece(logits->rows(), kWeightWork * count, [&](int64_t first, int64_t last) {
    std::vector<T> shares;
    for (int64_t i = first; i < last; ++i) {
      fill_shares(logits->data.row(i), count, experts_of(i), divided, shares);
      for (int64_t j = 0; j < k; ++j) {
        weights.row(i)[j] = shares[static_cast<size_t>(experts_of(i)[static_cast<size_t>(j)])];
      }
    }
  });
  const Tensor<T> result = make_tensor(std::move(weights), logits->needs_gradient);
  tape.record(result, [logits, experts_of, divided, count, k](Value<T>& of) {
    Rows<T> part(logits->rows(), count);
    for_each_piece(logits->rows(), kWeightWork * count, [&](int64_t first, int64_t last) {
      std::vector<T> shares;
      for (int64_t i = first; i < last; ++i) {
        const auto experts = experts_of(i);
        fill_shares(logits->data.row(i), count, experts, divided, shares);
        const T* const dw = of.gradient.row(i);
        const T sum = dot(of.data.row(i), dw, k);
        T* const to = part.row(i);
        for (int64_t e = 0; e < count; ++e) to[e] = -shares[static_cast<size_t>(e)] * sum;
        for (int64_t j = 0; j < k; ++j) {
          const int64_t e = experts[static_cast<size_t>(j)];
          to[e] += shares[static_cast<size_t>(e)] * dw[j];
        }
      }
    });
    logits->add_gradient(std::move(part));
  });
  return result;
}

// dout_e = w_e · dy, dw_e = dy · out_e.
template <typename T>
Tensor<T> combined(Tape<T>& tape, const Routing& routing, const Tensor<T>& weights,
                   std::vector<Tensor<T>> outputs) {
  const int64_t k = routing.active, rows = weights->rows();
  int64_t columns = 0;
  bool needs = weights->needs_gradient;
  for (const Tensor<T>& output : outputs) {
    if (output == nullptr) continue;
    columns = output->columns();
    needs = needs || output->needs_gradient;
  }
  Rows<T> y(rows, columns);
  for_each_piece(rows, k * columns, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      std::fill_n(y.row(i), columns, T{0});
      for (int64_t j = 0; j < k; ++j) {
        const auto at = static_cast<size_t>(i * k + j);
        const Tensor<T>& output = outputs[static_cast<size_t>(routing.experts[at])];
        add_scaled(y.row(i), weights->data.row(i)[j], output->data.row(routing.places[at]), columns,
                   y.row(i));
      }
    }
  });
  const Tensor<T> result = make_tensor(std::move(y), needs);
  tape.record(result, [routing, weights, k, columns, outputs = std::move(outputs)](Value<T>& of) {
    std::vector<Rows<T>> parts(outputs.size());
    for (size_t e = 0; e < outputs.size(); ++e) {
      if (outputs[e] != nullptr) parts[e] = Rows<T>(outputs[e]->rows(), columns);
    }
    Rows<T> dw(of.rows(), k);
    for_each_piece(of.rows(), 2 * k * columns, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        const T* const dy = of.gradient.row(i);
        for (int64_t j = 0; j < k; ++j) {
          const auto at = static_cast<size_t>(i * k + j);
          const auto e = static_cast<size_t>(routing.experts[at]);
          const int64_t place = routing.places[at];
          dw.row(i)[j] = dot(dy, outputs[e]->data.row(place), columns);
          scaled(weights->data.row(i)[j], dy, columns, parts[e].row(place));
        }
      }
    });
    weights->add_gradient(std::move(dw));
    for (size_t e = 0; e < outputs.size(); ++e) {
      if (outputs[e] != nullptr) outputs[e]->add_gradient(std::move(parts[e]));
    }
  });
  return result;
}

template <typename T>
Tensor<T> Mixture<T>::run(Tape<T>& tape, const Tensor<T>& x, const MlpObserver<T>& observer) {
  const Tensor<T> logits = apply(tape, x, router);
  const Routing routing = routing_of<T>(logits->view(), active);
  const Tensor<T> weights = expert_weights(tape, logits, routing, divided);
  const Tensor<T> z = input.w.present() ? apply(tape, x, input) : x;
  x->drop_packings();
  std::vector<Tensor<T>> outputs(experts.size());
  for (size_t e = 0; e < experts.size(); ++e) {
    if (routing.tokens[e].empty()) continue;
    outputs[e] = experts[e].run(tape, take_rows<T>(tape, z, routing.tokens[e]), {});
  }
  Tensor<T> y = combined(tape, routing, weights, std::move(outputs));
  if (output.w.present()) {
    const Tensor<T> sum = std::move(y);
    y = apply(tape, sum, output);
    sum->drop_packings();
  }
  if (observer) {
    tape.record(y, [observer](Value<T>& of) { observer({{}, {}, of.gradient.view()}); });
  }
  return y;
}

bool is_of_router(std::string_view name) {
  return name.find(".mlp.router.") != std::string_view::npos;
}

template <typename T>
void load(const ops::MixtureWeight& weight, const std::string& prefix, Mixture<T>& mixture) {
  NMM_CHECK(weight.first_expert == 0);
  load(weight.router.w_t, prefix + "router.weight", mixture.router.w);
  load(ops::WeightView(weight.router.bias), prefix + "router.bias", mixture.router.bias);
  mixture.router.w.exact = true;
  load(weight.input, prefix + "input_basis", mixture.input);
  load(weight.output, prefix + "output_basis", mixture.output);
  mixture.active = weight.active;
  mixture.divided = weight.divided;
  for (const ops::MlpWeight& expert : weight.experts) {
    const auto number = mixture.experts.size();
    load(expert, fmt::format("{}experts.{}.", prefix, number), mixture.experts.emplace_back());
  }
}

#define NMM_INSTANTIATE(T)                                                                         \
  template Routing routing_of(MatrixView<const T>, int64_t);                                       \
  template Tensor<T> expert_weights(Tape<T>&, const Tensor<T>&, const Routing&, bool);             \
  template Tensor<T> combined(Tape<T>&, const Routing&, const Tensor<T>&, std::vector<Tensor<T>>); \
  template struct Mixture<T>;                                                                      \
  template void load(const ops::MixtureWeight&, const std::string&, Mixture<T>&);
NMM_INSTANTIATE(float)
NMM_INSTANTIATE(double)
#undef NMM_INSTANTIATE

}  // namespace neuronmm::training
