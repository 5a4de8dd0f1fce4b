// Compares merged adapters with what PEFT merges. make_adapter_golden.py wrote the files of
// adapter_golden.

#include <cmath>
#include <string>

#include "io/adapter.h"
#include "io/checkpoint.h"
#include "io/safetensors.h"
#include "io_test.h"
#include "places.h"

namespace neuronmm::io {
namespace {

class AdapterOfPeft : public testing::TestWithParam<const char*> {};

// Returns the rows of a merged matrix as PEFT has it. We split the fused ones of Phi-3.
std::vector<float> peft_rows(const Checkpoint& model, const std::string& name) {
  constexpr std::string_view kQkv = "self_attn.qkv_proj", kGateUp = "mlp.gate_up_proj";
  std::vector<std::string> parts = {name};
  if (const size_t at = name.find(kQkv); at != name.npos) {
    parts.clear();
    for (const char* part : {"q", "k", "v"})
      parts.push_back(
          std::string(name).replace(at, kQkv.size(), fmt::format("self_attn.{}_proj", part)));
  } else if (const size_t both = name.find(kGateUp); both != name.npos) {
    parts.clear();
    for (const char* part : {"gate", "up"})
      parts.push_back(
          std::string(name).replace(both, kGateUp.size(), fmt::format("mlp.{}_proj", part)));
  }
  std::vector<float> values;
  for (const std::string& part : parts) {
    const TensorView& tensor = model.tensors().at(part);
    std::vector<float> some(static_cast<size_t>(tensor.size()));
    to_floats(tensor, 0, tensor.size(), some.data());
    values.insert(values.end(), some.begin(), some.end());
  }
  return values;
}

TEST_P(AdapterOfPeft, HasTheSameWeights) {
  const auto folder = source_dir() / "tests/io/adapter_golden" / GetParam();
  use_adapter(folder / "base", folder / "adapter");
  const auto model = Checkpoint::open(folder / "base");
  ASSERT_TRUE(model.ok()) << model.error().message;
  const auto merged = SafetensorsFile::open(folder / "merged.safetensors");
  ASSERT_TRUE(merged.ok()) << merged.error().message;
  const auto base = SafetensorsFile::open(folder / "base/model.safetensors");
  ASSERT_TRUE(base.ok()) << base.error().message;
  size_t changed = 0;
  for (const auto& [name, tensor] : merged->tensors()) {
    std::vector<float> expected(static_cast<size_t>(tensor.size())), before = expected;
    to_floats(tensor, 0, tensor.size(), expected.data());
    to_floats(base->tensors().at(name), 0, tensor.size(), before.data());
    changed += expected != before ? 1 : 0;
    const std::vector<float> found = peft_rows(*model, name);
    ASSERT_EQ(found.size(), expected.size()) << name;
    // Sums of three products in fp32 in another order.
    for (size_t i = 0; i < found.size(); ++i)
      ASSERT_NEAR(found[i], expected[i], 2e-6 * std::max(1.0f, std::abs(expected[i]))) << name;
  }
  EXPECT_GE(changed, 2u);
}

INSTANTIATE_TEST_SUITE_P(Cases, AdapterOfPeft,
                         testing::Values("patterns", "dora", "tables", "saved", "phi3"),
                         [](const auto& tested) { return std::string(tested.param); });

}  // namespace
}  // namespace neuronmm::io
