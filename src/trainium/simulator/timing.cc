#include "trainium/simulator/timing.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <span>

#include "trainium/simulator/bound.h"
#include "trainium/simulator/dma.h"
#include "trainium/simulator/engine.h"
#include "trainium/simulator/hazards.h"
#include "trainium/simulator/schedule.h"
#include "trainium/simulator/staging.h"
#include "trainium/tile/checker.h"
#include "trainium/tile/rules.h"
#include "trainium/tile/walk.h"

namespace neuronmm::simulator {

namespace {

using tile::BufferId;
using tile::HbmRole;
using tile::Memory;
using tile::Program;

// One run over the program. All times are in ns, from the begin of the kernel.
class Simulation {
 public:
  Simulation(const Residency& plan, const DeviceSpec& device, const TimingOptions& options)
      : plan_(plan),
        program_(plan.program),
        device_(device),
        options_(options),
        dma_(device),
        grids_(make_grids(program_)) {
    make_buffers();
    add_tracks();
    // What the Tensor engine has to do in all; what is done is taken off as it is simulated
    // (too_long).
    if (options.longest_ns) tensor_left_ = bound(program_, device).tensor_ns;
  }

  // Walks the loop nest as the hardware's instruction streams would unroll it. A node of the
  // program is prepared once, however often it runs.
  Summary run() {
    tile::Walker walker(program_);
    prepared_.resize(static_cast<size_t>(walker.num_nodes()));
    values_ = walker.loop_values().data();
    while (walker.next()) {
      if (const tile::Allocate* allocate = walker.allocate()) {
        BufferState& buffer = state(allocate->buffer);
        buffer.allocate();
        // A new instance of a buffer that is not wholly resident: nothing of the old one is staged
        // any more, and a streamed one finds its content in HBM.
        if (StagedBuffer* staged = staged_of(allocate->buffer)) {
          staged->staging.forget(buffer, staged->streams);
        }
        continue;
      }
      Prepared& p = prepared_[static_cast<size_t>(walker.node())];
      if (!p.instruction) p = prepare(program_, *walker.instruction(), grids_, device_);
      step(p);
      ++instructions_;
      if (too_long()) {
        gave_up_ = true;
        break;
      }
    }
    finish();
    return summary_;
  }
  int64_t instructions() const { return instructions_; }
  bool gave_up() const { return gave_up_; }

 private:
  using Extent = Operand::Extent;
  static constexpr size_t kMaxOperands = 3;

  struct StagedBuffer {
    bool streams;
    Staging staging;
  };

  StagedBuffer* staged_of(BufferId b) { return staged_of_[static_cast<size_t>(b)]; }
  BufferState& state(BufferId b) { return buffers_[static_cast<size_t>(b)]; }
  InOrderEngine& engine(Unit unit) { return engines_[static_cast<size_t>(unit)]; }

  void make_buffers() {
    std::vector<bool> read(grids_.size()), written(grids_.size());
    for_each_instruction(program_.body, [&](const tile::Instruction& instruction) {
      for_each_access(instruction.operation, [&](const tile::Access& access, bool writes) {
        (writes ? written : read)[static_cast<size_t>(access.buffer)] = true;
      });
    });
    for (size_t b = 0; b < grids_.size(); ++b) {
      // Nothing waits for an operand in HBM that the program only reads, or only writes.
      const bool tracked = program_.buffers[b].memory != Memory::kHbm || (read[b] && written[b]);
      buffers_.emplace_back(grids_[b].cells, plan_.rotation[b], tracked);
    }
    staged_of_.resize(grids_.size(), nullptr);
    for (const Partial& partial : plan_.partials) make_staging(partial);
  }

