#include "compress/request.h"

#include <system_error>

#include <fmt/format.h>

namespace neuronmm::compress {
namespace {

namespace fs = std::filesystem;

// Statistics alone say what a layer gains, not what the narrowed model makes of a text.
Status check_without_text(const CompressRequest& request) {
  if (request.allocate == Allocate::kMeasured) {
    return fail("allocate measured needs a calibration text, on which it runs narrowed layers");
  }
  return {};
}

Status check_statistics_flags(const CompressRequest& request) {
  if (!request.statistics.empty() && !request.save_statistics.empty()) {
    return fail("statistics are either read from a folder or saved in one, found both");
  }
  if (!request.save_statistics.empty() && !request.calibration) {
    return fail("saving statistics needs a calibration text");
  }
  if (!request.calibration) NMM_TRY(check_without_text(request));
  std::error_code ignored;
  if (!request.save_statistics.empty() && fs::weakly_canonical(request.save_statistics, ignored) ==
                                              fs::weakly_canonical(request.out, ignored)) {
    return fail("{}: expected different folders for the model and the statistics",
                request.out.string());
  }
  return {};
}

// The other forms weigh what whole MLPs lose, for which uv's ways of saving work do not exist yet.
Status check_form(const CompressRequest& request) {
  const std::string_view form = form_name(request.form);
  if (!request.calibration && request.statistics.empty()) {
    return fail("form {} needs a calibration text or saved statistics", form);
  }
  NMM_TRY(check_statistics_flags(request));
  if (!request.gram.empty() || !request.save_gram.empty()) {
    return fail("form {} neither reads nor saves Gram matrices; only form uv does", form);
  }
  if (request.method == Method::kSvd) {
    return fail("form {}{} has the methods whitened and two-sided, found {}", form,
                request.form == Form::kUv ? " with predicted allocation" : "",
                method_name(request.method));
  }
  if (request.allocate == Allocate::kSensitivity) {
    return fail("form {} allocates uniform, predicted or measured, found {}", form,
                allocate_name(request.allocate));
  }
  return {};
}

}  // namespace

std::string_view method_name(Method method) {
  switch (method) {
    case Method::kWhitened:
      return "whitened";
    case Method::kTwoSided:
      return "two-sided";
    case Method::kSvd:
      break;
  }
  return "svd";
}

bool narrows_mlps(const CompressRequest& request) {
  return request.form != Form::kUv || request.method == Method::kTwoSided ||
         request.allocate == Allocate::kPredicted || request.allocate == Allocate::kMeasured;
}

std::string_view allocate_name(Allocate allocate) {
  switch (allocate) {
    case Allocate::kSensitivity:
      return "sensitivity";
    case Allocate::kPredicted:
      return "predicted";
    case Allocate::kMeasured:
      return "measured";
    case Allocate::kUniform:
      break;
  }
  return "uniform";
}

Result<Allocate> parse_allocate(std::string_view name) {
  for (const Allocate allocate :
       {Allocate::kUniform, Allocate::kSensitivity, Allocate::kPredicted, Allocate::kMeasured}) {
    if (name == allocate_name(allocate)) return allocate;
  }
  return fail("allocate: expected uniform, predicted, measured or sensitivity, found \"{}\"", name);
}

Result<Method> parse_method(std::string_view name) {
  for (const Method method : {Method::kWhitened, Method::kSvd, Method::kTwoSided}) {
    if (name == method_name(method)) return method;
  }
  return fail("method: expected whitened, two-sided or svd, found \"{}\"", name);
}

Status check_request(const CompressRequest& request) {
  if (request.pad && request.form != Form::kNeurons) {
    return fail("zero neurons pad form neurons, found form {}", form_name(request.form));
  }
  if (narrows_mlps(request)) return check_form(request);
  if (!request.statistics.empty() || !request.save_statistics.empty()) {
    return fail(
        "statistics are of forms that narrow whole MLPs; form uv has them with method two-sided or "
        "predicted allocation, else Gram matrices");
  }
  const bool text = request.calibration.has_value(), file = !request.gram.empty();
  const bool measures = request.allocate == Allocate::kSensitivity;
  if (measures && (!text || file)) {
    return fail(
        "allocate sensitivity needs a calibration text, on which it measures what every matrix is "
        "worth; saved Gram matrices are not enough");
  }
  if (request.method == Method::kSvd) {
    if (!file && request.save_gram.empty()) return {};
    return fail("method svd neither reads nor saves Gram matrices");
  }
  if (text && file) return fail("a calibration text and saved Gram matrices exclude each other");
  if (!request.save_gram.empty() && !text) {
    return fail("saving Gram matrices needs a calibration text");
  }
  if (text || file) return {};
  return fail(
      "method whitened needs a calibration text or saved Gram matrices; method svd needs neither");
}

}  // namespace neuronmm::compress
