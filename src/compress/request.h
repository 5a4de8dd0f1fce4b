#pragma once
// What a compression is asked to do, by the names that its flags have, and which of it can be
// meant.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "base/option_names.h"
#include "base/result.h"
#include "compress/calibration/calibration_text.h"
#include "compress/sizes/form.h"
#include "compress/sizes/plan.h"
#include "compress/sizes/rank.h"

namespace neuronmm::compress {

// whitened: the smallest error of each matrix's output on calibration text. svd: the smallest error
// of the weight itself, as the reference system's published code does. two-sided: whitened, with
// errors of the output worth what they do to the model's predictions (mlp_metric.h).
enum class Method { kWhitened, kSvd, kTwoSided };
std::string_view method_name(Method method);  // "whitened", "svd", "two-sided"
Result<Method> parse_method(std::string_view name);

// How the parameters that `rule` leaves are shared out: the same sizes for every layer; those with
// the least predicted loss (shape_search.h); or those with the least loss by measurements, which
// for whole MLPs correct the predicted losses (measured_losses.h), and for two factors per matrix
// say whose truncation hurts the model more (allocate.h).
enum class Allocate { kUniform, kPredicted, kMeasured };
Result<Allocate> parse_allocate(std::string_view name);
std::string_view allocate_name(Allocate allocate);  // "uniform", "predicted", "measured"

struct CompressRequest {
  std::filesystem::path model, out;
  Form form = Form::kUv;
  RankRule rule;
  Method method = Method::kWhitened;
  bool pad = false;  // form neurons: zero neurons make all layers as wide as the widest
  WeightFormats weights = {};
  Allocate allocate = Allocate::kUniform;
  // Sizes that were chosen elsewhere, one shape per layer, in the place of a search by `rule` and
  // `allocate`: what the losses are taken for. Of form mixed, and of form uv where it factorizes
  // each matrix for itself: a rank of 0 leaves that matrix dense.
  std::vector<io::MlpShape> shapes;
  // What the model runs on. Method svd needs a text only to measure what it has cost, and to
  // allocate by measurement.
  std::optional<CalibrationText> calibration;
  // The folder of statistics (saved_statistics.h), in place of a calibration text or with the one
  // that they are of: the folder is then made, or gets what it lacks. Empty: none.
  std::filesystem::path statistics;
  bool force = false;  // replace an existing output folder
};

// Whether sizes are chosen and MLPs narrowed as a whole (shape_choice.h, narrow_layers.h); else
// each matrix is factorized for itself, which only form uv can be.
bool narrows_mlps(const CompressRequest& request);

// Refuses every combination that would leave something unused: a file that is named and not read
// would be taken for used. Messages name options as `names` says.
Status check_request(const CompressRequest& request, OptionNames names = OptionNames::kKeywords);

}  // namespace neuronmm::compress