  // Bytes are per partition and cells are blocks of elements, so that the room in bytes becomes a
  // number of cells: as many as fit along the free dimensions, for every row of cells along the
  // partitions. The staging area has at least two cells per row, one in use and one on its way.
  void make_staging(const Partial& partial) {
    const auto b = static_cast<size_t>(partial.buffer);
    const tile::Buffer& buffer = program_.buffers[b];
    const Grid& grid = grids_[b];
    const int64_t cells_per_partition_row = std::max<int64_t>(1, grid.cells / grid.counts[0]);
    const double bytes_per_cell =
        static_cast<double>(buffer.free_bytes()) / static_cast<double>(cells_per_partition_row);
    const auto resident =
        static_cast<int64_t>(static_cast<double>(partial.resident_bytes) / bytes_per_cell) *
        grid.counts[0];
    const auto slots =
        static_cast<int64_t>(static_cast<double>(partial.staging_bytes) / bytes_per_cell);
    buffers_[b].set_spilled(std::min(resident, grid.cells));
    const Transfer transfer{.first_partition = 0,
                            .partitions = std::min<int64_t>(128, grid.extent[0]),
                            .bytes_per_partition = static_cast<int64_t>(bytes_per_cell),
                            .chunk_bytes = static_cast<int64_t>(bytes_per_cell)};
    const bool streams = partial.streams;
    staged_.push_back(std::make_unique<StagedBuffer>(
        StagedBuffer{streams, Staging(std::max<int64_t>(slots, 2) * grid.counts[0],
                                      [this, transfer, &buffer, streams](bool save, double ready) {
                                        return spill(transfer, buffer.name, streams, save, ready);
                                      })}));
    staged_of_[b] = staged_.back().get();
  }

  void add_tracks() {
    if (!options_.trace) return;
    for (const char* name : {"Tensor", "Vector", "Scalar", "GpSimd"}) {
      options_.trace->add_track(name);
    }
    for (int q = 0; q < dma_.num_queues(); ++q) {
      options_.trace->add_track(fmt::format("DMA queue {}", q));
    }
  }

  // The Tensor engine works in order, so that what is left for it comes on top of when it is free.
  // The margin keeps a program that takes exactly as long as allowed from being given up by
  // rounding.
  bool too_long() {
    return options_.longest_ns &&
           device_.kernel_fixed_ns + std::max(end_, engine(Unit::kTensor).free + tensor_left_) >
               *options_.longest_ns * (1 + 1e-9);
  }

  void step(const Prepared& p) {
    std::array<Extent, kMaxOperands> extents;
    for (size_t i = 0; i < p.operands.size(); ++i) extents[i] = p.operands[i].eval(values_);
    if (!staged_.empty()) visit_staged(p, extents);
    switch (p.kind) {
      case Kind::kDma:
        return run_dma(p, extents);
      case Kind::kMatmul:
      case Kind::kTranspose:
        return run_tensor(p, extents);
      default:
        return run_engine(p, extents);
    }
  }

  // Brings what an instruction touches into the staging area. From the last operand to the first:
  // where a sum is both source and destination, the visit as a source reloads it before the visit
  // as a destination, which would not. The load of a streamed buffer is skipped, because its tiles
  // come when they are used.
  void visit_staged(const Prepared& p, const std::array<Extent, kMaxOperands>& extents) {
    for (size_t i = p.operands.size(); i-- > 0;) {
      StagedBuffer* staged = staged_of(p.operands[i].buffer());
      if (!staged || (staged->streams && p.kind == Kind::kDma)) continue;
      BufferState& buffer = state(p.operands[i].buffer());
      extents[i].cells.for_each([&](int64_t cell) {
        staged->staging.visit(buffer.cells()[static_cast<size_t>(cell)], i > 0);
      });
    }
  }

  // A transfer that the program does not contain: a cell that is saved, reloaded, or streamed in.
  // Streaming takes the place of loads and uses their queues.
  double spill(const Transfer& transfer, const std::string& name, bool streams, bool save,
               double ready) {
    static const std::string kSave = "spill", kReload = "reload", kStream = "stream";
    const auto queues = streams ? DmaSystem::Class::kLoad : DmaSystem::Class::kSpill;
    const TransferTimes times = dma_.submit(queues, ready, transfer);
    if (!streams) {
      (save ? summary_.spill_save_bytes : summary_.spill_reload_bytes) += transfer.bytes();
    }
    (save ? summary_.hbm_write_bytes : summary_.hbm_read_bytes) += transfer.bytes();
    (save ? summary_.sbuf_read_bytes : summary_.sbuf_write_bytes) += transfer.bytes();
    trace_dma(times, streams ? kStream : save ? kSave : kReload, name, transfer.bytes());
    end_ = std::max(end_, times.visible);
    return times.visible;
  }

  // When all sources are visible to the engine. Operand 0 is the destination.
  double inputs_ready(const Prepared& p, const std::array<Extent, kMaxOperands>& extents) {
    double ready = 0;
    for (size_t i = 1; i < p.operands.size(); ++i) {
      ready = std::max(ready, state(p.operands[i].buffer()).readable(extents[i].cells));
    }
    return ready;
  }

