// A model folder in float whose linear layers have the values that a format of few bits would give
// them: for measuring formats and roundings before anything can run them.
//
//   round_model MODEL OUT WORK BITS GROUP HEAD_BITS TOKENS TEXT...
//
// BITS and HEAD_BITS are 0 for what stays as it is. WORK keeps the statistics for the next run, OUT
// the codes.

#include "compress/round_model.h"

#include <cstdio>
#include <filesystem>
#include <string>

#include "compress/blas.h"
#include "compress/codes_file.h"
#include "compress/mlp_statistics.h"
#include "cpu/backend.h"
#include "io/safetensors_writer.h"
#include "io/text_file.h"
#include "text/tokenizer.h"

namespace neuronmm {
namespace {

namespace fs = std::filesystem;

Status run(const std::vector<std::string>& args) {
  const fs::path model = args.at(0), out = args.at(1), work = args.at(2);
  const int bits = std::stoi(args.at(3)), head_bits = std::stoi(args.at(5));
  const ops::LowBitFormat body{bits, bits == 4 ? std::stoll(args.at(4)) : 128};
  NMM_TRY(compress::load_blas());
  NMM_ASSIGN(const auto config, io::ModelConfig::load(model / "config.json"));
  NMM_ASSIGN(const auto checkpoint, io::Checkpoint::open(model));
  const auto backend = cpu::make_backend();
  Progress progress;
  fs::create_directories(work);
  if (!compress::check_linear_statistics(work, config).ok()) {
    NMM_ASSIGN(const auto tokenizer, text::Tokenizer::load(model));
    std::vector<compress::NamedText> texts;
    for (size_t i = 7; i < args.size(); ++i) {
      NMM_ASSIGN(auto text, io::read_text_file(args[i], 1 << 30));
      texts.push_back({args[i], std::move(text)});
    }
    NMM_ASSIGN(const auto sequences,
               compress::calibration_sequences(tokenizer, texts, std::stoll(args.at(6)), config));
    NMM_TRY(compress::gather_statistics(checkpoint, config, *backend, sequences, work,
                                        compress::Gathered::kAllLinears, progress));
  }
  const fs::path codes_work = out / "codes";
  fs::create_directories(codes_work);
  const auto format_of = [&](const std::string& name) -> ops::LowBitFormat {
    if (name == "lm_head.weight") return {head_bits ? head_bits : 8, 128};
    return bits ? body : ops::LowBitFormat{8, 128};
  };
  NMM_TRY(compress::round_model({checkpoint, config, format_of, work}, codes_work, progress));
  std::vector<io::TensorSpec> specs;
  for (const auto& [name, tensor] : checkpoint.tensors()) {
    specs.push_back({name, DType::kF32, tensor.shape});
  }
  NMM_ASSIGN(auto writer, io::SafetensorsWriter::create(out / "model.safetensors", specs));
  for (const auto& [name, tensor] : checkpoint.tensors()) {
    std::vector<float> values(static_cast<size_t>(tensor.size()));
    to_floats(tensor, 0, tensor.size(), values.data());
    const bool head = name == "lm_head.weight";
    if ((head ? head_bits > 0 : bits > 0) && fs::exists(compress::codes_path(codes_work, name))) {
      NMM_ASSIGN(const auto codes, compress::read_codes(codes_work, name, format_of(name),
                                                        tensor.rows(), tensor.columns()));
      for (int64_t i = 0; i < codes.rows; ++i) {
        for (int64_t j = 0; j < codes.columns; ++j) {
          values[static_cast<size_t>(i * codes.columns + j)] =
              static_cast<float>(codes.value(i, j));
        }
      }
    }
    NMM_TRY(writer.append(std::as_bytes(std::span(values))));
  }
  NMM_TRY(writer.finish());
  for (const char* file : {"config.json", "tokenizer.json", "tokenizer_config.json"}) {
    fs::copy_file(model / file, out / file, fs::copy_options::overwrite_existing);
  }
  return {};
}

}  // namespace
}  // namespace neuronmm

int main(int argc, char** argv) {
  if (argc < 9) {
    fmt::print(stderr, "usage: round_model MODEL OUT WORK BITS GROUP HEAD_BITS TOKENS TEXT...\n");
    return 2;
  }
  const auto status = neuronmm::run({argv + 1, argv + argc});
  if (status.ok()) return 0;
  fmt::print(stderr, "{}\n", status.error().message);
  return 1;
}
