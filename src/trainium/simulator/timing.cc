#include "trainium/simulator/timing.h"

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <span>

#include "trainium/simulator/bound.h"
#include "trainium/simulator/core.h"
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

// The instructions of a tile program in the order of its walker, as a Source of core.h. A node of
// the program is prepared once, however often it runs.
class TileSource {
 public:
  // Makes a transfer that the program does not contain. move(transfer, buffer, streams, save,
  // ready) returns when its data is in place.
  using Move = std::function<double(const Transfer&, const std::string&, bool, bool, double)>;

  TileSource(const Residency& plan, const DeviceSpec& device)
      : plan_(plan),
        program_(plan.program),
        device_(device),
        grids_(make_grids(program_)),
        walker_(program_),
        prepared_(static_cast<size_t>(walker_.num_nodes())),
        values_(walker_.loop_values().data()) {
    make_buffers();
  }
  void set_move(Move move) { move_ = std::move(move); }

  bool next() {
    while (walker_.next()) {
      if (const tile::Allocate* allocate = walker_.allocate()) {
        BufferState& buffer = state(allocate->buffer);
        buffer.allocate();
        // A new instance of a buffer that is not wholly resident has no staged cells. If the buffer
        // streams, HBM holds its content.
        if (StagedBuffer* staged = staged_of(allocate->buffer)) {
          staged->staging.forget(buffer, staged->streams);
        }
        continue;
      }
      Prepared& p = prepared_[static_cast<size_t>(walker_.node())];
      if (!p.instruction) p = prepare(program_, *walker_.instruction(), grids_, device_);
      p_ = &p;
      for (size_t i = 0; i < p.operands.size(); ++i) extents_[i] = p.operands[i].eval(values_);
      if (!staged_.empty()) visit_staged();
      return true;
    }
    return false;
  }
  const Job& job() const { return *p_; }
  const std::string& label() const { return p_->instruction->label; }
  const std::string& target() const { return *p_->target; }

  int64_t streamed() const { return extents_[0].free_elements; }
  // A transpose streams the identity, which has as many columns as the data has partitions.
  TensorWork tensor_work() const {
    const Extent& stationary = extents_[1];
    return {stationary.partitions, stationary.free_elements,
            p_->kind == Kind::kMatmul ? extents_[2].free_elements : stationary.partitions};
  }
  // A load into a streamed buffer moves nothing here, because visit_staged() loads its tiles when
  // they are used.
  Transfer transfer() {
    const StagedBuffer* staged = staged_of(p_->operands[0].buffer());
    if (staged && staged->streams) return {};
    return make_transfer(program_, *p_, {values_, static_cast<size_t>(program_.num_loops)});
  }

  // Operand 0 is the destination.
  double inputs_ready() {
    double ready = 0;
    for (size_t i = 1; i < p_->operands.size(); ++i) ready = std::max(ready, readable(i));
    // A sequencer loads the index before it triggers the transfer. Assumed: the load of a register
    // itself takes no time, as in traces (trainium/trace/pricing.cc).
    for (const Operand& index : p_->index) {
      ready = std::max(ready, state(index.buffer()).readable(index.eval(values_).cells));
    }
    return ready;
  }
  double stationary_ready() { return readable(1); }
  double moving_ready() { return p_->kind == Kind::kMatmul ? readable(2) : 0; }
  double output_free(Unit unit) {
    return state(p_->operands[0].buffer()).writable(extents_[0].cells, unit);
  }
  void complete(Unit unit, double stationary_read, double read, double visible) {
    const size_t first_other_source = unit == Unit::kTensor ? 2 : 1;
    if (first_other_source == 2) {
      state(p_->operands[1].buffer()).read(extents_[1].cells, stationary_read);
    }
    for (size_t i = first_other_source; i < p_->operands.size(); ++i) {
      state(p_->operands[i].buffer()).read(extents_[i].cells, read);
    }
    state(p_->operands[0].buffer()).write(extents_[0].cells, visible, unit);
  }
  void ran(const Run&) {}

  void count_bytes(Summary& summary) const {
    for (size_t i = 0; i < p_->operands.size(); ++i) {
      const int64_t bytes =
          extents_[i].partitions * extents_[i].free_elements * p_->element_bytes[i];
      if (p_->in_psum[i]) {
        (i == 0 ? summary.psum_write_bytes : summary.psum_read_bytes) += bytes;
      } else {
        (i == 0 ? summary.sbuf_write_bytes : summary.sbuf_read_bytes) += bytes;
      }
    }
  }

 private:
  using Extent = Operand::Extent;
  static constexpr size_t kMaxOperands = 4;

  struct StagedBuffer {
    bool streams;
    Staging staging;
  };

  StagedBuffer* staged_of(BufferId b) { return staged_of_[static_cast<size_t>(b)]; }
  BufferState& state(BufferId b) { return buffers_[static_cast<size_t>(b)]; }
  double readable(size_t operand) {
    return state(p_->operands[operand].buffer()).readable(extents_[operand].cells);
  }

