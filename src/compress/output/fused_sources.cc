#include "compress/output/fused_sources.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <string>
#include <utility>

#include "compress/output/stacked_sources.h"
#include "io/families/tensor_names.h"

namespace neuronmm::compress {

std::vector<TensorSource> fused_sources(std::vector<TensorSource> sources,
                                        io::Architecture architecture) {
  sources = stacked_sources(std::move(sources), architecture);
  std::map<std::string, std::vector<TensorSource>> fused;
  std::vector<TensorSource> result;
  for (TensorSource& source : sources) {
    const auto module = io::fused_module(architecture, source.spec.name);
    if (!module) {
      result.push_back(std::move(source));
      continue;
    }
    auto& parts = fused[module->name];
    parts.resize(static_cast<size_t>(module->parts));
    parts[static_cast<size_t>(module->part)] = std::move(source);
  }
  for (auto& [name, fused_parts] : fused) {
    std::vector<TensorSource> parts = std::move(fused_parts);
    const auto same_dtype = [&](const TensorSource& part) {
      return part.spec.dtype == parts.front().spec.dtype;
    };
    if (!std::ranges::all_of(parts, same_dtype)) {
      std::ranges::move(parts, std::back_inserter(result));
      continue;
    }
    TensorSource whole = {.spec = parts.front().spec};
    whole.spec.name = name;
    whole.spec.shape.front() = 0;
    for (const TensorSource& part : parts) whole.spec.shape.front() += part.spec.shape.front();
    whole.visit = [parts = std::move(parts)](const TensorSource::Use& use) -> Status {
      for (const TensorSource& part : parts) NMM_TRY(part.visit(use));
      return {};
    };
    result.push_back(std::move(whole));
  }
  return result;
}

}  // namespace neuronmm::compress
