#pragma once
// Simulates one NeuronCore at work. Each engine and each DMA queue works through its instructions
// in order. An instruction starts when its engine is free, its inputs are visible and the memory
// that it writes is no longer in use. The instructions and the state of the memory come from a
// Source, of which there are two kinds: the walker of a tile program (timing.cc) and the trace of a
// kernel (trainium/trace/source.h). All times are in ns since the begin of the kernel.
//
// A Source has these members. All of them except next() are about the instruction that next() has
// moved to.
//   bool next();
//       Moves to the next instruction. Returns false at the end.
//   const Job& job();
//       Returns the instruction's engines and costs.
//   int64_t streamed();
//       Returns the elements per partition that pass through a compute engine.
//   TensorWork tensor_work();
//       Returns the sizes of a matmul or transpose.
//   Transfer transfer();
//       Returns the bytes that a DMA moves.
//   double inputs_ready();
//       Returns when everything that the instruction reads is visible.
//   double stationary_ready(), moving_ready();
//       Return when one operand of a matmul is visible.
//   double output_free(Unit);
//       Returns when the engine may overwrite what the instruction writes.
//   void ran(const Run&);
//       Receives the instruction's times, before complete() is called.
//   void complete(Unit, double stationary_read, double read, double visible);
//       Notes the accesses: until when the operands are read, and from when on the result is
//       visible.
//   void count_bytes(Summary&);
//       Adds the SBUF and PSUM bytes that a compute engine's instruction reads and writes.
//   const std::string &label(), &target();
//       Return the names of the instruction and of the buffer that it writes, for the timeline.

#include <algorithm>
#include <array>
#include <bit>
#include <string>

#include "trainium/simulator/dma.h"
#include "trainium/simulator/engine.h"
#include "trainium/simulator/job.h"
#include "trainium/simulator/timing.h"

namespace neuronmm::simulator {

template <typename Source>
class Core {
 public:
  // `tensor_ns` is the Tensor engine's work in the whole program. Only a run with a limit
  // (`longest_ns`) needs it.
  Core(Source& source, const DeviceSpec& device, const TimingOptions& options, double tensor_ns = 0)
      : source_(source), device_(device), options_(options), dma_(device), tensor_left_(tensor_ns) {
    add_tracks();
  }

  // Runs all instructions. `operand_bytes` is the size of the kernel's inputs and outputs.
  Summary run(int64_t operand_bytes) {
    while (source_.next()) {
      step(source_.job());
      ++instructions_;
      if (too_long()) {
        gave_up_ = true;
        break;
      }
    }
    summary_.inputs_outputs_weights_size_bytes = operand_bytes;
    finish();
    return summary_;
  }
  int64_t instructions() const { return instructions_; }
  bool gave_up() const { return gave_up_; }
  const DmaSystem& dma() const { return dma_; }

  // Simulates a transfer that the instructions do not contain: a tile is saved, reloaded, or
  // streamed in. A tile that streams in takes the place of a load and uses the queues of loads.
  TransferTimes spill(const Transfer& transfer, const std::string& name, bool streams, bool save,
                      double ready) {
    static const std::string kSave = "spill", kReload = "reload", kStream = "stream";
    const auto queues = streams ? DmaSystem::Class::kLoad : DmaSystem::Class::kSpill;
    const TransferTimes times = dma_.submit(queues, ready, transfer);
    if (!streams) {
      (save ? summary_.spill_save_bytes : summary_.spill_reload_bytes) += transfer.bytes();
    }
    (save ? summary_.hbm_write_bytes : summary_.hbm_read_bytes) += transfer.bytes();
    (save ? summary_.sbuf_read_bytes : summary_.sbuf_write_bytes) += transfer.bytes();
    record_dma(times, streams ? kStream : save ? kSave : kReload, name, transfer.bytes());
    end_ = std::max(end_, times.visible);
    return times;
  }

 private:
  InOrderEngine& engine(Unit unit) { return engines_[static_cast<size_t>(unit)]; }

  void add_tracks() {
    if (!options_.timeline) return;
    for (const char* name : {"Tensor", "Vector", "Scalar", "GpSimd"}) {
      options_.timeline->add_track(name);
    }
    for (int q = 0; q < dma_.num_queues(); ++q) {
      options_.timeline->add_track(fmt::format("DMA queue {}", q));
    }
    flying_ = options_.timeline->add_counter("DMA", "transfers in flight",
                                             dma_.num_queues() * device_.dma_depth);
  }

  // Returns true if the program certainly exceeds the limit. The Tensor engine works in order, so
  // its remaining work begins when the engine is free. The margin is for rounding: a program that
  // takes exactly the limit is not given up.
  bool too_long() {
    return options_.longest_ns &&
           device_.kernel_fixed_ns + std::max(end_, engine(Unit::kTensor).free + tensor_left_) >
               *options_.longest_ns * (1 + 1e-9);
  }

