// Reads any text as a cache of tuned tilings. The result must be an error that names the source, or
// a cache that writes what it read and whose tilings the kernel accepts.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "trainium/tuner/cache.h"

namespace {

using namespace neuronmm;

const tuner::Problem& problem() {
  static const tuner::Problem made = {.kernel = *kernels::find_kernel("xuv"),
                                      .shape = {.M = 200, .K = 256, .r = 128, .N = 700},
                                      .options = {},
                                      .device = *simulator::find_device("trn1")};
  return made;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  auto cache = tuner::Cache::parse(text, "input");
  if (!cache.ok()) {
    NMM_CHECK(cache.error().message.starts_with("input"));
    return 0;
  }
  const std::string json = cache->to_json();
  NMM_CHECK(tuner::Cache::parse(json, "again")->to_json() == json);
  const auto found = cache->find(problem(), 2);
  if (!found.ok() || !found->has_value()) return 0;
  for (const tuner::Measurement& m : (*found)->best) {
    NMM_CHECK(kernels::tiling_of(*problem().kernel, m.tiling.values()).ok());
  }
  return 0;
}
