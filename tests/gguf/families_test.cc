// Imports the GGUF files of tiny models of all families, as llama.cpp's converter writes them
// (tests/slow/families/gguf_of_families.py), and compares their logits with transformers.

#include "cpu/backend.h"
#include "gguf/family_gguf.h"
#include "gguf/import.h"
#include "io/io_test.h"
#include "ops/reference.h"

namespace neuronmm::gguf {
namespace {

TEST(GgufFamilies, LogitsAreThoseOfTransformers) {
  const io::TemporaryFolder root;
  const auto reference = ops::make_reference_backend();
  int files = 0;
  for (const auto& path : model::family_goldens()) {
    SCOPED_TRACE(path.filename().string());
    const model::FamilyGolden golden(path);
    if (!golden.json.contains("gguf")) continue;
    ++files;
    io::put(root / "m.gguf", file_of(golden).bytes());
    Progress silent;
    const auto summary = import_model(root / "m.gguf", root / "out", DType::kF32, true, silent);
    ASSERT_TRUE(summary.ok()) << summary.error().message;
    const auto transformer = model::Transformer::load(root / "out", *reference);
    ASSERT_TRUE(transformer.ok()) << transformer.error().message;
    golden.expect_logits(*transformer, golden.tokens,
                         model::decoded_floats(golden.json.at("logits").get<std::string>()));
  }
  EXPECT_GE(files, 30);
}

}  // namespace
}  // namespace neuronmm::gguf
