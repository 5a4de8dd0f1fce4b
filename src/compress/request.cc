#include "compress/request.h"

#include <fmt/format.h>

#include "io/file_identity.h"

namespace neuronmm::compress {
namespace {

namespace fs = std::filesystem;

class RequestCheck {
 public:
  RequestCheck(const CompressRequest& request, OptionNames names)
      : request_(request), names_(names) {}

  Status run() const {
    if (request_.pad && request_.form != Form::kNeurons) {
      return fail("{} is for {} neurons, found {}", name("pad"), name("form"), form());
    }
    NMM_TRY(check_folders());
    NMM_TRY(check_reconstruct());
    return narrows_mlps(request_) ? check_whole_mlps() : check_single_matrices();
  }

 private:
  std::string name(std::string_view keyword) const { return option_name(names_, keyword); }
  std::string form() const { return fmt::format("{} {}", name("form"), form_name(request_.form)); }

  Status check_folders() const {
    if (request_.statistics.empty()) return {};
    const auto statistics = io::resolved_path(request_.statistics);
    const auto out = io::resolved_path(request_.out);
    // A path that cannot be resolved is no wrong request. It fails when it is opened.
    if (!statistics.ok() || !out.ok() || *statistics != *out) return {};
    return fail("{}: expected different folders for the model and the statistics",
                request_.out.string());
  }

  Status check_reconstruct() const {
    if (request_.reconstruct.mode != Reconstruct::Mode::kTokens || request_.calibration) return {};
    return fail("{} {} needs {} or {}, from which layers learn", name("reconstruct"),
                request_.reconstruct.tokens, name("calibration"), name("self_generated"));
  }

  // Statistics alone give predicted losses. Measured losses need a text on which the narrowed model
  // runs.
  Status check_text(const std::string& what, std::string_view otherwise) const {
    if (request_.calibration) return {};
    if (request_.statistics.empty()) {
      return fail("{} needs {}, {} or {}; {}", what, name("calibration"), name("self_generated"),
                  name("statistics"), otherwise);
    }
    if (request_.allocate != Allocate::kMeasured) return {};
    return fail(
        "{} measured needs {} or {}, on which it measures what every matrix or layer is worth; "
        "{} are not enough",
        name("allocate"), name("calibration"), name("self_generated"), name("statistics"));
  }

  Status check_whole_mlps() const {
    if (request_.method == Method::kSvd) {
      return fail("{}{} has the methods whitened and two-sided, found {} svd", form(),
                  request_.form == Form::kUv ? " with predicted sizes" : "", name("method"));
    }
    return check_text(
        form(), fmt::format("{} uv with {} svd needs none of them", name("form"), name("method")));
  }

  // Plain SVD reads no text, unless ranks are measured on it.
  Status check_single_matrices() const {
    const std::string method = fmt::format("{} {}", name("method"), method_name(request_.method));
    if (request_.method != Method::kSvd) return check_text(method, "svd needs none of them");
    if (!request_.statistics.empty()) {
      return fail("{} looks at no text, so that {} has no use", method, name("statistics"));
    }
    if (request_.allocate != Allocate::kMeasured) return {};
    return check_text(fmt::format("{} measured", name("allocate")), "uniform needs none of them");
  }

  const CompressRequest& request_;
  OptionNames names_;
};

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

Status check_request(const CompressRequest& request, OptionNames names) {
  return RequestCheck(request, names).run();
}

}  // namespace neuronmm::compress
