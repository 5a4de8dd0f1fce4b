#pragma once
// Declares the complete request of a compression, and the check that its parts belong together.
// compress() (compress.h) carries out a request.
//
// The command line and the Python package make a request with compress_settings() (settings.h),
// which fills in the defaults. `neuronmm fit` (fit/realize.cc) makes one itself, with sizes that it
// has chosen.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "base/option_names.h"
#include "base/result.h"
#include "compress/calibration/calibration_text.h"
#include "compress/reconstruction/settings.h"
#include "compress/sizes/form.h"
#include "compress/sizes/plan.h"
#include "compress/sizes/rank.h"

namespace neuronmm::compress {

// The error that a compression minimises. svd: the error of the weight itself, as in the reference
// system's published code. whitened: the error of each matrix's output on calibration text.
// two-sided: the same, but an error of the output counts as much as it changes the model's
// predictions (mlp_metric.h).
enum class Method { kWhitened, kSvd, kTwoSided };
std::string_view method_name(Method method);  // "whitened", "svd", "two-sided"
// Returns the method of this name. Fails for any other text and lists the names.
Result<Method> parse_method(std::string_view name);

// The division of the parameters that `rule` leaves among layers and matrices. uniform: the same
// sizes for every layer. predicted: the sizes with the least predicted loss (shape_search.h).
// measured: the sizes with the least loss after measurements. For whole MLPs these correct the
// predicted losses (measured_losses.h). For two factors per matrix they say which matrices the
// model needs most (allocate.h).
enum class Allocate { kUniform, kPredicted, kMeasured };
// Returns the rule of this name. Fails for any other text and lists the names.
Result<Allocate> parse_allocate(std::string_view name);
std::string_view allocate_name(Allocate allocate);  // "uniform", "predicted", "measured"

// A request in which every setting has its value.
struct CompressRequest {
  std::filesystem::path model, out;
  Form form = Form::kUv;
  RankRule rule;
  Method method = Method::kWhitened;
  // Form neurons: all layers become as wide as the widest by neurons of zeros.
  bool pad = false;
  WeightFormats weights = {};
  Allocate allocate = Allocate::kUniform;
  // Sizes that a caller has chosen itself, one shape per layer, or empty. The library then makes no
  // search by `rule` and `allocate`. Form mixed takes them, and form uv if it factorizes single
  // matrices, where a rank of 0 leaves a matrix dense. check_request() does not look at them.
  std::vector<io::MlpShape> shapes;
  // The text that the model runs on. Method svd needs a text only to measure its loss and to
  // allocate by measurement.
  std::optional<CalibrationText> calibration;
  // The folder of statistics (saved_statistics.h); empty if there is none. Without a text the
  // folder is only read. With the text of the statistics it is made or completed.
  std::filesystem::path statistics;
  // What layers learn after the compression (reconstruction.h).
  Reconstruct reconstruct;
  // Replaces an existing output folder, and deletes unfinished work of a run with other settings.
  bool force = false;
  // Deletes that work even without `force`. `fit` sets it, which has made sure that the work is its
  // own.
  bool deletes_work = false;
};

// Returns whether sizes are chosen and MLPs narrowed as a whole (shape_choice.h, narrow_layers.h).
// Otherwise each matrix is factorized by itself, which only form uv allows.
bool narrows_mlps(const CompressRequest& request);

// Checks the request without looking at the model. compress_settings() and compress() call it.
// Fails if
//   - a setting would have no use, since the caller would believe that it had been used;
//   - settings exclude each other, for example form neurons and method svd;
//   - the method or the sizes need a calibration text or statistics, and there is neither;
//   - `out` and `statistics` are the same folder.
// Messages name options as `names` says. Sizes that the model cannot have are found later, by
// compress().
Status check_request(const CompressRequest& request, OptionNames names = OptionNames::kKeywords);

}  // namespace neuronmm::compress
