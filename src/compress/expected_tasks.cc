#include "compress/expected_tasks.h"

#include "base/task_labels.h"

namespace neuronmm::compress {
namespace {

// Shares in seconds of SmolLM2-135M with 32,768 tokens on two cores of a Zen 3, as measured for the
// default form (docs/measurements/quality.md).
constexpr double kCalibrating = 142.0, kPredicting = 20.0, kNarrowing = 12.0;
constexpr double kWriting = 4.0, kComparing = 7.0;
// Measured on two cores with AMX: 2.3 to 2.8 ms of processor time for each of the metric's 6,144
// tokens (bench/bench_training).
constexpr double kMetric = 8.0;
// Derived: four passes of these tokens through 135 million parameters take 6.6 TFLOP, and two cores
// of a Zen 3 do some 120 GFLOP/s in fp32.
constexpr double kMetricInFp32 = 55.0;
// Measured sizes take a quarter of the time of the whole command more
// (docs/measurements/quality.md).
constexpr double kMeasuring = 50.0;
// The fit of down on the text (docs/measurements/quality.md, form pivoted).
constexpr double kFitting = 180.0;
// Measured on two cores with AMX.
constexpr double kReconstructing = 141.0;
// Assumed.
constexpr double kGenerating = 150.0, kSensitivity = 60.0, kFactorizing = 40.0, kRounding = 60.0,
                 kRoundingFactors = 20.0;

// Adds what comes before the sizes are chosen. Statistics that are saved already are not gathered
// again, so that their tasks never begin.
void add_statistics(const CompressRequest& request, std::vector<ExpectedTask>& tasks) {
  if (request.calibration && request.calibration->self_generated > 0) {
    tasks.push_back({task::kWritingText, kGenerating});
  }
  if (request.method == Method::kTwoSided) {
    const bool fp32 = training_speed() == TrainingSpeed::kPlain;
    tasks.push_back({task::kMetric, fp32 ? kMetricInFp32 : kMetric});
  }
  if (request.calibration && (request.method != Method::kSvd || !request.statistics.empty())) {
    tasks.push_back({task::kCalibrating, kCalibrating});
  }
}

// Adds the choice of whole MLPs' sizes and their narrowing (sizes/shape_choice.cc). Each trial of a
// form or of sizes narrows the whole model.
void add_shapes(const CompressRequest& request, std::vector<ExpectedTask>& tasks) {
  tasks.push_back({task::kPredicting, kPredicting});
  const auto narrow = [&](int times) {
    for (int i = 0; i < times; ++i) tasks.push_back({task::kNarrowing, kNarrowing});
  };
  if (request.form == Form::kAuto) narrow(request.weights ? 3 : 2);
  if (request.allocate == Allocate::kMeasured) {
    narrow(1);
    tasks.push_back({task::kMeasuringLosses, kMeasuring});
    narrow(2);
  }
  const bool fits = request.form == Form::kPivoted || request.form == Form::kNarrow;
  if (fits && request.calibration) {
    tasks.push_back({task::kFitting, kFitting});
    return;
  }
  narrow(1);
  // Other forms are fitted only if their inputs lose enough, which is not known yet.
  if (request.calibration) tasks.push_back({task::kFitting, 0.0});
}

// Layers learn from a model of floats, which is rounded afterwards (compressed_folder.cc).
void add_reconstruction(const CompressRequest& request, std::vector<ExpectedTask>& tasks) {
  if (request.reconstruct.mode == Reconstruct::Mode::kOff || !request.calibration) return;
  tasks.push_back({task::kWriting, kWriting});
  tasks.push_back({task::kReconstructing, kReconstructing});
  if (request.weights) tasks.push_back({task::kWriting, kWriting});
}

}  // namespace

std::vector<ExpectedTask> expected_tasks(const CompressRequest& request, bool measures) {
  std::vector<ExpectedTask> tasks;
  add_statistics(request, tasks);
  if (narrows_mlps(request)) {
    add_shapes(request, tasks);
  } else {
    if (request.allocate == Allocate::kMeasured) {
      tasks.push_back({task::kMeasuringSensitivity, kSensitivity});
    }
    tasks.push_back({task::kFactorizing, kFactorizing});
  }
  add_reconstruction(request, tasks);
  tasks.push_back({task::kWriting, kWriting});
  if (measures) tasks.push_back({task::kComparing, kComparing});
  return tasks;
}

std::vector<ExpectedTask> expected_tasks(const QuantizeRequest& request) {
  std::vector<ExpectedTask> tasks;
  if (request.calibration) tasks.push_back({task::kCalibrating, kCalibrating});
  const bool by_text = request.calibration || !request.statistics.empty();
  if (by_text && request.rounding == Rounding::kGptq) tasks.push_back({task::kRounding, kRounding});
  tasks.push_back({task::kRoundingFactors, kRoundingFactors});
  if (request.reconstruct.mode != Reconstruct::Mode::kOff && request.calibration) {
    tasks.push_back({task::kWriting, kWriting});
    tasks.push_back({task::kReconstructing, kReconstructing});
  }
  tasks.push_back({task::kWriting, kWriting});
  return tasks;
}

}  // namespace neuronmm::compress
