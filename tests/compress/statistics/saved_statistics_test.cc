// This file tests that saved statistics give the same bytes as statistics that are gathered anew,
// and that nothing is gathered twice.

#include "compress/statistics/saved_statistics.h"

#include <cmath>
#include <utility>

#include <nlohmann/json.hpp>

#include "compress/compress_test.h"
#include "compress/factors/narrow_mlp.h"
#include "compress/sizes/losses_file.h"
#include "compress/statistics/layer_grams.h"
#include "compress/statistics/mlp_statistics.h"
#include "io/checkpoint.h"
#include "io/safetensors_writer.h"

namespace neuronmm::compress {
namespace {

constexpr int64_t kPasses =
    kLayers * kSequences;  // the calls of attention in one pass over the text

class Saved : public CompressTest {
 protected:
  CompressRequest shaped(const std::string& out, Form form = Form::kMixed) const {
    CompressRequest shaped = request(out);
    shaped.form = form;
    shaped.allocate = Allocate::kPredicted;
    shaped.rule = {0.4, 4};
    return shaped;
  }
  // Returns a request with the text and a folder of statistics. The run makes the folder, or adds
  // what it lacks.
  CompressRequest keeping(const std::string& out, Form form = Form::kMixed) const {
    CompressRequest keeping = shaped(out, form);
    keeping.statistics = path("statistics");
    return keeping;
  }
  CompressRequest without_text(const std::string& out, Form form = Form::kMixed) const {
    CompressRequest without = keeping(out, form);
    without.calibration.reset();
    return without;
  }
  Result<CompressSummary> run_two_sided(CompressRequest request) {
    request.method = Method::kTwoSided;
    return run(request);
  }
  // A metric that was made again would be a new file.
  auto time_of_metric() const {
    return fs::last_write_time(path("statistics") / "metric.safetensors");
  }
  void count_attentions() {
    attentions_ = 0;
    backend_.on_attention = [&] { ++attentions_; };
  }
  void expect_refused_before_any_work(const CompressRequest& request,
                                      std::initializer_list<std::string> words) {
    count_attentions();
    expect_refused(request, words);
    EXPECT_EQ(attentions_, 0);
    EXPECT_FALSE(fs::exists(request.out));
    EXPECT_FALSE(fs::exists(request.out.string() + ".partial"));
  }
  std::map<std::string, std::string> contents(const std::string& folder) const {
    std::map<std::string, std::string> all;
    for (const auto& entry : fs::recursive_directory_iterator(path(folder))) {
      if (entry.is_regular_file()) {
        const std::string name = fs::relative(entry.path(), path(folder));
        all[name] = bytes(folder, name);
      }
    }
    return all;
  }

  // Without the setting that says whether statistics were given.
  nlohmann::json config_of(const std::string& out) const {
    nlohmann::json config = nlohmann::json::parse(bytes(out, "config.json"));
    config["neuronmm_compression"]["settings"].erase("statistics");
    return config;
  }