  void step(const Job& job) {
    switch (job.kind) {
      case Kind::kDma:
        return run_dma(job);
      case Kind::kMatmul:
      case Kind::kTranspose:
        return run_tensor(job);
      default:
        return run_engine(job);
    }
  }

  // Reports the instruction to the source. `end_` is the latest time at which a result is visible,
  // which is the duration of the program.
  void complete(const Run& run, double stationary_read) {
    source_.ran(run);
    source_.complete(run.unit, stationary_read, run.end, run.visible);
    end_ = std::max(end_, run.visible);
  }

  void run_tensor(const Job& job) {
    const TensorWork work = source_.tensor_work();
    // The weights of the next matmul load while the present one streams. Loading is never more than
    // one matmul ahead.
    const double load_begin =
        std::max({weights_loaded_, last_matmul_begin_, source_.stationary_ready()});
    weights_loaded_ = load_begin + job.tensor.weight_load(work.rows);
    Run run{.unit = Unit::kTensor, .engine_free = array_free(job.array_part)};
    run.begin = std::max({run.engine_free, weights_loaded_, source_.output_free(Unit::kTensor),
                          source_.moving_ready()});
    double interval = job.tensor.interval(work.columns);
    tensor_left_ -= interval;
    if (options_.throttle) interval *= throttle_factor(run.begin);
    last_matmul_begin_ = run.begin;
    run.end = run.begin + interval;
    run.visible = run.end + job.tensor.latency_ns;
    occupy_array(job, run.begin, interval);
    // The Tensor engine has finished with the stationary tile when its weights are loaded.
    complete(run, weights_loaded_);
    count_tensor(job, work);
    record(run);
  }

  // Returns when a part of the array is free. A job on a part waits for earlier jobs on that part
  // and for jobs on the whole array.
  double array_free(uint16_t part) {
    if (part == Job::kWholeArray) return engine(Unit::kTensor).free;
    double free = whole_array_free_;
    for (unsigned left = part; left != 0; left &= left - 1) {
      free = std::max(free, part_free_[static_cast<size_t>(std::countr_zero(left))]);
    }
    return free;
  }
  void occupy_array(const Job& job, double begin, double interval) {
    InOrderEngine& tensor = engine(Unit::kTensor);
    const double before = tensor.free;
    tensor.run(begin, interval, job.tensor.latency_ns);
    if (job.array_part == Job::kWholeArray) {
      whole_array_free_ = tensor.free;
      return;
    }
    for (unsigned left = job.array_part; left != 0; left &= left - 1) {
      part_free_[static_cast<size_t>(std::countr_zero(left))] = tensor.free;
    }
    tensor.free = std::max(tensor.free, before);
  }

  // Returns by how much the dI/dt limit of trn2 and trn3 stretches a matmul that begins at `begin`.
  // After a pause, the array starts at a part of its rate and ramps up. Assumed: a pause of half
  // the ramp's length restarts the ramp.
  double throttle_factor(double begin) {
    const double ramp = device_.throttle_ramp_ns;
    if (ramp <= 0) return 1;
    if (begin - engine(Unit::kTensor).free > ramp / 2) ramp_begin_ = begin;
    const double progress = std::min(1.0, (begin - ramp_begin_) / ramp);
    return 1.0 / (device_.throttle_start + (1.0 - device_.throttle_start) * progress);
  }

  void count_tensor(const Job& job, const TensorWork& work) {
    const double flops = 2.0 * static_cast<double>(work.contraction) *
                         static_cast<double>(work.rows) * static_cast<double>(work.columns);
    summary_.hardware_flops += flops;
    summary_.adjusted_hardware_flops += flops * (job.fp32 ? 4 : 1);
    if (job.kind != Kind::kMatmul) summary_.transpose_flops += flops;
    summary_.matmul_instruction_count += job.tensor.instruction_pairs;
    // Every half is a LoadStationary and a MultiplyMoving. InOrderEngine::run has already counted
    // one instruction.
    engine(Unit::kTensor).count += 2 * job.tensor.instruction_pairs - 1;
    source_.count_bytes(summary_);
  }