  // Notes for the instructions that come later until when the sources are read and from when on the
  // result is visible. `end_` is the latest of all these times, the duration of the program.
  void complete(const Prepared& p, const std::array<Extent, kMaxOperands>& extents, Unit unit,
                double read_end, double visible) {
    // The Tensor engine is done with the stationary tile once its weights are loaded.
    if (unit == Unit::kTensor) {
      state(p.operands[1].buffer()).read(extents[1].cells, weights_loaded_);
    }
    for (size_t i = unit == Unit::kTensor ? 2 : 1; i < p.operands.size(); ++i) {
      state(p.operands[i].buffer()).read(extents[i].cells, read_end);
    }
    state(p.operands[0].buffer()).write(extents[0].cells, visible, unit);
    end_ = std::max(end_, visible);
  }

  void run_tensor(const Prepared& p, const std::array<Extent, kMaxOperands>& extents) {
    const bool matmul = p.kind == Kind::kMatmul;
    const Extent& stationary = extents[1];
    const int64_t columns = matmul ? extents[2].free_elements : stationary.partitions;
    InOrderEngine& tensor = engine(Unit::kTensor);
    // The next weights load while this matmul streams; the two take turns, never more than one
    // load ahead.
    const double load_begin = std::max({weights_loaded_, last_matmul_begin_,
                                        state(p.operands[1].buffer()).readable(stationary.cells)});
    weights_loaded_ = load_begin + p.tensor.weight_load(stationary.free_elements);
    double begin =
        std::max({tensor.free, weights_loaded_,
                  state(p.operands[0].buffer()).writable(extents[0].cells, Unit::kTensor)});
    if (matmul) begin = std::max(begin, state(p.operands[2].buffer()).readable(extents[2].cells));
    double interval = p.tensor.interval(columns);
    tensor_left_ -= interval;
    if (options_.throttle) interval *= throttle_factor(begin);
    last_matmul_begin_ = begin;
    tensor.run(begin, interval, p.tensor.latency_ns);
    complete(p, extents, Unit::kTensor, tensor.free, tensor.free + p.tensor.latency_ns);
    count_tensor(p, extents, columns);
    trace(Unit::kTensor, p, begin, tensor.free);
  }

  // The dI/dt limit of trn2 and trn3: after a pause, the array starts at a part of its rate and
  // ramps up. Assumed: a pause of half the ramp starts it anew.
  double throttle_factor(double begin) {
    const double ramp = device_.throttle_ramp_ns;
    if (ramp <= 0) return 1;
    if (begin - engine(Unit::kTensor).free > ramp / 2) ramp_begin_ = begin;
    const double progress = std::min(1.0, (begin - ramp_begin_) / ramp);
    return 1.0 / (device_.throttle_start + (1.0 - device_.throttle_start) * progress);
  }

  void count_tensor(const Prepared& p, const std::array<Extent, kMaxOperands>& extents,
                    int64_t columns) {
    const bool matmul = p.kind == Kind::kMatmul;
    const Extent& stationary = extents[1];
    const double flops = 2.0 * static_cast<double>(stationary.partitions) *
                         static_cast<double>(stationary.free_elements) *
                         static_cast<double>(columns);
    summary_.hardware_flops += flops;
    summary_.adjusted_hardware_flops += flops * (p.fp32 ? 4 : 1);
    if (!matmul) summary_.transpose_flops += flops;
    summary_.matmul_instruction_count += p.tensor.halves;
    // Every half is a LoadStationary and a MultiplyMoving; run() has counted one of them already.
    engine(Unit::kTensor).count += 2 * p.tensor.halves - 1;
    count_bytes(p, extents);
  }

  // The engine that is done first, as a compiler that balances them would choose.
  void run_engine(const Prepared& p, const std::array<Extent, kMaxOperands>& extents) {
    const double ready = inputs_ready(p, extents);
    Unit best = Unit::kVector;
    double best_begin = 0, best_end = 1e300;
    const auto consider = [&](bool allowed, Unit unit, const EngineCost& cost) {
      if (!allowed) return;
      const double begin = engine_begin(p, extents, unit, ready);
      const double end = begin + cost.interval(extents[0].free_elements);
      if (end < best_end) best = unit, best_begin = begin, best_end = end;
    };
    consider(p.on_vector, Unit::kVector, p.vector);
    consider(p.on_scalar, Unit::kScalar, p.scalar);
    consider(p.on_gpsimd, Unit::kGpSimd, p.gpsimd);
    const EngineCost& cost = best == Unit::kVector   ? p.vector
                             : best == Unit::kScalar ? p.scalar
                                                     : p.gpsimd;
    // Loading a function's table delays the activation. The choice above does not see it, which is
    // no loss: only Scalar runs activations.
    if (p.kind == Kind::kActivate) best_begin = load_activation_table(p, best_begin);
    const double interval = cost.interval(extents[0].free_elements);
    engine(best).run(best_begin, interval, cost.latency_ns);
    if (p.touches_psum) psum_port_free_ = engine(best).free;
    if (device_.sbuf_exclusive > 0 && best != Unit::kScalar) sbuf_port_free_ = engine(best).free;
    complete(p, extents, best, engine(best).free, engine(best).free + cost.latency_ns);
    if (p.kind == Kind::kActivate) ++summary_.activate_instruction_count;
    count_bytes(p, extents);
    trace(best, p, best_begin, engine(best).free);
  }

