#include "compress/request.h"

#include <system_error>

#include <fmt/format.h>

namespace neuronmm::compress {
namespace {

namespace fs = std::filesystem;

// Statistics alone say what a layer gains, not what the narrowed model makes of a text.
Status check_calibration(const CompressRequest& request, const std::string& what) {
  if (request.calibration) return {};
  if (request.statistics.empty()) {
    return fail("{} needs a calibration text or saved statistics", what);
  }
  if (request.allocate == Allocate::kMeasured) {
    return fail("allocate measured needs a calibration text, on which it runs narrowed layers");
  }
  return {};
}

Status check_statistics(const CompressRequest& request) {
  std::error_code ignored;
  if (request.statistics.empty() || fs::weakly_canonical(request.statistics, ignored) !=
                                        fs::weakly_canonical(request.out, ignored)) {
    return {};
  }
  return fail("{}: expected different folders for the model and the statistics",
              request.out.string());
}

// The other forms weigh what whole MLPs lose, for which uv's ways of saving work do not exist yet.
Status check_form(const CompressRequest& request) {
  const std::string_view form = form_name(request.form);
  NMM_TRY(check_calibration(request, fmt::format("form {}", form)));
  if (request.method == Method::kSvd) {
    return fail("form {}{} has the methods whitened and two-sided, found svd", form,
                request.form == Form::kUv ? " with predicted allocation" : "");
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
         request.allocate == Allocate::kPredicted;
}

std::string_view allocate_name(Allocate allocate) {
  switch (allocate) {
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
  for (const Allocate allocate : {Allocate::kUniform, Allocate::kPredicted, Allocate::kMeasured}) {
    if (name == allocate_name(allocate)) return allocate;
  }
  return fail("allocate: expected uniform, predicted or measured, found \"{}\"", name);
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
  NMM_TRY(check_statistics(request));
  if (narrows_mlps(request)) return check_form(request);
  if (request.allocate == Allocate::kMeasured && !request.calibration) {
    return fail(
        "allocate measured needs a calibration text, on which it measures what every matrix is "
        "worth; saved statistics are not enough");
  }
  if (request.method != Method::kSvd) return check_calibration(request, "method whitened");
  if (request.statistics.empty()) return {};
  return fail("method svd looks at no text, so that statistics have no use");
}

}  // namespace neuronmm::compress
