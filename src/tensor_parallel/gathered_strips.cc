#include "tensor_parallel/gathered_strips.h"

#include <algorithm>

#include "base/parallel.h"

namespace neuronmm::tensor_parallel {

GatheredStrips::GatheredStrips(const ops::Backend& backend, parallel::Communicator& communicator,
                               parallel::Wire wire, const ops::MlpWeight& weight)
    : backend_(backend), communicator_(communicator), wire_(wire) {
  if (!weight.in.empty()) {
    add(weight.in.map_t, weight.in);
    strip_of_[0] = strip_of_[1] = 0;
    return;
  }
  const ops::LinearWeight* const readers[] = {&weight.gate, &weight.up};
  for (size_t i = 0; i < 2; ++i) {
    if (readers[i]->rank() == 0) continue;
    strip_of_[i] = static_cast<int>(strips_.size());
    add(readers[i]->low_rank() ? readers[i]->u_t : readers[i]->in.map_t, readers[i]->in);
  }
}

void GatheredStrips::add(const ops::WeightView& first, const ops::Pivots& pivots) {
  Strip& strip = strips_.emplace_back();
  strip.rank = first.rows();
  const Share mine = columns(strip, communicator_.process());
  if (!pivots.empty()) {
    const auto begin = pivots.index.begin() + mine.first;
    strip.pivots.assign(begin, begin + mine.count);
    strip.others = ops::non_pivots(pivots);
  }
  if (mine.count > 0) strip.first = backend_.make_linear({.w_t = rows_of(first, mine)});
}

Share GatheredStrips::columns(const Strip& strip, int process) const {
  return parallel::share_of(strip.rank, process, communicator_.processes());
}

void GatheredStrips::Strip::fold(ConstMatrixView x, MutableMatrixView y) const {
  Matrix rest(x.rows, std::ssize(others));
  parallel_for(x.rows, [&](int64_t i) {
    for (size_t j = 0; j < others.size(); ++j) rest.row(i)[j] = x.row(i)[others[j]];
  });
  first->apply(rest.view(), y);
  for (int64_t i = 0; i < x.rows; ++i) {
    for (size_t j = 0; j < pivots.size(); ++j) y.row(i)[j] += x.row(i)[pivots[j]];
  }
}

// Computes one strip after the other. Factors U read the same rows, so that the backend may compute
// them in one loop.
std::vector<float> GatheredStrips::columns_here(ConstMatrixView x) const {
  const auto width = [&](const Strip& strip) {
    return columns(strip, communicator_.process()).count;
  };
  int64_t all = 0;
  for (const Strip& strip : strips_) all += width(strip);
  std::vector<float> mine(static_cast<size_t>(x.rows * all));
  float* next = mine.data();
  std::vector<const ops::Linear*> together;
  std::vector<MutableMatrixView> ys;
  for (const Strip& strip : strips_) {
    if (strip.first == nullptr) continue;
    const MutableMatrixView y(next, x.rows, width(strip));
    next += y.rows * y.columns;
    if (strip.others.empty()) {
      together.push_back(strip.first.get());
      ys.push_back(y);
    } else {
      strip.fold(x, y);
    }
  }
  if (!together.empty()) backend_.apply_together(together, x, ys);
  return mine;
}

std::vector<Matrix> GatheredStrips::gather(ConstMatrixView x) const {
  std::vector<int64_t> counts;
  for (int i = 0; i < communicator_.processes(); ++i) {
    int64_t width = 0;
    for (const Strip& strip : strips_) width += columns(strip, i).count;
    counts.push_back(x.rows * width);
  }
  std::vector<Matrix> strips;
  int64_t total = 0;
  for (const Strip& strip : strips_) {
    strips.emplace_back(x.rows, strip.rank);
    total += strip.rank;
  }
  std::vector<float> all(static_cast<size_t>(x.rows * total));
  communicator_.all_gather(columns_here(x), counts, all, wire_);
  const float* from = all.data();
  for (int i = 0; i < communicator_.processes(); ++i) {
    for (size_t s = 0; s < strips.size(); ++s) {
      const Share share = columns(strips_[s], i);
      for (int64_t row = 0; row < x.rows; ++row, from += share.count) {
        std::copy_n(from, share.count, strips[s].row(row) + share.first);
      }
    }
  }
  return strips;
}

}  // namespace neuronmm::tensor_parallel