  // An engine starts when it is free, its inputs are visible and its destination is no longer read;
  // on NeuronCore-v2 also when no other engine holds the port to PSUM or SBUF.
  double engine_begin(const Prepared& p, const std::array<Extent, kMaxOperands>& extents, Unit unit,
                      double ready) {
    double begin = std::max(
        {engine(unit).free, ready, state(p.operands[0].buffer()).writable(extents[0].cells, unit)});
    if (p.touches_psum && device_.psum_exclusive > 0) begin = std::max(begin, psum_port_free_);
    if (unit != Unit::kScalar && device_.sbuf_exclusive > 0) {
      begin = std::max(begin, sbuf_port_free_);
    }
    return begin;
  }

  // The copy function needs no table, and the one that is loaded stays until another is wanted.
  double load_activation_table(const Prepared& p, double begin) {
    const auto function = std::get<tile::Activate>(p.instruction->operation).function;
    if (function == tile::Activation::kCopy || function == activation_table_) return begin;
    activation_table_ = function;
    return begin + device_.activation_table_load_ns;
  }

  // A transfer that is empty at the ragged end of a loop costs nothing. One into a streamed buffer
  // is made when its tiles are used (visit_staged).
  void run_dma(const Prepared& p, const std::array<Extent, kMaxOperands>& extents) {
    const Transfer transfer =
        make_transfer(program_, p, {values_, static_cast<size_t>(program_.num_loops)});
    const StagedBuffer* staged = staged_of(p.operands[0].buffer());
    if (transfer.bytes() == 0 || (staged && staged->streams)) return;
    const double ready =
        std::max(inputs_ready(p, extents),
                 state(p.operands[0].buffer()).writable(extents[0].cells, Unit::kDma));
    const auto queues = p.stores ? DmaSystem::Class::kStore : DmaSystem::Class::kLoad;
    const TransferTimes times = dma_.submit(queues, ready, transfer);
    complete(p, extents, Unit::kDma, times.data_end, times.visible);
    summary_.hbm_read_bytes += p.loads ? transfer.bytes() : 0;
    summary_.hbm_write_bytes += p.stores ? transfer.bytes() : 0;
    // From HBM to HBM no byte touches SBUF.
    if (p.spans_partitions) {
      (p.loads ? summary_.sbuf_write_bytes : summary_.sbuf_read_bytes) += transfer.bytes();
    }
    trace_dma(times, p.instruction->label, *p.target, transfer.bytes());
  }

  void count_bytes(const Prepared& p, const std::array<Extent, kMaxOperands>& extents) {
    for (size_t i = 0; i < p.operands.size(); ++i) {
      const int64_t bytes = extents[i].partitions * extents[i].free_elements * p.element_bytes[i];
      if (p.in_psum[i]) {
        (i == 0 ? summary_.psum_write_bytes : summary_.psum_read_bytes) += bytes;
      } else {
        (i == 0 ? summary_.sbuf_write_bytes : summary_.sbuf_read_bytes) += bytes;
      }
    }
  }

  void trace(Unit unit, const Prepared& p, double begin, double end) {
    if (!options_.trace) return;
    options_.trace->record(static_cast<int>(unit), p.instruction->label, *p.target, begin, end);
  }
  void trace_dma(const TransferTimes& times, const std::string& label, const std::string& buffer,
                 int64_t bytes) {
    if (!options_.trace) return;
    options_.trace->record(kNumEngines + times.queue, label, buffer, times.issue, times.data_end,
                           bytes);
  }

