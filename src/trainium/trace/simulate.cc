#include "trainium/trace/simulate.h"

#include <algorithm>
#include <optional>

#include "trainium/simulator/core.h"
#include "trainium/trace/contents.h"
#include "trainium/trace/launch.h"
#include "trainium/trace/legacy_compiler.h"
#include "trainium/trace/live_memory.h"
#include "trainium/trace/source.h"

namespace neuronmm::trace {

namespace {

using simulator::DeviceSpec;
using simulator::Summary;
using tile::HbmRole;
using tile::Memory;

// Checks every operation of the header, whether an instruction uses it or not.
Status check_operations(const TraceFile& file, const DeviceSpec& device) {
  for (const Operation& operation : file.header().operations) {
    const Status known = check_operation(operation, device);
    if (!known.ok()) return fail("{}: {}", file.name(), known.error().message);
  }
  return {};
}

int64_t operand_bytes(const Header& header) {
  int64_t total = 0;
  for (const TensorKind& kind : header.tensors) {
    if (kind.role == HbmRole::kInput || kind.role == HbmRole::kOutput) total += kind.bytes();
  }
  return total;
}

// Returns the bytes that a kernel must move. The trace of a launch on several cores is that of one
// core, which may move only a part of a tensor.
int64_t compulsory_bytes(const Header& header, const AccessTable& accesses) {
  int64_t total = 0;
  for (uint32_t k = 0; k < header.tensors.size(); ++k) {
    const HbmRole role = header.tensors[k].role;
    if (role == HbmRole::kInput) total += accesses.bytes_read(k);
    if (role == HbmRole::kOutput) total += accesses.bytes_written(k);
  }
  return total;
}

Result<MemoryPeak> memory_peak(const TraceFile& file, const Contents& contents,
                               const DeviceSpec& device, Memory memory) {
  const auto bank = static_cast<int64_t>(device.psum_bank_bytes);
  const bool psum = memory == Memory::kPsum;
  const LivePeak live = live_peak(file.header(), contents, memory, bank);
  MemoryPeak peak;
  peak.bytes = live.bytes;
  peak.capacity = psum ? static_cast<int64_t>(device.psum_banks * device.psum_bank_bytes)
                       : static_cast<int64_t>(device.sbuf_usable_bytes);
  peak.tensors = describe(file.header(), contents, live, bank);
  // Only the compiler of the legacy dialect spills, and nothing spills from PSUM.
  if (peak.bytes > peak.capacity && (psum || !file.header().legacy())) {
    constexpr std::string_view kFallback =
        "; NKI 0.7 leaves such a kernel to the allocator of neuronx-cc (nki_alloc_fallback), whose "
        "result is not known here";
    return fail("{}: {} needs {} bytes per partition at once, {} has {}: {}{}", file.name(),
                psum ? "PSUM" : "SBUF", peak.bytes, device.name, peak.capacity, peak.tensors,
                !psum && file.header().alloc_fallback ? kFallback : "");
  }
  return peak;
}

// Returns the device with small parts of PSUM in place of banks. Results normally have a bank each,
// so that no two wait for one another. If there are more results than banks, small results share a
// bank. Assumed: a result begins at any multiple of 16 elements of fp32.
DeviceSpec with_shared_banks(DeviceSpec device) {
  constexpr double kPart = 64;  // Bytes per partition.
  device.psum_banks.value = device.psum_banks * device.psum_bank_bytes / kPart;
  device.psum_bank_bytes.value = kPart;
  return device;
}

std::string spilled(const TraceTiming& timing) {
  const Summary& summary = timing.timing.summary;
  return fmt::format(
      "SBUF would need {} bytes per partition and has {}: {:.3f} MB are spilled and {:.3f} MB "
      "loaded again ({})",
      timing.sbuf.bytes, timing.sbuf.capacity, static_cast<double>(summary.spill_save_bytes) / 1e6,
      static_cast<double>(summary.spill_reload_bytes) / 1e6, timing.sbuf.tensors);
}

TraceBound bound_of(const Summary& summary, const DeviceSpec& device, int64_t compulsory,
                    double dma_engine_ns) {
  TraceBound bound;
  bound.tensor_ns = summary.tensor.instruction_time * 1e9;
  bound.vector_ns = summary.vector.instruction_time * 1e9;
  bound.scalar_ns = summary.scalar.instruction_time * 1e9;
  bound.gpsimd_ns = summary.gpsimd.instruction_time * 1e9;
  bound.dma_ns = std::max(dma_engine_ns / device.dma_engines,
                          static_cast<double>(summary.hbm_bytes()) / device.hbm_bandwidth);
  bound.compulsory_ns =
      static_cast<double>(compulsory) /
      std::min(device.dma_engines * device.dma_bandwidth, device.hbm_bandwidth.value);
  return bound;
}

bool waits_for_memory(const ChainPart& part) {
  return part.tensor != ChainPart::kNoTensor &&
         (part.cause == Cause::kBank || part.cause == Cause::kRotation);
}

std::map<std::string, int64_t> live_copies(const Header& header, const Contents& contents,
                                           const std::vector<ChainPart>& chain) {
  std::map<std::string, int64_t> copies;
  for (const ChainPart& part : chain) {
    if (!waits_for_memory(part)) continue;
    const std::string& name = header.tensors[part.tensor].name;
    if (!copies.contains(name)) copies[name] = most_live(header, contents, name);
  }
  return copies;
}

// Returns the bytes per partition, or in PSUM of banks, that the copies of the named tensors take.
int64_t turn_bytes(const Header& header, const BufferLimits& limits, Memory memory, int64_t bank) {
  int64_t total = 0;
  for (const auto& [name, copies] : limits.copies_of) {
    int64_t largest = 0;
    for (const TensorKind& kind : header.tensors) {
      if (kind.name != name || kind.memory != memory) continue;
      largest = std::max(largest, memory_taken(kind, bank));
    }
    total += copies * largest;
  }
  return total;
}

// Checks that the copies of BufferLimits::splits fit beside all other tensors.
Status check_turns(const TraceFile& file, const Contents& contents, const BufferLimits& limits,
                   const DeviceSpec& device) {
  if (!limits.splits) return {};
  const auto bank = static_cast<int64_t>(device.psum_bank_bytes);
  for (const Memory memory : {Memory::kSbuf, Memory::kPsum}) {
    const bool psum = memory == Memory::kPsum;
    const int64_t turns = turn_bytes(file.header(), limits, memory, bank);
    const int64_t others =
        live_peak(file.header(), contents, memory, bank, [&limits](const TensorKind& kind) {
          return !limits.copies_of.contains(kind.name);
        }).bytes;
    const auto capacity = static_cast<int64_t>(psum ? device.psum_banks * device.psum_bank_bytes
                                                    : device.sbuf_usable_bytes.value);
    if (turns == 0 || turns + others <= capacity) continue;
    return fail(
        "{}: {}: the buffers need {} bytes per partition, and the other tensors {}; {} has {}",
        file.name(), psum ? "PSUM" : "SBUF", turns, others, device.name, capacity);
  }
  return {};
}

std::vector<LineReport> ranked(const StallLog& stalls) {
  std::vector<LineReport> out;
  const std::vector<LineStalls> lines = stalls.lines();
  for (uint32_t i = 0; i < lines.size(); ++i) {
    if (lines[i].instructions > 0) out.push_back({lines[i], i});
  }
  std::stable_sort(out.begin(), out.end(), [](const LineReport& a, const LineReport& b) {
    return a.stalled() > b.stalled();
  });
  return out;
}

Result<TraceTiming> simulate(const TraceFile& file, const Contents& contents,
                             const DeviceSpec& spec, const TraceOptions& options) {
  TraceTiming out;
  DeviceSpec device = spec;
  Result<MemoryPeak> psum = memory_peak(file, contents, device, Memory::kPsum);
  if (!psum.ok()) {
    device = with_shared_banks(spec);
    auto shared = memory_peak(file, contents, device, Memory::kPsum);
    if (!shared.ok()) return psum.error();
    psum = std::move(shared);
  }
  out.psum = *psum;
  out.fixed_ns = device.kernel_fixed_ns;
  NMM_ASSIGN(out.sbuf, memory_peak(file, contents, device, Memory::kSbuf));
  simulator::TimingOptions timing = options.timing;
  if (!timing.model_flops) timing.model_flops = file.header().model_flops;
  std::optional<SpillingMemory> spilling;
  if (out.sbuf.bytes > out.sbuf.capacity) {
    spilling.emplace(file, contents, static_cast<int64_t>(device.sbuf_capacity()));
    NMM_TRY(spilling->prepare());
  }
  NMM_TRY(check_turns(file, contents, options.buffer_limits, device));
  const std::vector<bool> without = left_out(file, contents, options.left_out);
  TraceSource source(file, contents, device, options.buffer_limits, without,
                     spilling ? &*spilling : nullptr);
  if (timing.timeline != nullptr) source.count_memory(device, *timing.timeline);
  simulator::Core core(source, device, timing);
  if (spilling) {
    spilling->set_move(
        [&core](const simulator::Transfer& transfer, const std::string& tensor, bool save,
                double ready) { return core.spill(transfer, tensor, false, save, ready).visible; });
  }
  out.timing.summary = core.run(operand_bytes(file.header()));
  if (!source.status().ok()) return source.status().error();
  if (spilling) out.timing.remedies.push_back(spilled(out));
  out.timing.instructions = contents.instructions;
  out.timing.sbuf_capacity = out.sbuf.capacity;
  out.compulsory_bytes = compulsory_bytes(file.header(), contents.accesses);
  out.bound = bound_of(out.timing.summary, device, out.compulsory_bytes, core.dma().engine_time());
  out.lines = ranked(source.stalls());
  out.classes = source.work().classes(file.header());
  out.charged = source.charged();
  out.chain = source.stalls().chain();
  out.live_copies = live_copies(file.header(), contents, out.chain);
  out.repeated = repeated_traffic(file, contents);
  out.notes = file.header().notes;
  const std::vector<std::string>& overlaps = source.memory().overlaps();
  out.notes.insert(out.notes.end(), overlaps.begin(), overlaps.end());
  return out;
}

}  // namespace

Result<TraceTiming> simulate(const TraceFile& file, const DeviceSpec& spec,
                             const TraceOptions& given) {
  const DeviceSpec device = device_of_launch(spec, file.header());
  TraceOptions options = given;
  if (options.buffer_limits.copies == 0) {
    std::map<std::string, int64_t> copies = file.header().rotates;
    for (const auto& [name, n] : given.buffer_limits.copies_of) copies[name] = n;
    options.buffer_limits.copies_of = std::move(copies);
  }
  NMM_TRY(check_operations(file, device));
  NMM_ASSIGN(Contents contents, check_contents(file));
  const bool compiles = may_be_rescheduled(file) && !options.as_written &&
                        contents.instructions <= kMostCompiledInstructions;
  if (!compiles) return simulate(file, contents, device, options);
  NMM_ASSIGN(const Compiled compiled, compile_legacy(file, std::move(contents), device));
  NMM_ASSIGN(TraceTiming timing, simulate(compiled.file, compiled.contents, device, options));
  timing.notes.push_back(compiled.note);
  return timing;
}

bool may_be_rescheduled(const TraceFile& file) {
  return file.header().legacy() && file.header().rotates.empty();
}

}  // namespace neuronmm::trace
