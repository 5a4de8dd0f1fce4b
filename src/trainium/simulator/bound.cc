#include "trainium/simulator/bound.h"

#include <algorithm>
#include <map>
#include <vector>

#include "trainium/simulator/dma.h"
#include "trainium/simulator/schedule.h"
#include "trainium/tile/walk.h"

namespace neuronmm::simulator {

namespace {

using LoopValues = std::span<const int64_t>;

// The time on Vector, Scalar and GpSimd, ns.
struct EngineWork {
  double vector = 0, scalar = 0, gpsimd = 0;  // what has no choice
  double either = 0;                          // on Vector or Scalar, at the lower price
  double psum = 0;                            // of all this, what touches PSUM

  double least_ns(const DeviceSpec& device) const {
    // Whatever engine each free instruction goes to, the busier of the two has at least half of
    // their work.
    double ns = std::max({vector, scalar, gpsimd, (vector + scalar + either) / 2});
    // Where Vector and Scalar shut one another out of PSUM (NeuronCore-v2), all that touches it is
    // serial; the same holds for Vector and GpSimd in SBUF.
    if (device.psum_exclusive > 0) ns = std::max(ns, psum);
    if (device.sbuf_exclusive > 0) ns = std::max(ns, vector + gpsimd);
    return ns;
  }
};

class Work {
 public:
  Work(const tile::Program& program, const DeviceSpec& device)
      : program_(program),
        device_(device),
        grids_(make_grids(program)),
        lanes_(static_cast<size_t>(device.dma_engines)),
        trips_(static_cast<size_t>(program.num_loops)) {
    note_trips(program.body);
  }

  // `times` instances of the instruction whose tiles have the sizes that they have at `values`. The
  // preparation is kept, because the ragged tiles at the ends of a block meet the same instruction
  // again.
  void add(const tile::Instruction& instruction, LoopValues values, int64_t times) {
    const auto [at, fresh] = prepared_.try_emplace(&instruction);
    if (fresh) at->second = prepare(program_, instruction, grids_, device_);
    const Prepared& p = at->second;
    const auto count = static_cast<double>(times);
    switch (p.kind) {
      case Kind::kDma:
        return add_dma(p, values, count);
      case Kind::kMatmul:
      case Kind::kTranspose:
        return add_tensor(p, values, count);
      default:
        return add_engine(p, values, count);
    }
  }

  Bound bound() const {
    return {tensor_ns_, dma_bound_ns(), engines_.least_ns(device_), device_.kernel_fixed_ns};
  }

 private:
  void note_trips(const std::vector<tile::Node>& body) {
    for (const tile::Node& node : body) {
      const auto* loop = std::get_if<tile::Loop>(&node);
      if (!loop) continue;
      trips_[static_cast<size_t>(loop->id)] = loop->max;
      note_trips(loop->body);
    }
  }

  // A matmul streams the columns of its moving operand. A transpose streams an identity as wide as
  // the data has partitions.
  void add_tensor(const Prepared& p, LoopValues values, double count) {
    const int64_t columns = p.kind == Kind::kMatmul
                                ? p.operands[2].eval(values.data()).free_elements
                                : p.operands[1].eval(values.data()).partitions;
    tensor_ns_ += count * p.tensor.interval(columns);
  }

  // A bound must not guess which engine the simulation would choose, so that what may run on either
  // is priced at the cheaper one and kept apart from what has no choice.
  void add_engine(const Prepared& p, LoopValues values, double count) {
    const int64_t elements = p.operands[0].eval(values.data()).free_elements;
    const double vector = count * p.vector.interval(elements);
    const double scalar = count * p.scalar.interval(elements);
    const bool choice = p.on_vector && p.on_scalar;
    const double ns = choice        ? std::min(vector, scalar)
                      : p.on_vector ? vector
                      : p.on_scalar ? scalar
                                    : count * p.gpsimd.interval(elements);
    (choice        ? engines_.either
     : p.on_vector ? engines_.vector
     : p.on_scalar ? engines_.scalar
                   : engines_.gpsimd) += ns;
    if (p.touches_psum) engines_.psum += ns;
  }

  // Every transfer takes its share of HBM and keeps the DMA engines of its partitions busy. Both
  // are added up, and whichever is busy longer is the bound.
  void add_dma(const Prepared& p, LoopValues values, double count) {
    const Transfer transfer = make_transfer(program_, p, values);
    if (transfer.bytes() == 0) return;
    hbm_ns_ += count * static_cast<double>(transfer.bytes()) / device_.hbm_bandwidth;
    for_each_place(p, transfer, [&](const Transfer& at, double share) {
      for_each_engine(at, [&](size_t engine, int64_t partitions) {
        lanes_[engine] += share * count * engine_ns(device_, at, partitions);
      });
    });
    (p.stores ? stores_ : loads_) += count;
  }

  // A loop may also move the partitions that a transfer begins at. `transfer` is of the loop's
  // first iteration; all iterations have an equal share of the instances.
  template <typename Visit>
  void for_each_place(const Prepared& p, Transfer transfer, const Visit& visit) const {
    const auto& terms = p.on_chip->slices[0].start.terms;
    if (!p.spans_partitions || terms.empty()) return visit(transfer, 1.0);
    NMM_CHECK(terms.size() == 1);
    const auto [loop, step] = terms.front();
    const int64_t first = p.on_chip->slices[0].start.constant;
    const int64_t trips = trips_[static_cast<size_t>(loop)];
    for (int64_t i = 0; i < trips; ++i) {
      transfer.first_partition = first + i * step;
      visit(transfer, 1.0 / static_cast<double>(trips));
    }
  }

  // A class of queues takes turns, and each issues one transfer per interval.
  double issue_ns(DmaSystem::Class queues, double transfers) const {
    const int count = DmaSystem::num_queues(queues, static_cast<int>(device_.dma_queues));
    return std::max(0.0, transfers / count - 1) * device_.dma_issue_ns;
  }

  // The first data moves a start latency after the first trigger, and the last consumer sees its
  // data a completion latency after it has moved. The queues' own waiting (their depth) is left
  // out: it can only add.
  double dma_bound_ns() const {
    const double busiest = *std::max_element(lanes_.begin(), lanes_.end());
    const double ns = std::max({hbm_ns_, busiest, issue_ns(DmaSystem::Class::kLoad, loads_),
                                issue_ns(DmaSystem::Class::kStore, stores_)});
    return ns > 0 ? device_.dma_start_ns + ns + device_.dma_completion_ns : 0;
  }

  const tile::Program& program_;
  const DeviceSpec& device_;
  std::vector<Grid> grids_;
  std::map<const tile::Instruction*, Prepared> prepared_;
  double tensor_ns_ = 0, hbm_ns_ = 0, loads_ = 0, stores_ = 0;
  std::vector<double> lanes_;   // of the DMA engines
  std::vector<int64_t> trips_;  // of the loops, at most
  EngineWork engines_;
};

}  // namespace

// The timing model keeps the DMA engines' time in single precision: a part in a million covers it.
double Bound::ns() const {
  return (fixed_ns + std::max({tensor_ns, dma_ns, eviction_ns})) * (1 - 1e-6);
}

Bound bound(const tile::Program& program, const DeviceSpec& device) {
  Work work(program, device);
  tile::for_each_distinct(program, [&](const tile::Instruction& instruction, LoopValues values,
                                       int64_t times) { work.add(instruction, values, times); });
  return work.bound();
}

}  // namespace neuronmm::simulator