  // The summary of neuron-profile is in seconds.
  void finish() {
    summary_.total_time = (device_.kernel_fixed_ns + end_) * 1e-9;
    summary_.tensor = engine(Unit::kTensor).summary();
    summary_.vector = engine(Unit::kVector).summary();
    summary_.scalar = engine(Unit::kScalar).summary();
    summary_.gpsimd = engine(Unit::kGpSimd).summary();
    summary_.sync.instruction_count = dma_.transfers();
    summary_.dma_active_time = dma_.active_time() * 1e-9;
    summary_.dma_packet_time = dma_.packet_time() * 1e-9;
    summary_.dma_transfer_count = dma_.transfers();
    summary_.dma_transfer_total_bytes = summary_.hbm_bytes();
    summary_.dma_queue_count = dma_.num_queues();
    for (const tile::Buffer& buffer : program_.buffers) {
      if (buffer.role != HbmRole::kInput && buffer.role != HbmRole::kOutput) continue;
      int64_t bytes = dtype_size_bytes(buffer.dtype);
      for (const int64_t size : buffer.shape) bytes *= size;
      summary_.inputs_outputs_weights_size_bytes += bytes;
    }
    // Without a figure from the kernel, derive() takes what the Tensor engine did without
    // transposes.
    if (options_.model_flops) summary_.model_flops = *options_.model_flops;
    summary_.derive(device_);
  }

  const Residency& plan_;
  const Program& program_;
  const DeviceSpec& device_;
  const TimingOptions& options_;
  DmaSystem dma_;
  std::vector<Grid> grids_;
  std::vector<BufferState> buffers_;
  std::vector<Prepared> prepared_;
  std::vector<std::unique_ptr<StagedBuffer>> staged_;
  std::vector<StagedBuffer*> staged_of_;  // per buffer of the program, null: wholly resident
  std::array<InOrderEngine, kNumEngines> engines_;
  const int64_t* values_ = nullptr;
  double weights_loaded_ = 0, last_matmul_begin_ = 0, ramp_begin_ = 0;
  double psum_port_free_ = 0, sbuf_port_free_ = 0;
  std::optional<tile::Activation> activation_table_;
  double end_ = 0, tensor_left_ = 0;
  bool gave_up_ = false;
  int64_t instructions_ = 0;
  Summary summary_;
};

// The first rule of the machine that the program breaks. Tiles are largest where all loops begin.
Status check(const Program& program, const DeviceSpec& device) {
  NMM_TRY(tile::check_structure(program));
  const tile::Limits limits = limits_of(device);
  const std::vector<int64_t> begin(static_cast<size_t>(program.num_loops));
  Status valid;
  for_each_instruction(program.body, [&](const tile::Instruction& instruction) {
    const auto report = [&](BufferId b, const std::string& what) {
      if (!valid.ok()) return;
      valid =
          fail("{}: \"{}\": {}: {}", program.name, instruction.label, program.buffer(b).name, what);
    };
    tile::check_operands(program, instruction, report);
    tile::check_extents(program, instruction, limits, begin, report);
  });
  return valid;
}

Timing run(const Residency& plan, const DeviceSpec& device, const TimingOptions& options) {
  Simulation simulation(plan, device, options);
  Timing timing;
  timing.summary = simulation.run();
  timing.instructions = simulation.instructions();
  timing.sbuf_wanted = plan.wanted;
  timing.sbuf_capacity = plan.capacity;
  timing.remedies = plan.remedies;
  timing.gave_up = simulation.gave_up();
  return timing;
}

// A plan that turns out slower than one before it is given up. Only the fastest is traced.
Timing run_fastest(const std::vector<Residency>& plans, const DeviceSpec& device,
                   const TimingOptions& options) {
  if (plans.size() == 1) return run(plans.front(), device, options);
  TimingOptions untraced = options;
  untraced.trace = nullptr;
  const Residency* best = &plans.front();
  Timing fastest = run(*best, device, untraced);
  for (const Residency& plan : std::span(plans).subspan(1)) {
    if (!fastest.gave_up) untraced.longest_ns = fastest.summary.total_time * 1e9;
    Timing timing = run(plan, device, untraced);
    if (timing.gave_up) continue;
    best = &plan;
    fastest = std::move(timing);
  }
  return options.trace ? run(*best, device, options) : fastest;
}

}  // namespace

Result<Timing> simulate(const Program& program, const DeviceSpec& device,
                        const TimingOptions& options) {
  NMM_TRY(check(program, device));
  NMM_ASSIGN(const std::vector<Residency> plans, make_resident(program, device));
  return run_fastest(plans, device, options);
}

}  // namespace neuronmm::simulator
