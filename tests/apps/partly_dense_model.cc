#include "partly_dense_model.h"

#include <stdexcept>

#include "compress/compress.h"
#include "cpu/backend.h"
#include "places.h"

namespace neuronmm::apps {

void write_partly_dense_model(const std::filesystem::path& out) {
  constexpr size_t kLayers = 4;  // of the bundled model
  compress::CompressRequest request;
  request.model = source_dir() / "models/demo";
  request.out = out;
  request.method = compress::Method::kSvd;
  request.rule = {.ratio = 0.2, .block = 32};
  request.shapes.assign(kLayers, io::MlpShape{.gate = 224, .down = 224});
  Progress silent;
  const auto made = compress::compress(request, *cpu::make_backend(), silent);
  if (!made.ok()) throw std::runtime_error(made.error().message);
}

}  // namespace neuronmm::apps
