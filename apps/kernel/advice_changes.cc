#include "kernel/advice_changes.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kernel/quantities.h"

namespace neuronmm::apps {
namespace {

using simulator::DeviceSpec;
using simulator::Summary;
using simulator::Unit;
using trace::Cause;
using trace::ChainPart;
using trace::Header;
using trace::LeftOut;
using trace::LineReport;
using trace::RepeatedBytes;
using trace::TraceTiming;

constexpr double kWorthTrying = 0.02;  // Assumed: the least share of the latency.
constexpr size_t kMostNamed = 2;       // Assumed: more lines would not be read.
constexpr int64_t kPartitions = 128;
// Documented (NKI performance guide): below 512 bytes a row costs as much as 512. Rows of up to
// four times that are tried, since a transfer has costs of its own.
constexpr int64_t kLongRow = 2048;

class ChangeFinder {
 public:
  ChangeFinder(const Header& header, const TraceTiming& timing, const DeviceSpec& device)
      : header_(header), timing_(timing), device_(device) {}

  std::vector<CandidateChange> run() {
    add_repeated_traffic(LeftOut::kReloads);
    add_repeated_traffic(LeftOut::kRoundTrips);
    add_longer_rows();
    add_buffers();
    for (const Unit unit : {Unit::kTensor, Unit::kVector, Unit::kScalar, Unit::kGpSimd}) {
      add_engine(unit);
    }
    add_tables();
    add_types();
    add_spills();
    std::erase_if(changes_,
                  [](const CandidateChange& change) { return change.share < kWorthTrying; });
    std::ranges::stable_sort(changes_, std::greater(), &CandidateChange::share);
    return changes_;
  }

 private:
  double total_ns() const { return timing_.timing.summary.total_time * 1e9; }
  double traffic() const { return static_cast<double>(timing_.timing.summary.hbm_bytes()); }
  // The part of the latency in which the kernel waits for transfers.
  double dma_share() const {
    return share_of([](const ChainPart& part) { return part.unit == Unit::kDma; });
  }
  template <typename Predicate>
  double share_of(const Predicate& holds) const {
    double ns = 0;
    for (const ChainPart& part : timing_.chain) ns += holds(part) ? part.ns : 0;
    return ns / total_ns();
  }

  // "kernel.py:16 (w, 14.00 MiB) and kernel.py:15 (x, 2.00 MiB)".
  std::string named(const std::vector<RepeatedBytes>& rows) const {
    std::vector<std::string> names;
    for (const RepeatedBytes& row : rows) {
      if (names.size() == kMostNamed) break;
      names.push_back(fmt::format("{} ({}, {})", header_.location(row.source),
                                  header_.tensors[row.tensor].name,
                                  bytes_of(static_cast<double>(row.bytes))));
    }
    const size_t more = rows.size() - names.size();
    return fmt::format("{}{}", fmt::join(names, " and "),
                       more > 0 ? fmt::format(" and {} lines more", more) : "");
  }

  void add_repeated_traffic(LeftOut kind) {
    std::vector<RepeatedBytes> rows;
    double bytes = 0;
    for (const RepeatedBytes& row : timing_.repeated) {
      if (row.kind != kind) continue;
      rows.push_back(row);
      bytes += static_cast<double>(row.bytes);
    }
    if (rows.empty() || traffic() <= 0) return;
    const bool reloads = kind == LeftOut::kReloads;
    const std::string text =
        reloads
            ? fmt::format("load once and keep, or use larger blocks; loaded again: {}", named(rows))
            : fmt::format("keep in SBUF what goes through HBM at {}", named(rows));
    changes_.push_back(
        {text, reloads ? "reloads=none" : "round_trips=none", bytes / traffic() * dma_share()});
  }