  void make_buffers() {
    std::vector<bool> read(grids_.size()), written(grids_.size());
    for_each_instruction(program_.body, [&](const tile::Instruction& instruction) {
      for_each_access(instruction.operation, [&](const tile::Access& access, bool writes) {
        (writes ? written : read)[static_cast<size_t>(access.buffer)] = true;
      });
    });
    for (size_t b = 0; b < grids_.size(); ++b) {
      // Nothing waits for an operand in HBM that the program only reads or only writes.
      const bool tracked = program_.buffers[b].memory != Memory::kHbm || (read[b] && written[b]);
      buffers_.emplace_back(grids_[b].cells, plan_.rotation[b], tracked);
    }
    staged_of_.resize(grids_.size(), nullptr);
    for (const PartialBuffer& partial : plan_.partials) make_staging(partial);
  }

  // PartialBuffer counts bytes per partition, and the staging area counts cells. The conversion
  // takes as many cells as fit along the free dimensions, for every row of cells along the
  // partitions. The staging area has at least two cells per row: one in use and one in transfer.
  void make_staging(const PartialBuffer& partial) {
    const auto b = static_cast<size_t>(partial.buffer);
    const tile::Buffer& buffer = program_.buffers[b];
    const BufferGrid& grid = grids_[b];
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
                                        return move_(transfer, buffer.name, streams, save, ready);
                                      })}));
    staged_of_[b] = staged_.back().get();
  }

  // Brings the cells that an instruction touches into the staging area, from the last operand to
  // the first. A sum may be both source and destination. Its visit as a source must come first
  // because only that visit reloads it. The load of a streamed buffer is skipped, because its tiles
  // are loaded when they are used.
  void visit_staged() {
    for (size_t i = p_->operands.size(); i-- > 0;) {
      StagedBuffer* staged = staged_of(p_->operands[i].buffer());
      if (!staged || (staged->streams && p_->kind == Kind::kDma)) continue;
      BufferState& buffer = state(p_->operands[i].buffer());
      extents_[i].cells.for_each([&](int64_t cell) {
        staged->staging.visit(buffer.cells()[static_cast<size_t>(cell)], i > 0);
      });
    }
  }

  const Residency& plan_;
  const Program& program_;
  const DeviceSpec& device_;
  std::vector<BufferGrid> grids_;
  tile::Walker walker_;
  std::vector<Prepared> prepared_;  // The prepared instructions, by node.
  const int64_t* values_;           // The values of the loops.
  const Prepared* p_ = nullptr;     // The instruction that next() has moved to.
  std::array<Extent, kMaxOperands> extents_;
  std::vector<BufferState> buffers_;
  std::vector<std::unique_ptr<StagedBuffer>> staged_;
  std::vector<StagedBuffer*> staged_of_;  // By buffer; null if it is wholly resident.
  Move move_;
};

// Returns the size of the kernel's inputs and outputs.
int64_t operand_bytes(const Program& program) {
  int64_t total = 0;
  for (const tile::Buffer& buffer : program.buffers) {
    if (buffer.role != HbmRole::kInput && buffer.role != HbmRole::kOutput) continue;
    int64_t bytes = dtype_size_bytes(buffer.dtype);
    for (const int64_t size : buffer.shape) bytes *= size;
    total += bytes;
  }
  return total;
}

// Returns the first rule of the machine that the program breaks. Tiles are largest in the first
// iteration of all loops, so only that is checked.
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
  TileSource source(plan, device);
  const double tensor_ns = options.longest_ns ? bound(plan.program, device).tensor_ns : 0;
  Core core(source, device, options, tensor_ns);
  source.set_move(
      [&core](const Transfer& transfer, const std::string& buffer, bool streams, bool save,
              double ready) { return core.spill(transfer, buffer, streams, save, ready).visible; });
  Timing timing;
  timing.summary = core.run(operand_bytes(plan.program));
  timing.instructions = core.instructions();
  timing.sbuf_wanted = plan.wanted;
  timing.sbuf_capacity = plan.capacity;
  timing.remedies = plan.remedies;
  timing.gave_up = core.gave_up();
  return timing;
}

// Simulates all plans and returns the fastest. A plan that turns out slower than the best so far is
// given up. Only the fastest plan is traced.
Timing run_fastest(const std::vector<Residency>& plans, const DeviceSpec& device,
                   const TimingOptions& options) {
  if (plans.size() == 1) return run(plans.front(), device, options);
  TimingOptions untraced = options;
  untraced.timeline = nullptr;
  const Residency* best = &plans.front();
  Timing fastest = run(*best, device, untraced);
  for (const Residency& plan : std::span(plans).subspan(1)) {
    if (!fastest.gave_up) untraced.longest_ns = fastest.summary.total_time * 1e9;
    Timing timing = run(plan, device, untraced);
    if (timing.gave_up) continue;
    best = &plan;
    fastest = std::move(timing);
  }
  return options.timeline ? run(*best, device, options) : fastest;
}

}  // namespace

Result<Timing> simulate(const Program& program, const DeviceSpec& device,
                        const TimingOptions& options) {
  NMM_TRY(check(program, device));
  NMM_ASSIGN(const std::vector<Residency> plans, make_resident(program, device));
  return run_fastest(plans, device, options);
}

}  // namespace neuronmm::simulator
