#include "trainium/validation/validation.h"

#include <cmath>
#include <map>

#include "trainium/simulator/timing.h"

namespace neuronmm::validation {

namespace {

// Returns the simulated value, in the unit of the published one.
double measure(const simulator::Summary& summary, Quantity quantity) {
  switch (quantity) {
    case Quantity::kMilliseconds:
      return summary.milliseconds();
    case Quantity::kHbmGib:
      return static_cast<double>(summary.hbm_bytes()) / 1073741824.0;
    case Quantity::kMfuPercent:
      return summary.mfu_estimated_percent;
    case Quantity::kHbmReadBytes:
      return static_cast<double>(summary.hbm_read_bytes);
    case Quantity::kHbmWriteBytes:
      return static_cast<double>(summary.hbm_write_bytes);
    case Quantity::kTensorActiveMs:
      return summary.tensor.active_time * 1e3;
    case Quantity::kVectorActiveMs:
      return summary.vector.active_time * 1e3;
    case Quantity::kDmaActivePercent:
      return summary.dma_active_time_percent;
    case Quantity::kDmaPacketMs:
      return summary.dma_packet_time * 1e3;
  }
  return 0;
}

// A positive difference means slower, or more bytes, than published. An MFU is inverted, because a
// smaller MFU is slower.
double difference(const Published& published, double simulated) {
  if (published.quantity == Quantity::kMfuPercent) return published.value / simulated - 1;
  return simulated / published.value - 1;
}

// An MFU counts as a time, because the FLOPs are known.
bool is_time(const Published& published) {
  return published.quantity == Quantity::kMilliseconds ||
         published.quantity == Quantity::kMfuPercent;
}

}  // namespace

// A program may have several published quantities, but it is simulated once.
Result<std::vector<Row>> validate() {
  std::map<std::string, simulator::Summary> summaries;  // By program.
  std::vector<Row> rows;
  for (const Published& published : validation::published()) {
    auto [at, inserted] = summaries.try_emplace(published.program.id);
    if (inserted) {
      const PublishedProgram& program = published.program;
      NMM_ASSIGN(const simulator::DeviceSpec device, simulator::find_device(program.device));
      NMM_ASSIGN(const simulator::Timing timing,
                 simulator::simulate(program.make(program), device));
      at->second = timing.summary;
    }
    const double simulated = measure(at->second, published.quantity);
    rows.push_back({&published, simulated, difference(published, simulated)});
  }
  return rows;
}

TimeError time_error(const std::vector<Row>& rows, Set set) {
  TimeError error;
  for (const Row& row : rows) {
    if (row.published->set != set || !is_time(*row.published)) continue;
    ++error.rows;
    error.mean_absolute += std::abs(row.difference);
    if (std::abs(row.difference) > std::abs(error.worst) || !error.worst_row) {
      error.worst = row.difference;
      error.worst_row = &row;
    }
  }
  if (error.rows > 0) error.mean_absolute /= error.rows;
  return error;
}

// The table has a line per published number. The sets are separate, so that fitted values are not
// mistaken for predictions.
std::string to_string(const std::vector<Row>& rows) {
  std::string text;
  for (const Set set : {Set::kCalibration, Set::kValidation, Set::kAdded}) {
    text += fmt::format("{}\n", set_name(set));
    for (const Row& row : rows) {
      const Published& p = *row.published;
      if (p.set != set) continue;
      text += fmt::format("  {:<32} {:<22} {:<5} {:<5} {:<14} {:>13.6g} {:>13.6g} {:>+7.1f} %{}\n",
                          p.program.kernel, shape_text(p.program), p.program.device,
                          dtype_text(p.program), quantity_name(p.quantity), p.value, row.simulated,
                          100 * row.difference,
                          std::abs(row.difference) > kUnexplained ? "  unexplained" : "");
    }
    const TimeError error = time_error(rows, set);
    if (!error.worst_row) continue;
    text += fmt::format("  times: {} rows, mean absolute error {:.1f} %, worst {:+.1f} % ({})\n",
                        error.rows, 100 * error.mean_absolute, 100 * error.worst,
                        error.worst_row->published->program.id);
  }
  return text;
}

}  // namespace neuronmm::validation