  void add_longer_rows() {
    // The line with short rows that the kernel waits for most.
    const LineReport* slowest = nullptr;
    double share = 0;
    for (const LineReport& line : timing_.lines) {
      if (line.pieces == 0 || line.bytes / line.pieces >= kLongRow) continue;
      share += line.stalled() / total_ns();
      if (!slowest || line.stalled() > slowest->stalled()) slowest = &line;
    }
    if (!slowest) return;
    const std::string text = fmt::format(
        "make tiles wider along the rows in HBM: {} moves {} rows of {} on average",
        header_.location(slowest->source), slowest->pieces,
        bytes_of(static_cast<double>(slowest->bytes) / static_cast<double>(slowest->pieces)));
    changes_.push_back({text, "dma_row=4x", share});
  }

  void add_buffers() {
    for (const auto& [name, live] : timing_.live_copies) {
      const double share = share_of([&, &name = name](const ChainPart& part) {
        return (part.cause == Cause::kBank || part.cause == Cause::kRotation) &&
               part.tensor != ChainPart::kNoTensor && header_.tensors[part.tensor].name == name;
      });
      const auto kind = std::ranges::find(header_.tensors, name, &trace::TensorKind::name);
      const bool psum = kind->memory == tile::Memory::kPsum;
      for (const int64_t copies : {2 * live, 4 * live}) {
        changes_.push_back(
            {fmt::format("give {} ({}) {} that take turns: it is still in use when it "
                         "is written again",
                         name, header_.location(kind->source),
                         psum ? "several banks of PSUM" : "several buffers"),
             fmt::format("buffers.{}={}", name, copies), share});
      }
    }
  }

  void add_engine(Unit unit) {
    constexpr std::string_view kNames[] = {"Tensor", "Vector", "Scalar", "GpSimd"};
    constexpr std::string_view kClocks[] = {"tensor_clock", "vector_clock", "scalar_clock",
                                            "gpsimd_clock"};
    const auto index = static_cast<size_t>(unit);
    const double share = share_of(
        [unit](const ChainPart& part) { return part.unit == unit && part.cause != Cause::kTable; });
    const trace::ClassWork* most = nullptr;  // The engine's instruction with the most work.
    for (const trace::ClassWork& work : timing_.classes) {
      if (work.unit == unit && (!most || work.busy_ns > most->busy_ns)) most = &work;
    }
    if (!most) return;
    changes_.push_back({fmt::format("halve the work of {}, most of which is {} ({})", kNames[index],
                                    most->name, time_of(most->busy_ns / kNsPerMs)),
                        fmt::format("{}=2x", kClocks[index]), share});
  }

  void add_tables() {
    const double share =
        share_of([](const ChainPart& part) { return part.cause == Cause::kTable; });
    changes_.push_back({"do the activations of one function together, so that fewer tables load",
                        "activation_table_load=1", share});
  }

  void add_types() {
    const Summary& m = timing_.timing.summary;
    if (m.adjusted_hardware_flops <= m.hardware_flops) return;
    const double share = share_of([](const ChainPart& part) { return part.unit == Unit::kTensor; });
    changes_.push_back({fmt::format("multiply in bfloat16: float32 takes {:.0f} passes",
                                    device_.fp32_passes.value),
                        "fp32_passes=1", share});
  }

  void add_spills() {
    const Summary& m = timing_.timing.summary;
    const auto spilled = static_cast<double>(m.spill_save_bytes + m.spill_reload_bytes);
    if (spilled <= 0) return;
    changes_.push_back({fmt::format("use less SBUF: it overflows, and {} are spilled and loaded",
                                    bytes_of(spilled)),
                        "sbuf_usable_bytes=16x", spilled / traffic() * dma_share()});
  }

  const Header& header_;
  const TraceTiming& timing_;
  const DeviceSpec& device_;
  std::vector<CandidateChange> changes_;
};

}  // namespace

std::vector<CandidateChange> changes_to_try(const Header& header, const TraceTiming& timing,
                                            const DeviceSpec& device) {
  return ChangeFinder(header, timing, device).run();
}

}  // namespace neuronmm::apps
