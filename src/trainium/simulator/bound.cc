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

// The work of Vector, Scalar and GpSimd, in ns.
struct EngineWork {
  double vector = 0, scalar = 0, gpsimd = 0;  // Work that only one engine may do.
  double either = 0;  // Work that Vector or Scalar may do, at the lower price.
  double psum = 0;    // The part of all this work that touches PSUM.

  double least_ns(const DeviceSpec& device) const {
    // Whichever engine each free instruction goes to, the busier of the two has at least half of
    // their work.
    double ns = std::max({vector, scalar, gpsimd, (vector + scalar + either) / 2});
    // On NeuronCore-v2, Vector and Scalar cannot use PSUM at the same time, so all work that
    // touches PSUM is serial. The same holds for Vector and GpSimd in SBUF.
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
        engine_busy_(static_cast<size_t>(device.dma_engines)),
        trips_(static_cast<size_t>(program.num_loops)) {
    collect_trip_counts(program.body);
  }

  // Adds `times` executions of the instruction, with the tile sizes that it has at `values`. The
  // prepared instruction is kept, because the ragged tiles at the end of a block belong to the same
  // instruction.
  void add(const tile::Instruction& instruction, LoopValues values, int64_t times) {
    const auto [at, inserted] = prepared_.try_emplace(&instruction);
    if (inserted) at->second = prepare(program_, instruction, grids_, device_);
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
  void collect_trip_counts(const std::vector<tile::Node>& body) {
    for (const tile::Node& node : body) {
      const auto* loop = std::get_if<tile::Loop>(&node);
      if (!loop) continue;
      trips_[static_cast<size_t>(loop->id)] = loop->max;
      collect_trip_counts(loop->body);
    }
  }

  // Adds a matmul, which streams the columns of its moving operand, or a transpose, which streams
  // an identity as wide as the data has partitions.
  void add_tensor(const Prepared& p, LoopValues values, double count) {
    const int64_t columns = p.kind == Kind::kMatmul
                                ? p.operands[2].eval(values.data()).free_elements
                                : p.operands[1].eval(values.data()).partitions;
    tensor_ns_ += count * p.tensor.interval(columns);
  }

  // Adds an instruction of a compute engine. A bound must not guess which engine the simulation
  // would choose. Work that two engines may do is therefore priced at the cheaper one and kept
  // apart.
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

  // Adds a transfer, which takes its share of HBM and keeps the DMA engines of its partitions busy.
  // The larger of the two sums becomes the bound.
  void add_dma(const Prepared& p, LoopValues values, double count) {
    const Transfer transfer = make_transfer(program_, p, values);
    if (transfer.bytes() == 0) return;
    hbm_ns_ += count * static_cast<double>(transfer.bytes()) / device_.hbm_bandwidth;
    for_each_place(p, transfer, [&](const Transfer& at, double share) {
      for_each_engine(at, [&](size_t engine, int64_t partitions) {
        engine_busy_[engine] += share * count * engine_ns(device_, at, partitions);
      });
    });
    (p.stores ? stores_ : loads_) += count;
  }

  // Visits the partitions that a transfer may begin at, because a loop may move them. `transfer` is
  // that of the loop's first iteration. Every iteration has an equal share of the executions.
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

  // Returns the time that the queues of a class need to issue their transfers, one per interval and
  // queue.
  double issue_ns(DmaSystem::Class queues, double transfers) const {
    const int count = DmaSystem::num_queues(queues, static_cast<int>(device_.dma_queues));
    return std::max(0.0, transfers / count - 1) * device_.dma_issue_ns;
  }

  // Returns the time that all transfers need at least. The first data moves a start latency after
  // the first trigger, and the last consumer sees its data a completion latency after it has moved.
  // The limit on transfers in flight is left out, since it can only add time.
  double dma_bound_ns() const {
    const double busiest = *std::max_element(engine_busy_.begin(), engine_busy_.end());
    const double ns = std::max({hbm_ns_, busiest, issue_ns(DmaSystem::Class::kLoad, loads_),
                                issue_ns(DmaSystem::Class::kStore, stores_)});
    return ns > 0 ? device_.dma_start_ns + ns + device_.dma_completion_ns : 0;
  }

  const tile::Program& program_;
  const DeviceSpec& device_;
  std::vector<BufferGrid> grids_;
  std::map<const tile::Instruction*, Prepared> prepared_;
  double tensor_ns_ = 0, hbm_ns_ = 0, loads_ = 0, stores_ = 0;
  std::vector<double> engine_busy_;  // The work of each DMA engine.
  std::vector<int64_t> trips_;       // The most iterations of each loop.
  EngineWork engines_;
};

}  // namespace

// The timing model keeps the DMA engines' time in single precision. The factor covers that
// rounding.
double Bound::ns() const {
  return (fixed_ns + std::max({tensor_ns, dma_ns, elementwise_ns})) * (1 - 1e-6);
}

Bound bound(const tile::Program& program, const DeviceSpec& device) {
  Work work(program, device);
  tile::for_each_distinct(program, [&](const tile::Instruction& instruction, LoopValues values,
                                       int64_t times) { work.add(instruction, values, times); });
  return work.bound();
}

}  // namespace neuronmm::simulator
