// Tests training through rounding: folders with weights of 8, 6 and 4 bits.

#include <cmath>
#include <string>
#include <utility>

#include "compress/output/model_card.h"
#include "cpu/backend.h"
#include "finetune_fixture.h"
#include "io/safetensors_writer.h"
#include "model/generate.h"

namespace neuronmm::finetune {
namespace {

// Returns the divergence of row i of the logits q from that of p, in nats.
double divergence_of(const Matrix& p, const Matrix& q, int64_t i) {
  const auto log_sum = [i](const Matrix& logits) {
    double sum = 0.0;
    for (int64_t j = 0; j < logits.columns(); ++j) {
      sum += std::exp(static_cast<double>(logits.row(i)[j]));
    }
    return std::log(sum);
  };
  const double p_sum = log_sum(p), q_sum = log_sum(q);
  double divergence = 0.0;
  for (int64_t j = 0; j < p.columns(); ++j) {
    const double log_p = static_cast<double>(p.row(i)[j]) - p_sum;
    const double log_q = static_cast<double>(q.row(i)[j]) - q_sum;
    divergence += std::exp(log_p) * (log_p - log_q);
  }
  return divergence;
}

const compress::WeightFormats kLowBitFormats[] = {
    compress::quantized_formats(8), compress::quantized_formats(6), compress::quantized_formats(4),
    compress::quantized_formats(4, 32, 4)};

class FinetuneRounded : public Finetune {
 protected:
  FinetuneRequest rounded_request(const std::string& out,
                                  const compress::WeightFormats& weights) const {
    FinetuneRequest wanted = request(out);
    wanted.weights = weights;
    wanted.force = true;
    wanted.teacher = dense_.path();
    wanted.validation = input_.path() / "other.txt";
    return wanted;
  }
  static io::ModelConfig config_of(const fs::path& folder) {
    return io::ModelConfig::load(folder / "config.json").value();
  }
  // Returns the mean divergence from the teacher on the validation text, by inference.
  double inferred_divergence(const fs::path& folder, const ops::Backend& backend,
                             const FinetuneRequest& request) const {
    const auto student = model::Transformer::load(folder, backend);
    const auto teacher = model::Transformer::load(request.teacher, *backend_);
    double sum = 0.0, tokens = 0.0;
    for (const Example& example : validation_examples(request)) {
      const Matrix p = model::all_logits(*teacher, example.tokens);
      const Matrix q = model::all_logits(*student, example.tokens);
      for (int64_t i = 0; i + 1 < p.rows(); ++i, ++tokens) sum += divergence_of(p, q, i);
    }
    return sum / tokens;
  }
};

// The folder must have the best loss that training measured, and training's forward pass must be
// that of the CPU's kernels: an inference of the folder measures the same divergence. A sum in
// another order differs by 1e-6 of the largest value, and rounding steps are 1/127 of it, so that a
// value crosses a boundary in about one of 4000 cases. That changes a divergence by about a
// thousandth.
TEST_F(FinetuneRounded, TheFolderComputesWhatWasTrained) {
  const auto cpu = cpu::make_backend();
  // Each format with factors, and each other form in one format.
  const std::pair<compress::WeightFormats, std::string> cases[] = {
      {kLowBitFormats[0], ""},        {kLowBitFormats[1], ""},       {kLowBitFormats[2], ""},
      {kLowBitFormats[3], ""},        {kLowBitFormats[2], "mixed"},  {kLowBitFormats[0], "narrow"},
      {kLowBitFormats[1], "pivoted"}, {kLowBitFormats[3], "neurons"}};
  for (const auto& [weights, form] : cases) {
    SCOPED_TRACE(fmt::format("{} {}", compress::weights_text(weights), form));
    if (form.empty()) {
      write_model(input_, config_, factored_tensors(config_, 3));
    } else {
      write_model(input_, config_, compressed_model(config_, form, 3));
    }
    const FinetuneRequest wanted = rounded_request("out", weights);
    const FinetuneSummary summary = run_or_throw(wanted);
    const Measurement best = best_of(summary.position.measurements);
    EXPECT_LT(best.held_out, summary.position.measurements.front().held_out);
    EXPECT_EQ(config_of(path("out")).quantization,
              compress::quantization_of(weights, config_of(input_.path())));
    EXPECT_NEAR(validation_loss(path("out"), wanted), best.held_out, 1e-5 * best.held_out);
    EXPECT_NEAR(inferred_divergence(path("out"), *cpu, wanted), best.held_out,
                0.01 * best.held_out);
    // The reference backend rounds no activations, which shows.
    EXPECT_GT(std::abs(inferred_divergence(path("out"), *backend_, wanted) - best.held_out),
              1e-6 * best.held_out);
  }
}

// Tensors that are not trained must stay byte for byte. So must the grids of trained tensors with 6
// and 4 bits.
TEST_F(FinetuneRounded, AFolderOfFewBitsKeepsItsFormats) {
  for (const compress::WeightFormats& weights : kLowBitFormats) {
    SCOPED_TRACE(compress::weights_text(weights));
    run_or_throw(rounded_request("out", weights));
    FinetuneRequest again =
        rounded_request("again", std::nullopt);  // nullopt: the formats of the folder
    again.model = path("out");
    run_or_throw(again);
    EXPECT_EQ(config_of(path("again")).quantization, config_of(path("out")).quantization);
    const auto before = io::Checkpoint::open(path("out")),
               after = io::Checkpoint::open(path("again"));
    ASSERT_TRUE(before.ok() && after.ok());
    ASSERT_EQ(before->tensors().size(), after->tensors().size());
    int changed = 0;
    for (const auto& [name, tensor] : before->tensors()) {
      const TensorView& other = after->tensors().at(name);
      ASSERT_EQ(other.shape, tensor.shape);
      ASSERT_EQ(other.dtype, tensor.dtype);
      const bool same = std::equal(tensor.data, tensor.data + tensor.size_bytes(), other.data);
      const bool of_grid = weights->linear.bits < 8 && !name.ends_with("weight");
      EXPECT_TRUE(same || (name.starts_with("model.layers.") && !of_grid)) << name;
      changed += same ? 0 : 1;
    }
    EXPECT_GT(changed, 0);
  }
}

// Texts that decided on the rounding must stay on record, and tensors that training did not improve
// must stay unchanged.
TEST_F(FinetuneRounded, AFolderThatTrainingDoesNotImproveStaysAsItIs) {
  run_or_throw(rounded_request("out", kLowBitFormats[2]));
  std::string text;
  {
    std::ifstream stream(path("out") / "config.json");
    text = {std::istreambuf_iterator<char>(stream), {}};
  }
  io::Quantization quantization = *config_of(path("out")).quantization;
  quantization.calibration = {{"text.txt", "0123456789abcdef", 100, 20}};
  std::ofstream(path("out") / "config.json")
      << io::with_quantization(text, "config.json", quantization).value();
  FinetuneRequest again = rounded_request("again", kLowBitFormats[2]);
  again.model = path("out");
  again.recipe.learning_rate = 1e-9;
  run_or_throw(again);
  EXPECT_EQ(config_of(path("again")).quantization, quantization);
  const auto before = io::Checkpoint::open(path("out")),
             after = io::Checkpoint::open(path("again"));
  ASSERT_TRUE(before.ok() && after.ok());
  ASSERT_EQ(before->tensors().size(), after->tensors().size());
  for (const auto& [name, tensor] : before->tensors()) {
    EXPECT_TRUE(
        std::equal(tensor.data, tensor.data + tensor.size_bytes(), after->tensors().at(name).data))
        << name;
  }
}

TEST_F(FinetuneRounded, ResumedRunsGiveTheSameBytes) {
  for (const compress::WeightFormats& weights : {kLowBitFormats[1], kLowBitFormats[2]}) {
    SCOPED_TRACE(compress::weights_text(weights));
    run_or_throw(rounded_request("whole", weights));
    int64_t steps = 0;
    const auto stopped = run(rounded_request("parts", weights),
                             [&](const StepReport&) { set_interrupted(++steps == 3); });
    ASSERT_FALSE(stopped.ok());
    EXPECT_EQ(stopped.error().kind, Error::Kind::kInterrupted);
    set_interrupted(false);
    FinetuneRequest rest = rounded_request("parts", weights);
    rest.force = false;
    rest.resume = true;
    run_or_throw(rest);
    EXPECT_EQ(bytes("parts"), bytes("whole"));
    fs::remove_all(path("parts"));
  }
}

TEST_F(FinetuneRounded, RefusesAdaptersAndOtherBits) {
  for (const compress::WeightFormats& weights : kLowBitFormats) {
    FinetuneRequest wanted = rounded_request("out", weights);
    wanted.recipe.lora_rank = 2;
    expect_refused(wanted, {"float weights", "--lora"});
  }
  run_or_throw(rounded_request("out", kLowBitFormats[2]));
  FinetuneRequest other = rounded_request("again", kLowBitFormats[0]);
  other.model = path("out");
  expect_refused(other, {"4 bits in groups of 16", "int8", "original"});
  EXPECT_FALSE(fs::exists(path("again")));
}

TEST_F(Finetune, RefusesRoundedTensorsThatConfigDoesNotNameRounded) {
  const model::TestTensors tensors = factored_tensors(config_, 3);
  std::vector<io::TensorSpec> specs;
  for (const auto& [name, tensor] : tensors) specs.push_back({name, tensor.dtype, tensor.shape});
  specs.push_back({"model.layers.1.quantized", DType::kI8, {3}});
  auto writer = io::SafetensorsWriter::create(input_.path() / "model.safetensors", specs);
  ASSERT_TRUE(writer.ok());
  for (const auto& [name, tensor] : tensors)
    ASSERT_TRUE(writer->append(std::as_bytes(std::span(tensor.values))).ok());
  ASSERT_TRUE(writer->append(std::vector<std::byte>(3)).ok());
  ASSERT_TRUE(writer->finish().ok());
  expect_refused(request("out"), {"int8", "model.layers.1.quantized"});
}

}  // namespace
}  // namespace neuronmm::finetune
