// Writes a copy of a model folder that has only the first layer. The tests of commands use such a
// copy of the bundled model: it is compressed and trained four times faster.
//
//   first_layer_model MODEL_DIR OUT_DIR

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "io/safetensors.h"
#include "io/safetensors_writer.h"

namespace {

namespace fs = std::filesystem;
using neuronmm::Result;
using neuronmm::Status;

constexpr const char* kLayers = "model.layers.";

bool is_kept(const std::string& tensor) {
  return !tensor.starts_with(kLayers) || tensor.starts_with(std::string(kLayers) + "0.");
}

Status write_tensors(const fs::path& model, const fs::path& out) {
  NMM_ASSIGN(const auto file, neuronmm::io::SafetensorsFile::open(model));
  std::vector<neuronmm::io::TensorSpec> specs;
  for (const auto& [name, tensor] : file.tensors()) {
    if (is_kept(name)) specs.push_back({name, tensor.dtype, tensor.shape});
  }
  NMM_ASSIGN(auto writer, neuronmm::io::SafetensorsWriter::create(out, specs, file.metadata()));
  for (const auto& spec : specs) {
    const neuronmm::TensorView& tensor = file.tensors().at(spec.name);
    NMM_TRY(writer.append({tensor.data, static_cast<size_t>(tensor.size_bytes())}));
  }
  return writer.finish();
}

void write_config(const fs::path& model, const fs::path& out) {
  std::ifstream stream(model);
  auto config = nlohmann::ordered_json::parse(stream);
  config["num_hidden_layers"] = 1;
  std::ofstream(out) << config.dump(2) << '\n';
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fputs("usage: first_layer_model MODEL_DIR OUT_DIR\n", stderr);
    return 2;
  }
  const fs::path model = argv[1], out = argv[2];
  fs::remove_all(out);
  fs::create_directories(out);
  for (const fs::directory_entry& entry : fs::directory_iterator(model)) {
    if (entry.path().extension() != ".safetensors") {
      fs::copy_file(entry.path(), out / entry.path().filename());
    }
  }
  const Status written = write_tensors(model / "model.safetensors", out / "model.safetensors");
  if (!written.ok()) {
    std::fprintf(stderr, "%s\n", written.error().message.c_str());
    return 1;
  }
  write_config(model / "config.json", out / "config.json");
  return 0;
}
