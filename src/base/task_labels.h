#pragma once
// The names of tasks that progress lines show (progress.h). The estimate of a whole command
// (time_estimate.h) knows its tasks by these names, so that a task has the same name in every
// command. A name says what is done, and to what.

namespace neuronmm::task {

inline constexpr const char* kCalibrating = "calibrating on the text";
inline constexpr const char* kWritingText = "writing a text";
inline constexpr const char* kMetric = "computing the output metric";
inline constexpr const char* kPredicting = "predicting losses";
inline constexpr const char* kMeasuringLosses = "measuring losses";
inline constexpr const char* kMeasuringSensitivity = "measuring sensitivities";
inline constexpr const char* kMeasuringRounding = "measuring losses by rounding";
inline constexpr const char* kNarrowing = "narrowing MLPs";
inline constexpr const char* kFitting = "fitting MLPs to the text";
inline constexpr const char* kFactorizing = "factorizing matrices";
inline constexpr const char* kRounding = "rounding matrices";
inline constexpr const char* kRoundingFactors = "rounding factors";
inline constexpr const char* kReconstructing = "reconstructing layers";
inline constexpr const char* kTimingFormats = "timing formats";
inline constexpr const char* kTimingModels = "timing the model";
inline constexpr const char* kComparing = "comparing with the dense model";
inline constexpr const char* kWriting = "writing the model";

}  // namespace neuronmm::task
