#include "trainium/trace/source.h"

#include <algorithm>
#include <map>

namespace neuronmm::trace {

namespace {

// Returns a number that is not 0 and the same for reads of the same elements only.
uint64_t content_of(const OperandRecord& record) {
  uint64_t hash = (uint64_t{record.instance} << 32 | record.pattern) + 1;
  hash = (hash ^ static_cast<uint64_t>(record.offset)) * 0x9e3779b97f4a7c15;
  return (hash ^ hash >> 29) | 1;
}

}  // namespace

using simulator::Run;
using simulator::Unit;
using tile::Memory;

TraceSource::TraceSource(const TraceFile& file, const Contents& contents,
                         const simulator::DeviceSpec& device, const BufferLimits& buffer_limits,
                         const std::vector<bool>& left_out, SpillingMemory* spilling)
    : file_(file),
      header_(file.header()),
      contents_(contents),
      cursor_(file.records()),
      slots_(header_),
      known_(slots_.count()),
      prices_(header_, contents.accesses, device),
      left_out_(left_out),
      memory_(file, contents, device, buffer_limits, spilling == nullptr),
      spilling_(spilling),
      stalls_(header_.sources.size(), contents.instructions),
      work_(header_.operations.size()),
      predecessors_(device) {
  for (const Operation& operation : header_.operations) {
    const bool matmul = operation.name == "nc_matmul" || operation.name == "nc_matmul_mx";
    const auto at = std::ranges::find(operation.operands, matmul ? "stationary" : "src");
    stationary_.push_back(static_cast<size_t>(at - operation.operands.begin()));
    has_run_time_index_.push_back(std::ranges::count(operation.has_run_time_index, true) > 0);
    replaces_.push_back(!header_.legacy() && operation.name == "dma_copy" && !operation.accumulate);
  }
}

void TraceSource::count_memory(const simulator::DeviceSpec& device, simulator::Timeline& timeline) {
  counters_.emplace(header_, contents_, device, timeline);
}

bool TraceSource::next() {
  while (true) {
    finish_last();
    if (!cursor_.next()) return false;
    if (!cursor_.is(RecordKind::kInstruction)) continue;
    ++index_;
    status_ = resolve();
    if (!status_.ok()) return false;
    if (priced_->takes_no_time) {
      // A number that is loaded into a register delays the transfers whose place it tells.
      registers_ready_ = std::max(registers_ready_, inputs_ready());
      continue;
    }
    if (left_out_.empty() || !left_out_[index_]) return true;
    leave_out();
  }
}

// Ends the transfer as soon as it could begin.
void TraceSource::leave_out() {
  const double now = std::max(inputs_ready(), output_free(Unit::kDma));
  complete(Unit::kDma, now, now, now);
}

// Frees the memory of the tensors whose last access was the previous instruction.
void TraceSource::finish_last() {
  if (spilling_) spilling_->finish();
  for (const uint32_t root : roots_) {
    memory_.end_access(root, index_);
    if (counters_ && contents_.instances[root].last == index_) counters_->finish(root);
  }
  roots_.clear();
}

const Access& TraceSource::access_of(size_t operand, const OperandRecord& record,
                                     bool has_run_time_index) {
  Known& known = known_[slots_.index_of(cursor_.subject(), operand)];
  const Access key = contents_.key(record, has_run_time_index);
  if (known.access == nullptr || !known.key.same(key)) {
    known = {key, &contents_.accesses.find(key)};
  }
  return *known.access;
}

// Returns whether an access covers its whole tensor.
bool TraceSource::fills(const Access& access, uint32_t root) const {
  const TensorKind& kind = header_.tensors[contents_.instances[root].kind];
  const Form& form = contents_.accesses.form(access);
  return kind.on_chip() && form.partitions == kind.shape[0] &&
         form.elements * form.dtype.bytes == kind.row_bytes();
}

// Returns whether the instruction reads the tensor of a root.
bool TraceSource::reads(uint32_t root) const {
  const Operation& operation = header_.operations[cursor_.subject()];
  for (size_t i = 0; i < cursor_.num_operands(); ++i) {
    if (!operation.writes[i] && contents_.instances[cursor_.operand(i).instance].root == root) {
      return true;
    }
  }
  return false;
}

// Finds the operands and the price of the instruction.
Status TraceSource::resolve() {
  operands_.clear();
  forms_.clear();
  bool fills_tile = false;
  uint64_t content = 0;
  const Operation& operation = header_.operations[cursor_.subject()];
  const size_t stationary = stationary_[cursor_.subject()];
  for (size_t i = 0; i < cursor_.num_operands(); ++i) {
    const OperandRecord record = cursor_.operand(i);
    const Access& access = access_of(i, record, operation.has_run_time_index[i]);
    roots_.push_back(contents_.instances[record.instance].root);
    if (header_.tensors[contents_.instances[roots_.back()].kind].memory == Memory::kHbm) {
      content = content_of(record);
    }
    if (operation.writes[i] && fills(access, roots_.back())) {
      fills_tile = true;
      if (replaces_[cursor_.subject()]) memory_.begin_anew(roots_.back(), index_);
      if (memory_.splits() && !operation.accumulate && !reads(roots_.back())) {
        memory_.take_turns(roots_.back(), cursor_.source());
      }
    }
    forms_.push_back(access.form);
    Operand operand{.cells = contents_.accesses.cells(access),
                    .writes = operation.writes[i],
                    .stationary = i == stationary,
                    .first_partition = access.first_partition};
    NMM_ASSIGN(operand.state, memory_.begin_access(roots_.back()));
    operands_.push_back(operand);
  }
  if (spilling_) NMM_TRY(make_operands_resident());
  auto priced = prices_.find(cursor_.subject(), forms_);
  if (!priced.ok()) {
    return fail("{}: {}: {}", file_.name(), header_.location(cursor_.source()),
                priced.error().message);
  }
  priced_ = *priced;
  content_ = fills_tile ? content : 0;
  return {};
}

Status TraceSource::make_operands_resident() {
  bool from_hbm = false;
  visits_.clear();
  for (size_t i = 0; i < operands_.size(); ++i) {
    const Memory memory = header_.tensors[contents_.instances[roots_[i]].kind].memory;
    from_hbm = from_hbm || (memory == Memory::kHbm && !operands_[i].writes);
    if (memory != Memory::kSbuf) continue;
    visits_.push_back({.root = roots_[i],
                       .state = operands_[i].state,
                       .cells = operands_[i].cells,
                       .reads = !operands_[i].writes});
  }
  for (SpillingMemory::Visit& visit : visits_) visit.loads = from_hbm;
  return spilling_->visit(visits_, index_);
}

simulator::Transfer TraceSource::transfer() {
  simulator::Transfer transfer = priced_->transfer;
  if (priced_->on_chip >= 0) {
    // A source that repeats a partition has more partitions than follow its first one. They are
    // spread over the engines like those of any other transfer.
    const int64_t first = operands_[static_cast<size_t>(priced_->on_chip)].first_partition;
    transfer.first_partition = std::min(first, kPartitions - transfer.partitions);
  }
  transfer.content = content_;
  stalls_.transfer(cursor_.source(), transfer.bytes(),
                   transfer.bytes() / std::max<int64_t>(1, transfer.chunk_bytes));
  return transfer;
}

double TraceSource::readable(const Operand& operand) {
  double time = 0;
  for (const uint32_t cell : operand.cells) time = std::max(time, operand.state->cells[cell].ready);
  return time;
}

double TraceSource::inputs_ready() const {
  double ready = 0;
  for (const Operand& operand : operands_) {
    if (!operand.writes) ready = std::max(ready, readable(operand));
  }
  return has_run_time_index_[cursor_.subject()] ? std::max(ready, registers_ready_) : ready;
}

double TraceSource::stationary_ready() const {
  double ready = 0;
  for (const Operand& operand : operands_) {
    if (!operand.writes && operand.stationary) ready = std::max(ready, readable(operand));
  }
  return ready;
}

double TraceSource::moving_ready() const {
  double ready = 0;
  for (const Operand& operand : operands_) {
    if (!operand.writes && !operand.stationary) ready = std::max(ready, readable(operand));
  }
  return ready;
}

// Returns when the engine may write. An engine's own earlier write needs no wait because the engine
// works in order.
double TraceSource::output_free(Unit unit) const {
  double time = 0;
  for (const Operand& operand : operands_) {
    if (!operand.writes) continue;
    for (const uint32_t c : operand.cells) {
      const CellTimes& cell = operand.state->cells[c];
      time = std::max(time, cell.last_read);
      if (cell.unit != unit || unit == Unit::kDma) time = std::max(time, cell.ready);
    }
  }
  return time;
}

void TraceSource::complete(Unit unit, double stationary_read, double read, double visible) {
  for (size_t i = 0; i < operands_.size(); ++i) {
    const Operand& operand = operands_[i];
    const double until = operand.stationary ? stationary_read : read;
    const double end = operand.writes ? visible : until;
    if (counters_) counters_->access(roots_[i], operand.state, std::min(begin_, end), end);
    for (const uint32_t c : operand.cells) {
      CellTimes& cell = operand.state->cells[c];
      if (operand.writes) {
        cell.ready = visible;
        cell.writer = index_;
        cell.unit = unit;
      } else if (until > cell.last_read) {
        cell.last_read = until;
        cell.reader = index_;
      }
    }
  }
}

void TraceSource::count_bytes(simulator::Summary& summary) const {
  summary.sbuf_read_bytes += priced_->sbuf_read;
  summary.sbuf_write_bytes += priced_->sbuf_write;
  summary.psum_read_bytes += priced_->psum_read;
  summary.psum_write_bytes += priced_->psum_write;
}

void TraceSource::ran(const Run& run) {
  const bool transfer = run.unit == Unit::kDma;
  begin_ = run.begin;
  work_.add(cursor_.subject(), run);
  const auto evidence =
      static_cast<uint32_t>(evidence_of(header_.operations[cursor_.subject()], *priced_));
  const uint32_t subject = cursor_.subject() * static_cast<uint32_t>(kEvidences) + evidence;
  stalls_.record(index_, cursor_.source(), subject, run,
                 transfer ? wait_of_transfer(run) : wait_of(run));
  if (transfer) {
    predecessors_.transfer(index_, run);
  } else {
    predecessors_.engine(index_, run.unit);
  }
}

std::vector<ChargedTime> TraceSource::charged() const {
  std::map<std::pair<size_t, std::string>, double> sums;
  for (const auto& [subject, ns] : stalls_.charged()) {
    sums[{subject % kEvidences, header_.operations[subject / kEvidences].name}] += ns;
  }
  std::vector<ChargedTime> out;
  for (const auto& [key, ns] : sums) {
    out.push_back({static_cast<Evidence>(key.first), key.second, ns});
  }
  return out;
}

StallLog::Wait TraceSource::wait_of(const Run& run) const {
  const double at = run.begin - run.table_ns, idle = run.begin - run.engine_free;
  if (at <= run.engine_free) return {.earlier = predecessors_.last_on(run.unit), .ns = idle};
  if (at <= run.port_free) return {.earlier = predecessors_.last_on_port(), .ns = idle};
  StallLog::Wait wait = wait_for_data(at, run.unit);
  wait.ns = idle;
  if (wait.earlier != StallLog::kNoInstruction) return wait;
  // A matmul waits for its weights to load. Either their data was late, or the load before them
  // was.
  if (run.unit == Unit::kTensor) {
    wait =
        wait_for_data(at - priced_->job.tensor.weight_load(priced_->tensor.rows) - 1e-6, run.unit);
    wait.ns = idle;
  }
  if (wait.earlier == StallLog::kNoInstruction) {
    return {.earlier = predecessors_.last_on(run.unit), .ns = idle};
  }
  return wait;
}

StallLog::Wait TraceSource::wait_of_transfer(const Run& run) const {
  const Predecessors::Queue queue = predecessors_.queue(run.queue);
  if (run.begin <= queue.free) return {.earlier = queue.instruction};
  constexpr double kRounding = 1;  // The sequencer's times are kept in single precision.
  const double triggered = run.begin - run.sequencer_ns;
  if (triggered > run.ready + kRounding) {
    return {.earlier = predecessors_.transfer_before(triggered + kRounding)};
  }
  StallLog::Wait wait = wait_for_data(run.ready, run.unit);
  wait.ns = std::max(0.0, triggered - std::max(0.0, queue.free));
  return wait;
}

// Finds the access that kept an instruction from beginning before `at`: an access to what it reads,
// or else to what it writes (output_free).
StallLog::Wait TraceSource::wait_for_data(double at, Unit unit) const {
  for (const Operand& operand : operands_) {
    for (const uint32_t c : operand.writes ? std::span<const uint32_t>() : operand.cells) {
      const CellTimes& cell = operand.state->cells[c];
      if (cell.ready < at) continue;
      return {cell.unit == Unit::kDma ? Cause::kData : Cause::kDependency, cell.writer, 0,
              operand.state->kind};
    }
  }
  for (const Operand& operand : operands_) {
    for (const uint32_t c : operand.writes ? operand.cells : std::span<const uint32_t>()) {
      const CellTimes& cell = operand.state->cells[c];
      const Memory memory = header_.tensors[operand.state->kind].memory;
      const Cause cause = memory == Memory::kPsum   ? Cause::kBank
                          : memory == Memory::kSbuf ? Cause::kRotation
                                                    : Cause::kDependency;
      if (cell.last_read >= at) return {cause, cell.reader, 0, operand.state->kind};
      const bool in_order = cell.unit == unit && unit != Unit::kDma;
      if (cell.ready >= at && !in_order) return {cause, cell.writer, 0, operand.state->kind};
    }
  }
  return {};
}

const std::string& TraceSource::label() {
  const uint64_t key = (uint64_t{cursor_.subject()} << 32) | cursor_.source();
  const auto [at, inserted] = labels_.try_emplace(key);
  if (inserted) {
    at->second = fmt::format("{} {}", header_.operations[cursor_.subject()].name,
                             header_.location(cursor_.source()));
  }
  return at->second;
}

const std::string& TraceSource::target() const {
  static const std::string kNothing = "-";
  for (size_t i = 0; i < operands_.size(); ++i) {
    if (operands_[i].writes) {
      return header_.tensors[contents_.instances[cursor_.operand(i).instance].kind].name;
    }
  }
  return kNothing;
}

}  // namespace neuronmm::trace
