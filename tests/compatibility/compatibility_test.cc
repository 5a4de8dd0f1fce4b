// Opens the folders that version 0.2.0 wrote: compressed models of every form, rounded ones, saved
// statistics and a codes file. The expected perplexities are those that version 0.2.0 printed.

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "apps/run_program.h"
#include "compress/rounding/codes_file.h"
#include "io/checkpoint.h"
#include "io/model_config.h"
#include "model/layer_weights.h"
#include "places.h"

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using neuronmm::apps::expect;
using neuronmm::apps::neuronmm;
using neuronmm::apps::read;

// Another CPU adds fp32 products in another order, and may round an activation to the next 8-bit
// code. A sum of 96 products then changes by less than one part in 127 * sqrt(96).
const double kRelativeTolerance = 1.0 / (127 * std::sqrt(96.0));

const fs::path kFolders = neuronmm::source_dir() / "tests/compatibility/0.2.0";

std::string folder(const std::string& name) { return (kFolders / name).string(); }

class Compatibility : public neuronmm::apps::ProgramTest {
 protected:
  Json expected() const { return Json::parse(read(kFolders / "expected.json")); }

  // Expects that the model predicts the calibration text as version 0.2.0 did.
  void expect_predictions(const std::string& model, const Json& expected) const {
    const std::string report = path("perplexity.json");
    expect(
        neuronmm("perplexity " + model + " " + folder("calibration.txt") + " --reference " +
                 folder("dense") + " --context 256 --limit 8 --activations fp32 --json " + report),
        0, {});
    const Json found = Json::parse(read(report), nullptr, false);
    for (const char* key : {"perplexity", "kl"}) {
      const double value = expected[key].get<double>();
      EXPECT_NEAR(found[key].get<double>(), value, kRelativeTolerance * std::max(value, 1e-3))
          << model << ": " << key;
    }
  }
};

TEST_F(Compatibility, ModelsOfVersion020PredictWhatTheyDid) {
  const Json folders = expected()["folders"];
  ASSERT_GE(folders.size(), 16u);
  for (const auto& [name, values] : folders.items()) {
    SCOPED_TRACE(name);
    expect_predictions(folder(name), values);
  }
}

TEST_F(Compatibility, StatisticsOfVersion020ServeACompression) {
  const Json compressions = expected()["compressed_from_statistics"];
  for (const auto& [form, values] : compressions.items()) {
    SCOPED_TRACE(form);
    expect(
        neuronmm("compress " + folder("dense") + " -o " + path(form) +
                 " --ratio 0.2 --block 8 --form " + form +
                 " --method two-sided --allocate predicted --statistics " + folder("statistics")),
        0, {});
    expect_predictions(path(form), values);
  }
}

// The codes of one weight are from a run of version 0.2.0 that was killed. The command fit keeps
// such files in its folder of sensitivities, where later versions read them.
TEST_F(Compatibility, CodesOfVersion020AreThoseOfTheFinishedModel) {
  const fs::path finished = kFolders / "int4";
  const auto config = neuronmm::io::ModelConfig::load(finished / "config.json");
  const auto checkpoint = neuronmm::io::Checkpoint::open(finished);
  ASSERT_TRUE(config.ok() && checkpoint.ok());
  const auto layer = neuronmm::model::layer_weights(*checkpoint, *config, 0);
  ASSERT_TRUE(layer.ok()) << layer.error().message;
  const neuronmm::ops::WeightView& down = layer->mlp.down.w_t;
  const int64_t rows = down.rows(), columns = down.columns();
  const auto codes = neuronmm::compress::read_codes(
      kFolders / "codes", "model.layers.0.mlp.down_proj.weight", down.format, rows, columns);
  ASSERT_TRUE(codes.ok()) << codes.error().message;
  std::vector<double> stored(static_cast<size_t>(columns));
  for (int64_t i = 0; i < rows; ++i) {
    neuronmm::ops::to_doubles(down, i * columns, columns, stored.data());
    for (int64_t j = 0; j < columns; ++j) {
      EXPECT_EQ(codes->value(i, j), stored[static_cast<size_t>(j)]) << i << ", " << j;
    }
  }
}

// Options that have been removed since.
TEST_F(Compatibility, InspectNamesRemovedOptions) {
  expect(neuronmm("inspect " + folder("uv-error-aware")), 0, {"method error-aware"});
  expect(neuronmm("inspect " + folder("uv-only-floor")), 0, {"align floor", "dense"});
  expect(neuronmm("inspect " + folder("uv-sensitivity")), 0, {"sensitivity"});
}

}  // namespace