  // Runs the instruction on the engine that would finish it first, as a compiler that balances the
  // engines would choose.
  void run_engine(const Job& job) {
    const double ready = source_.inputs_ready();
    const int64_t elements = source_.streamed();
    Unit best = Unit::kVector;
    double best_begin = 0, best_end = 1e300;
    const auto consider = [&](bool allowed, Unit unit, const EngineCost& cost) {
      if (!allowed) return;
      const double begin = engine_begin(job, unit, ready);
      const double end = begin + cost.interval(elements);
      if (end < best_end) best = unit, best_begin = begin, best_end = end;
    };
    consider(job.on_vector, Unit::kVector, job.vector);
    consider(job.on_scalar, Unit::kScalar, job.scalar);
    consider(job.on_gpsimd, Unit::kGpSimd, job.gpsimd);
    const EngineCost& cost = best == Unit::kVector   ? job.vector
                             : best == Unit::kScalar ? job.scalar
                                                     : job.gpsimd;
    // Loading a function's table delays the activation. The choice of the engine ignores the delay
    // because activations run on Scalar only.
    const double table_ns = job.kind == Kind::kActivate ? load_activation_table(job) : 0;
    best_begin += table_ns;
    Run run{.unit = best,
            .begin = best_begin,
            .table_ns = table_ns,
            .engine_free = engine(best).free,
            .port_free = port_free(job, best)};
    engine(best).run(best_begin, cost.interval(elements), cost.latency_ns);
    run.end = engine(best).free;
    run.visible = run.end + cost.latency_ns;
    if (job.touches_psum) psum_port_free_ = run.end;
    if (device_.sbuf_exclusive > 0 && best != Unit::kScalar) sbuf_port_free_ = run.end;
    complete(run, run.end);
    if (job.kind == Kind::kActivate) ++summary_.activate_instruction_count;
    source_.count_bytes(summary_);
    record(run);
  }

  // Returns when an engine can start. The engine must be free, its inputs visible and its
  // destination no longer read. On NeuronCore-v2 no other engine may hold the port to PSUM or SBUF.
  double engine_begin(const Job& job, Unit unit, double ready) {
    return std::max({engine(unit).free, ready, source_.output_free(unit), port_free(job, unit)});
  }
  double port_free(const Job& job, Unit unit) const {
    double free = 0;
    if (job.touches_psum && device_.psum_exclusive > 0) free = psum_port_free_;
    if (unit != Unit::kScalar && device_.sbuf_exclusive > 0) free = std::max(free, sbuf_port_free_);
    return free;
  }

  // Returns the time to load an activation table, 0 if it is loaded already. The copy function
  // needs no table. A loaded table stays until an activation needs another one.
  double load_activation_table(const Job& job) {
    if (job.table == kNoTable || job.table == activation_table_) return 0;
    activation_table_ = job.table;
    return device_.activation_table_load_ns;
  }

  // Submits a transfer. A transfer that is empty at the ragged end of a loop costs nothing.
  void run_dma(const Job& job) {
    const Transfer transfer = source_.transfer();
    if (transfer.bytes() == 0) return;
    const double ready = std::max(source_.inputs_ready(), source_.output_free(Unit::kDma));
    const auto queues = job.stores ? DmaSystem::Class::kStore : DmaSystem::Class::kLoad;
    const TransferTimes times = dma_.submit(queues, ready, transfer);
    complete({.unit = Unit::kDma,
              .begin = times.issue,
              .end = times.data_end,
              .visible = times.visible,
              .queue = times.queue,
              .ready = ready,
              .sequencer_ns = times.sequencer_ns},
             times.data_end);
    summary_.hbm_read_bytes += job.loads ? transfer.bytes() : 0;
    summary_.hbm_write_bytes += job.stores ? transfer.bytes() : 0;
    // A transfer from HBM to HBM does not touch SBUF.
    if (job.spans_partitions) {
      summary_.sbuf_write_bytes += job.stores ? 0 : transfer.bytes();
      summary_.sbuf_read_bytes += job.loads ? 0 : transfer.bytes();
    }
    record_dma(times, source_.label(), source_.target(), transfer.bytes());
  }

  void record(const Run& run) {
    if (!options_.timeline) return;
    options_.timeline->record(static_cast<int>(run.unit), source_.label(), source_.target(),
                              run.begin, run.end);
  }
  void record_dma(const TransferTimes& times, const std::string& label, const std::string& buffer,
                  int64_t bytes) {
    if (!options_.timeline) return;
    options_.timeline->record(kNumEngines + times.queue, label, buffer, times.issue, times.data_end,
                              bytes);
    options_.timeline->count(flying_, times.issue, times.data_end, 1);
  }

  // Fills in the summary. Like neuron-profile's, it is in seconds.
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
    // Without a value from the kernel, derive() uses the Tensor engine's FLOPs without transposes.
    if (options_.model_flops) summary_.model_flops = *options_.model_flops;
    summary_.derive(device_);
  }

  Source& source_;
  const DeviceSpec& device_;
  const TimingOptions& options_;
  DmaSystem dma_;
  std::array<InOrderEngine, kNumEngines> engines_;
  double whole_array_free_ = 0;
  std::array<double, 16> part_free_{};
  double weights_loaded_ = 0, last_matmul_begin_ = 0, ramp_begin_ = 0;
  double psum_port_free_ = 0, sbuf_port_free_ = 0;
  int32_t activation_table_ = kNoTable;
  double end_ = 0, tensor_left_ = 0;
  bool gave_up_ = false;
  int64_t instructions_ = 0;
  Summary summary_;
  int flying_ = 0;  // The timeline's counter of transfers in flight.
};

}  // namespace neuronmm::simulator