  int64_t attentions_ = 0;
};

TEST_F(Saved, SavedStatisticsGiveTheSameModelAsTheText) {
  run_well(keeping("saving"));
  const std::pair<Form, WeightFormats> cases[] = {
      {Form::kUv, kOriginal},     {Form::kUv, kInt4},      {Form::kPivoted, kInt8},
      {Form::kNarrow, kOriginal}, {Form::kNeurons, kInt4}, {Form::kMixed, kOriginal},
      {Form::kMixed, kInt8}};
  for (const auto& [form, weights] : cases) {
    SCOPED_TRACE(fmt::format("{} {}", form_name(form), weights_text(weights)));
    CompressRequest plain = shaped("plain", form), saved = keeping("saved", form);
    plain.weights = saved.weights = weights;
    count_attentions();
    const CompressSummary expected = run_well(plain);
    const int64_t without = attentions_;
    count_attentions();
    const CompressSummary found = run_well(saved);
    EXPECT_EQ(attentions_, without - kPasses);
    EXPECT_EQ(bytes("saved"), bytes("plain"));
    EXPECT_EQ(config_of("saved"), config_of("plain"));
    EXPECT_EQ(found.calibration_tokens, expected.calibration_tokens);
    fs::remove_all(path("plain"));
    fs::remove_all(path("saved"));
  }
}

// The test expects what narrow_mlp() makes of each layer's statistics when they are gathered
// separately.
TEST_F(Saved, NoTextIsNeededWithSavedStatistics) {
  run_well(keeping("saving"));
  fs::create_directories(path("apart"));
  const auto checkpoint = io::Checkpoint::open(input_.path());
  const auto tokenizer = text::Tokenizer::load(input_.path());
  ASSERT_TRUE(checkpoint.ok() && tokenizer.ok());
  const auto text =
      calibration_sequences(*tokenizer, {{"text.txt", text_}}, kDefaultCalibrationTokens, config_);
  ASSERT_TRUE(text.ok());
  ASSERT_TRUE(gather_statistics({*checkpoint, config_, backend_, &*text, silent_}, path("apart"),
                                Gathered::kMlps)
                  .ok());

  for (const Form form : {Form::kPivoted, Form::kNarrow, Form::kNeurons, Form::kMixed}) {
    SCOPED_TRACE(form_name(form));
    count_attentions();
    const CompressSummary summary = run_well(without_text("out", form));
    EXPECT_EQ(attentions_, 0);
    EXPECT_EQ(summary.calibration_tokens, text->origin.tokens);
    const auto made = io::Checkpoint::open(path("out"));
    ASSERT_TRUE(made.ok());
    for (int64_t layer = 0; layer < kLayers; ++layer) {
      const auto weights = model::layer_weights(*checkpoint, config_, layer);
      const auto mlp = DenseMlp::read(weights->mlp);
      const auto statistics = read_statistics(path("apart"), layer, config_);
      ASSERT_TRUE(mlp.ok() && statistics.ok());
      const MlpMetric metric = local_metric(*statistics, mlp->down_t);
      const auto losses = predict_losses(*mlp, *statistics, metric);
      ASSERT_TRUE(losses.ok());
      const auto narrow = narrow_mlp(*mlp, *statistics, metric, losses->order,
                                     summary.layers[static_cast<size_t>(layer)].shape, DType::kF32);
      ASSERT_TRUE(narrow.ok());
      int64_t weights_seen = 0;
      for (const MlpTensor& tensor : narrow->tensors) {
        if (!tensor.numbers.empty()) continue;
        const TensorView& found =
            made->tensors().at(fmt::format("model.layers.{}.mlp.{}", layer, tensor.name));
        const std::vector<std::byte> expected = to_checkpoint(tensor.values, DType::kF32);
        ASSERT_EQ(static_cast<size_t>(found.size_bytes()), expected.size()) << tensor.name;
        EXPECT_EQ(std::memcmp(found.data, expected.data(), expected.size()), 0) << tensor.name;
        ++weights_seen;
      }
      EXPECT_GE(weights_seen, 3);
    }
    fs::remove_all(path("out"));
  }
}

TEST_F(Saved, ASecondRunReusesTheFolderThatItWouldMake) {
  run_well(keeping("first", Form::kPivoted));
  const auto before = contents("statistics");
  EXPECT_EQ(before.size(), static_cast<size_t>(2 + 3 * kLayers));  // includes attention and losses
  EXPECT_FALSE(fs::exists(path("statistics.partial")));
  count_attentions();
  run_well(keeping("second", Form::kPivoted));
  EXPECT_EQ(attentions_, kPasses);  // only the fit of down reads the text
  EXPECT_EQ(bytes("first"), bytes("second"));
  EXPECT_EQ(contents("statistics"), before);
}

// The fit of down reads the text once more. The run does so if narrower inputs cause much of the
// loss, or if there are narrower inputs and weights are rounded to fewer than 8 bits.
TEST_F(Saved, DownIsFittedOnTheTextOnlyWhereItPays) {
  run_well(keeping("saving"));
  for (const Form form : {Form::kPivoted, Form::kNarrow, Form::kMixed, Form::kNeurons}) {
    for (const int bits : {16, 8, 4}) {
      SCOPED_TRACE(fmt::format("{}, {} bits", form_name(form), bits));
      const WeightFormats weights = bits == 16 ? WeightFormats() : quantized_formats(bits);
      const bool few_bits = weights && weights->linear.bits < 8;
      CompressRequest request = keeping("again", form);
      request.weights = weights;
      count_attentions();
      const CompressSummary summary = run_well(request);
      double inputs = 0.0, all = 0.0;
      for (const LayerReport& layer : summary.layers) {
        inputs += layer.input_loss;
        all += layer.predicted_loss;
      }
      const bool worth = inputs > 0.0 && (few_bits || inputs >= 0.4 * all);
      EXPECT_EQ(attentions_, worth ? kPasses : 0) << inputs << " of " << all;
      EXPECT_EQ(form == Form::kNeurons, inputs == 0.0);
      EXPECT_TRUE(form != Form::kPivoted || worth);
      EXPECT_TRUE(form != Form::kMixed || worth == few_bits);
      fs::remove_all(path("again"));
    }
  }
}

TEST_F(Saved, InterruptedSavingResumesToTheSameBytes) {
  run_well(shaped("whole", Form::kPivoted));
  // The folder includes the statistics of attention. Every sequence therefore calls attention once
  // more for each slice of its inputs (a head's width).
  const int64_t gathering = kPasses * (1 + kHidden / config_.head_dim);
  for (const int64_t stop : {int64_t{1}, kSequences + 1, gathering - 1, gathering, gathering + 5}) {
    SCOPED_TRACE(stop);
    int64_t calls = 0;
    backend_.on_attention = [&] { set_interrupted(++calls == stop || interrupted()); };
    ASSERT_FALSE(run(keeping("parts", Form::kPivoted)).ok());
    set_interrupted(false);
    EXPECT_EQ(fs::exists(path("statistics")), stop > gathering);
    count_attentions();
    run_well(keeping("parts", Form::kPivoted));
    EXPECT_LE(attentions_, gathering + kPasses - std::min(stop, gathering) + 1);
    EXPECT_EQ(bytes("parts"), bytes("whole"));
    EXPECT_FALSE(fs::exists(path("statistics.partial")));
    fs::remove_all(path("parts"));
    fs::remove_all(path("statistics"));
  }
}

// The test makes all neurons of layer 0 appear worthless, and expects the run to believe the file.
TEST_F(Saved, PredictedLossesAreReadUnlessDamaged) {
  run_well(keeping("saving"));
  const fs::path folder = SavedStatistics::losses_folder(path("statistics"), "whitened");
  auto cheap = read_losses(folder, 0, config_);
  ASSERT_TRUE(cheap);
  std::ranges::fill(cheap->neurons, 0.0);
  ASSERT_TRUE(save_losses(folder, 0, *cheap).ok());
  const CompressSummary changed = run_well(without_text("changed", Form::kNeurons));
  EXPECT_EQ(changed.layers[0].shape.neurons, 4);

  // If the losses belong to another model, are damaged or are missing, the run predicts them again
  // and leaves the folder as it is.
  cheap->order.pop_back();
  for (const int damage : {0, 1, 2}) {
    if (damage == 0) {
      EXPECT_TRUE(save_losses(folder, 0, *cheap).ok());
    }
    if (damage == 1) fs::resize_file(losses_path(folder, 0), 60);
    if (damage == 2) fs::remove(losses_path(folder, 0));
    const auto before = contents("statistics");
    const CompressSummary again = run_well(without_text("again", Form::kNeurons));
    EXPECT_GT(again.layers[0].shape.neurons, 4);
    EXPECT_EQ(contents("statistics"), before) << "what is read is not written";
    fs::remove_all(path("again"));
  }
}

TEST_F(Saved, AMetricIsSavedAndUsed) {
  CompressRequest two_sided = keeping("first");
  ASSERT_TRUE(run_two_sided(two_sided).ok());
  const auto made = time_of_metric();
  ASSERT_TRUE(run_two_sided(shaped("plain")).ok());
  ASSERT_TRUE(run_two_sided(keeping("second")).ok());
  EXPECT_EQ(time_of_metric(), made);
  EXPECT_EQ(bytes("second"), bytes("plain"));
  // A whitened run ignores the metric in the folder.
  run_well(keeping("whitened"));
  run_well(shaped("plainly whitened"));
  EXPECT_EQ(bytes("whitened"), bytes("plainly whitened"));
  EXPECT_NE(bytes("whitened"), bytes("second"));
}

TEST_F(Saved, AMissingMetricIsMadeIfThereIsAText) {
  run_well(keeping("saving"));
  CompressRequest none = without_text("none");
  none.method = Method::kTwoSided;
  expect_refused_before_any_work(none, {path("statistics"), "two-sided", "whitened"});
  ASSERT_TRUE(run_two_sided(keeping("completing")).ok());
  const auto made = time_of_metric();
  ASSERT_TRUE(run_two_sided(keeping("again")).ok());
  ASSERT_TRUE(run_two_sided(without_text("none")).ok());
  EXPECT_EQ(time_of_metric(), made);
  EXPECT_EQ(bytes("again"), bytes("completing"));
}

TEST_F(Saved, StatisticsOfAnotherModelOrTextAreRefused) {
  run_well(keeping("saving"));
  CompressRequest wrong = without_text("out");
  wrong.statistics = path("nowhere");
  expect_refused_before_any_work(wrong, {"nowhere: expected a folder of saved statistics"});
  wrong.statistics = input_.path();
  expect_refused_before_any_work(wrong, {"found no statistics.json in it"});
  wrong.statistics = input_.path() / "config.json";
  expect_refused_before_any_work(wrong, {"config.json", "found a file"});

  model::ModelFolder other;
  model::TestTensors tensors = tensors_;
  tensors.at("model.norm.weight").values[3] += 0.5f;
  write_model(other, tensors);
  wrong = without_text("out");
  wrong.model = other.path();
  expect_refused_before_any_work(wrong, {"statistics.json", "found those of other weights"});

  wrong = keeping("out");
  wrong.calibration->texts[0].text += "a";
  expect_refused_before_any_work(
      wrong, {"its statistics are of text.txt (500 bytes", "calibration text is text.txt (501"});
  wrong = keeping("out");
  wrong.calibration->texts.push_back({"b.txt", text_});
  expect_refused_before_any_work(wrong, {"expected the 1 texts", "found 2"});
  wrong = keeping("out");
  wrong.calibration->max_tokens = 300;
  expect_refused_before_any_work(wrong, {"are of 496 tokens", "calibration text has 300"});
}

TEST_F(Saved, ErrorsNameTheDamagedFile) {
  run_well(keeping("saving"));
  const fs::path layer = path("statistics") / "mlp-00001.safetensors";
  const std::string whole = bytes("statistics", "mlp-00001.safetensors");
  const auto restore = [&] { std::ofstream(layer, std::ios::binary) << whole; };
  fs::remove(layer);
  expect_refused_before_any_work(without_text("out"), {"mlp-00001.safetensors"});
  for (const size_t kept :
       {size_t{0}, size_t{7}, size_t{300}, whole.size() / 2, whole.size() - 1}) {
    restore();
    fs::resize_file(layer, kept);
    expect_refused_before_any_work(without_text("out"), {"mlp-00001.safetensors"});
  }
  restore();
  std::fstream(layer, std::ios::in | std::ios::out).seekp(-30, std::ios::end).put('!');
  expect_refused_before_any_work(without_text("out"), {"mlp-00001.safetensors", "checksum"});
  restore();
  run_well(without_text("out"));
  fs::remove_all(path("out"));

  const fs::path json = path("statistics") / "statistics.json";
  const std::string text = bytes("statistics", "statistics.json");
  const auto with = [&](const std::string& old, const std::string& replacement) {
    std::string changed = text;
    changed.replace(changed.find(old), old.size(), replacement);
    std::ofstream(json, std::ios::binary) << changed;
  };
  with("\"neuronmm_statistics\": 1", "\"neuronmm_statistics\": 2");
  expect_refused_before_any_work(without_text("out"), {"statistics.json", "neuronmm_statistics"});
  with("\"intermediate_size\": 64", "\"intermediate_size\": 96");
  expect_refused_before_any_work(without_text("out"), {"intermediate_size 64, found 96"});
  with("\"tokens\": 496", "\"tokens\": \"many\"");
  expect_refused_before_any_work(without_text("out"), {"\"tokens\""});
  with("\"calibration\"", "\"kalibration\"");
  expect_refused_before_any_work(without_text("out"), {"\"calibration\""});
  with("{", "");
  expect_refused_before_any_work(without_text("out"), {"statistics.json"});
}

TEST_F(Saved, ContradictoryRequestsAreRefused) {
  CompressRequest measured = without_text("out");
  measured.allocate = Allocate::kMeasured;
  expect_refused_before_any_work(measured,
                                 {"allocate measured needs calibration or self_generated"});
  CompressRequest same = keeping("out");
  same.statistics = path("out");
  expect_refused_before_any_work(same, {"different folders"});
  CompressRequest svd = request("out", Method::kSvd);
  svd.statistics = path("statistics");
  expect_refused_before_any_work(svd, {"method svd", "statistics has no use"});
}

// The factors of single matrices depend on the statistics alone. They are the same with the text of
// the folder and without it.
TEST_F(Saved, FormUvUsesTheSavedStatistics) {
  const auto factorized = [&](const std::string& out) {
    CompressRequest wanted = request(out);
    wanted.statistics = path("statistics");
    return wanted;
  };
  const CompressSummary plain = run_well(request("plain"));
  const CompressSummary made = run_well(factorized("made"));
  count_attentions();
  run_well(factorized("again"));
  CompressRequest without_text = factorized("without text");
  without_text.calibration.reset();
  const CompressSummary read = run_well(without_text);
  EXPECT_EQ(attentions_, 0);
  EXPECT_EQ(bytes("made"), bytes("again"));
  EXPECT_EQ(bytes("made"), bytes("without text"));
  EXPECT_EQ(read.calibration_tokens, made.calibration_tokens);
  // A pass without a folder uses outputs of down in fp32.
  ASSERT_EQ(plain.matrices.size(), made.matrices.size());
  for (size_t i = 0; i < plain.matrices.size(); ++i) {
    EXPECT_NEAR(made.matrices[i].energy_lost, plain.matrices[i].energy_lost, 2 * kInner * 0x1p-24);
  }
  // The folder of statistics also serves the forms that narrow whole MLPs.
  count_attentions();
  run_well(keeping("mixed"));
  run_well(shaped("gathered"));
  EXPECT_EQ(attentions_, kPasses);  // the calls of "gathered"
  EXPECT_EQ(bytes("mixed"), bytes("gathered"));
}

TEST_F(Saved, GramMatricesFollowFromSavedStatistics) {
  const auto checkpoint = io::Checkpoint::open(input_.path());
  const auto tokenizer = text::Tokenizer::load(input_.path());
  ASSERT_TRUE(checkpoint.ok() && tokenizer.ok());
  const auto text = calibration_sequences(*tokenizer, {{"text", text_}}, 600, config_);
  ASSERT_TRUE(text.ok());
  for (const char* folder : {"statistics", "grams"}) fs::create_directories(path(folder));
  const CompressionInputs inputs = {*checkpoint, config_, backend_, &*text, silent_};
  ASSERT_TRUE(gather_statistics(inputs, path("statistics"), Gathered::kMlps).ok());
  const auto gathered = gather_layer_grams(inputs, path("grams"));
  ASSERT_TRUE(gathered.ok());
  const GramSource derived = layer_grams_of_statistics(path("statistics"), *checkpoint, config_);
  const auto tokens = static_cast<double>(text->origin.tokens);
  for (int64_t layer = 0; layer < kLayers; ++layer) {
    const auto expected = (*gathered)(layer), found = derived(layer);
    ASSERT_TRUE(expected.ok() && found.ok());
    for (int64_t j = 0; j < kHidden; ++j) {
      for (int64_t i = 0; i < kHidden; ++i) {
        const double in = expected->in(i, j) / tokens, out = expected->out(i, j) / tokens;
        // An input of an MLP follows a sum of kHidden products in fp32, the output of attention.
        const double input_magnitude = std::sqrt(expected->in(i, i) * expected->in(j, j)) / tokens;
        EXPECT_NEAR(found->in(i, j), in, 2 * kHidden * 0x1p-24 * input_magnitude);
        // An output of down is a sum of kInner products in fp32.
        const double magnitude = std::sqrt(expected->out(i, i) * expected->out(j, j)) / tokens;
        EXPECT_NEAR(found->out(i, j), out, 2 * kInner * 0x1p-24 * magnitude);
      }
    }
  }
}

}  // namespace
}  // namespace neuronmm::compress
