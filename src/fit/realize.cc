#include "fit/realize.h"

#include <algorithm>
#include <array>
#include <system_error>

#include "compress/compress.h"
#include "compress/quantize.h"
#include "io/model_config.h"

namespace neuronmm::fit {
namespace {

namespace fs = std::filesystem;

// Returns the share of removed parameters for config.json.
Result<double> removed_share(const fs::path& model, const Choice& choice) {
  NMM_ASSIGN(const auto config, io::ModelConfig::load(model / "config.json"));
  const compress::MlpSizes sizes = {config.hidden_size, config.intermediate_size};
  double kept = 0.0;
  for (const io::MlpShape& shape : choice.shapes) {
    kept += static_cast<double>(sizes.parameters(shape)) /
            static_cast<double>(sizes.dense_parameters());
  }
  return 1.0 - kept / static_cast<double>(choice.shapes.size());
}

// Deletes a narrower model that was only needed to be rounded. A killed run may have left a part of
// it.
Status remove_between(const fs::path& between) {
  std::error_code error;
  fs::remove_all(between, error);
  if (error) return fail("{}: cannot be deleted: {}", between.string(), error.message());
  return {};
}

Status narrow(const Choice& choice, const Realization& options, const fs::path& out, bool force,
              const ops::Backend& backend, Progress& progress) {
  compress::CompressRequest request;
  request.model = options.model;
  request.out = out;
  request.form = compress::Form::kMixed;
  request.method = compress::Method::kTwoSided;
  request.allocate = compress::Allocate::kPredicted;
  request.shapes = choice.shapes;
  NMM_ASSIGN(request.rule.ratio, removed_share(options.model, choice));
  request.rule.block = options.block;
  request.calibration = options.calibration;
  request.statistics = options.statistics;
  request.force = force;
  request.deletes_work = true;
  NMM_TRY(compress::compress(request, backend, progress));
  return {};
}

// Returns the format of most matrices and, as exceptions, the formats of the others.
compress::QuantizedFormats formats_of(const Choice& choice) {
  std::array<int64_t, kFormats> count = {};
  for (const auto& formats : choice.formats) {
    for (const size_t format : formats) ++count[format];
  }
  const auto most = static_cast<size_t>(std::ranges::max_element(count) - count.begin());
  const auto format_of = [](size_t format) {
    return format == kAsIs ? io::kFloatFormat : kCandidates[format];
  };
  compress::QuantizedFormats found = {kCandidates[most], format_of(choice.head), {}};
  found.embedding = format_of(choice.table);
  for (size_t layer = 0; layer < choice.formats.size(); ++layer) {
    for (size_t part = 0; part < kParts; ++part) {
      const size_t format = choice.formats[layer][part];
      if (format == most) continue;
      for (const std::string& module : modules_of(static_cast<Part>(part))) {
        found.exceptions[fmt::format("layers.{}.{}", layer, module)] = kCandidates[format];
      }
    }
  }
  return found;
}

}  // namespace

Status realize(const Choice& choice, const Realization& options, const ops::Backend& backend,
               Progress& progress) {
  const bool narrowed = narrows(choice);
  const fs::path between = options.work / "narrowed";
  NMM_TRY(remove_between(between));
  if (!choice.rounded)
    return narrow(choice, options, options.out, options.force, backend, progress);
  if (narrowed) NMM_TRY(narrow(choice, options, between, true, backend, progress));
  compress::QuantizeRequest request;
  request.model = narrowed ? between : options.model;
  request.out = options.out;
  request.formats = formats_of(choice);
  request.rounding = compress::Rounding::kGptq;
  request.smooth = true;
  if (narrowed) {
    request.calibration = options.calibration;
  } else {
    request.statistics = options.statistics;
  }
  request.force = options.force;
  request.deletes_work = true;
  // Once the output is there, no later run would come here to delete the folder.
  const auto before_output = [&](const compress::QuantizeSummary&) {
    return remove_between(between);
  };
  NMM_TRY(compress::quantize(request, backend, progress, {}, nullptr, before_output));
  return {};
}

}  // namespace neuronmm::fit
