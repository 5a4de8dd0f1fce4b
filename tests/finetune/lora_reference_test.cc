// Compares training with the same training in plain PyTorch (tools/lora_reference.py), step by step
// in fp32.

#include <array>
#include <cstdio>
#include <fstream>
#include <optional>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "factored_model.h"
#include "finetune/trainable_model.h"
#include "io/safetensors_writer.h"
#include "places.h"

namespace neuronmm::finetune {
namespace {

using nlohmann::json;

// Returns the standard output of a command, or nothing if the command fails.
std::optional<std::string> output_of(const std::string& command) {
  std::FILE* const pipe = popen(command.c_str(), "r");
  std::string output;
  std::array<char, 4096> buffer;
  while (const size_t n = fread(buffer.data(), 1, buffer.size(), pipe))
    output.append(buffer.data(), n);
  return pclose(pipe) == 0 ? std::optional(output) : std::nullopt;
}

std::optional<std::string> python_with_torch() {
  for (const std::string python : {"python3", "/usr/bin/python3"}) {
    // Only the run itself imports the package, because that takes seconds.
    if (output_of(python + " -c 'import importlib.util as i, sys;" +
                  " sys.exit(i.find_spec(\"torch\") is None)' 2>&1")) {
      return python;
    }
  }
  return std::nullopt;
}

void write_adapters(const TrainableModel& model, const std::filesystem::path& path) {
  const auto tensors = model.phase_tensors();
  std::vector<io::TensorSpec> adapters;
  for (size_t i = 0; i < tensors.size(); i += 3) adapters.push_back(tensors[i]);
  auto writer = io::SafetensorsWriter::create(path, adapters);
  ASSERT_TRUE(writer.ok());
  for (const io::TensorSpec& adapter : adapters) {
    const std::vector<float> values = model.read(adapter.name);
    ASSERT_TRUE(writer->append(std::as_bytes(std::span(values))).ok());
  }
  ASSERT_TRUE(writer->finish().ok());
}

json sequences_json(const std::vector<Example>& examples) {
  json sequences = json::array();
  for (const Example& example : examples)
    sequences.push_back({{"tokens", example.tokens}, {"scored_from", example.scored_from}});
  return sequences;
}

// Makes one training step in two micro-batches and returns the mean loss.
double train(TrainableModel& model, const std::vector<Example>& examples, double learning_rate,
             int64_t step) {
  const std::vector<const Example*> batch = pointers(examples);
  int64_t tokens = 0;
  for (const Example& example : examples) tokens += example.scored_tokens();
  const double scale = 1.0 / static_cast<double>(tokens);
  model.clear_gradients();
  const double loss = model.accumulate(Batch(batch).first(3), scale) +
                      model.accumulate(Batch(batch).subspan(3), scale);
  model.update(learning_rate, step);
  return loss * scale;
}

TEST(LoraReference, EveryStepAgreesWithPyTorch) {
  const auto python = python_with_torch();
  if (!python) GTEST_SKIP() << "no python3 with torch (Debian: python3-torch)";
  constexpr int64_t kSteps = 12;
  const io::ModelConfig config = model::tiny_config(io::Architecture::kLlama);
  Recipe recipe;
  recipe.rank = 3;
  recipe.learning_rate = 1e-2;
  for (const Part part : {Part::kU, Part::kV, Part::kBoth}) {
    SCOPED_TRACE(part_name(part));
    const model::ModelFolder folder;
    write_model(folder, config, factored_tensors(config, 41));
    TrainableModel model = load_or_throw({folder.path(), {}});
    model.begin_phase(part, recipe, 5);
    write_adapters(model, folder.path() / "adapters.safetensors");
    json run = {{"scale", recipe.alpha / static_cast<double>(recipe.rank)}};
    std::vector<double> losses;
    for (int64_t step = 0; step < kSteps; ++step) {
      const auto examples = random_examples(5, config.vocab_size, static_cast<uint64_t>(step) + 50);
      const double learning_rate = learning_rate_at(recipe, step, kSteps);
      run["steps"].push_back(
          {{"learning_rate", learning_rate}, {"sequences", sequences_json(examples)}});
      losses.push_back(train(model, examples, learning_rate, step + 1));
    }
    folder.write_text("run.json", run.dump());
    const auto output = output_of(*python + " '" + source_dir().string() +
                                  "/tools/lora_reference.py' '" + folder.path().string() + "'");
    ASSERT_TRUE(output);
    const json expected = json::parse(*output);
    for (int64_t step = 0; step < kSteps; ++step) {
      const double loss = expected["losses"][static_cast<size_t>(step)];
      EXPECT_NEAR(losses[static_cast<size_t>(step)], loss, 1e-5 * loss) << "step " << step;
    }
    double moved = 0.0;
    for (const auto& [name, values] : expected["adapters"].items()) {
      const std::vector<float> found = model.read(name);
      ASSERT_EQ(found.size(), values.size());
      for (size_t i = 0; i < found.size(); ++i) {
        EXPECT_NEAR(found[i], values[i].get<float>(), 1e-5f) << name << " " << i;
        if (name.ends_with("lora_b")) moved = std::max(moved, std::abs(values[i].get<double>()));
      }
    }
    EXPECT_GT(moved, 0.01);  // B was zero at the beginning
  }
}

}  // namespace
}  // namespace neuronmm::finetune
