#include "compress/factors/down_fit.h"

#include <cmath>

#include "compress/compress_test.h"
#include "compress/sizes/predicted_loss.h"
#include "compress/statistics/mlp_metric.h"
#include "io/checkpoint.h"
#include "model/naive_transformer.h"

namespace neuronmm::compress {
namespace {

class DownFits : public CompressTest {
 protected:
  CompressRequest shaped(const std::string& out, Form form) const {
    CompressRequest shaped = request(out);
    shaped.form = form;
    shaped.allocate = Allocate::kPredicted;
    shaped.rule = {0.5, 4};
    shaped.calibration->max_tokens = 400;
    return shaped;
  }
};

// Computes one layer's narrowed MLP on rows of its input, in fp64, with its weights as they are
// stored.
class NarrowRows {
 public:
  NarrowRows(const NarrowMlp& mlp, const StoredFormat& stored) {
    for (MlpTensor tensor : mlp.tensors) {
      const bool map = tensor.name.ends_with("_pivot_proj.weight");
      if (tensor.numbers.empty()) round_to(map ? map_format(stored) : stored, tensor.values);
      tensors_[tensor.name] = std::move(tensor);
    }
  }

  std::vector<double> operator()(const std::vector<double>& x) const {
    const bool shared = tensors_.contains("input_pivots");
    const std::vector<double> t = shared ? gathered("input", x) : x;
    std::vector<double> h =
        times("gate", tensors_.contains("gate_pivots") ? gathered("gate", t) : t);
    const std::vector<double> u =
        times("up", tensors_.contains("up_pivots") ? gathered("up", t) : t);
    for (size_t j = 0; j < h.size(); ++j) h[j] *= u[j] / (1.0 + std::exp(-h[j]));
    const std::vector<double> y = times("down", h);
    return tensors_.contains("down_pivots") ? spread(y) : y;
  }

 private:
  std::vector<double> times(const std::string& which, const std::vector<double>& x) const {
    const DoubleMatrix& w_t = tensors_.at(which + "_proj.weight").values;
    std::vector<double> y(static_cast<size_t>(w_t.rows()));
    for (int64_t j = 0; j < w_t.columns(); ++j) {
      for (int64_t i = 0; i < w_t.rows(); ++i) {
        y[static_cast<size_t>(i)] += w_t(i, j) * x[static_cast<size_t>(j)];
      }
    }
    return y;
  }
  std::vector<int32_t> others(const std::string& which, int64_t count) const {
    const auto& index = tensors_.at(which + "_pivots").numbers;
    std::vector<int32_t> out;
    for (int32_t i = 0; i < count; ++i) {
      if (std::ranges::find(index, i) == index.end()) out.push_back(i);
    }
    return out;
  }
  // Returns x[index] + d·x[others].
  std::vector<double> gathered(const std::string& which, const std::vector<double>& x) const {
    const DoubleMatrix& d = tensors_.at(which + "_pivot_proj.weight").values;
    const auto& index = tensors_.at(which + "_pivots").numbers;
    const std::vector<int32_t> rest = others(which, std::ssize(x));
    std::vector<double> t;
    for (size_t i = 0; i < index.size(); ++i) {
      t.push_back(x[static_cast<size_t>(index[i])]);
      for (size_t j = 0; j < rest.size(); ++j) {
        t[i] +=
            d(static_cast<int64_t>(i), static_cast<int64_t>(j)) * x[static_cast<size_t>(rest[j])];
      }
    }
    return t;
  }
  // Returns the y with y[index] = z and y[others] = c·z.
  std::vector<double> spread(const std::vector<double>& z) const {
    const DoubleMatrix& c = tensors_.at("down_pivot_proj.weight").values;
    const auto& index = tensors_.at("down_pivots").numbers;
    std::vector<double> y(static_cast<size_t>(kHidden));
    for (size_t i = 0; i < z.size(); ++i) y[static_cast<size_t>(index[i])] = z[i];
    const std::vector<int32_t> rest = others("down", kHidden);
    for (size_t i = 0; i < rest.size(); ++i) {
      for (size_t j = 0; j < z.size(); ++j) {
        y[static_cast<size_t>(rest[i])] +=
            c(static_cast<int64_t>(i), static_cast<int64_t>(j)) * z[j];
      }
    }
    return y;
  }

  std::map<std::string, MlpTensor> tensors_;
};

// Compares down fitted to the neurons of the narrowed gate and up with down from the dense model's
// statistics. The text for the comparison was used for neither.
TEST_F(DownFits, AFittedDownIsBetterOnUnseenText) {
  const auto checkpoint = io::Checkpoint::open(input_.path());
  const auto tokenizer = text::Tokenizer::load(input_.path());
  ASSERT_TRUE(checkpoint.ok() && tokenizer.ok());
  const auto text =
      calibration_sequences(*tokenizer, {{"text", random_text(4000, 5)}}, 4000, config_);
  ASSERT_TRUE(text.ok());
  fs::create_directories(path("statistics"));
  ASSERT_TRUE(gather_statistics({*checkpoint, config_, backend_, &*text, silent_},
                                path("statistics"), Gathered::kMlps)
                  .ok());
  const auto unseen = tokenizer->encode(random_text(60, 6));
  ASSERT_TRUE(unseen.ok());
  const auto layers = model::naive_mlp_rows(config_, tensors_, *unseen);

  for (const WeightFormats& asked : {kOriginal, kInt8, kInt4}) {
    for (const io::MlpShape& shape :
         {io::MlpShape{.input = 20}, io::MlpShape{.down = 24, .input = 20, .neurons = 48},
          io::MlpShape{.gate = 16, .up = 24}, io::MlpShape{.down = 20, .neurons = 40}}) {
      SCOPED_TRACE(fmt::format("gate {} up {} down {} input {} neurons {} {}", shape.gate, shape.up,
                               shape.down, shape.input, shape.neurons, weights_text(asked)));
      const CompressionInputs inputs = {*checkpoint, config_, backend_, &*text, silent_};
      std::vector<NarrowMlp> fitted, unfitted;
      const StoredFormat stored = stored_format(asked, DType::kF32);
      std::vector<int32_t> order;
      DownFit fit{
          .shapes = std::vector<io::MlpShape>(kLayers, shape),
          .weights = asked,
          .read = [&](int64_t layer) -> Result<MlpData> {
            MlpData data;
            NMM_ASSIGN(const auto weights, model::layer_weights(*checkpoint, config_, layer));
            NMM_ASSIGN(data.mlp, DenseMlp::read(weights.mlp));
            NMM_ASSIGN(data.statistics, read_statistics(path("statistics"), layer, config_));
            data.metric = local_metric(data.statistics, data.mlp.down_t);
            NMM_ASSIGN(const auto losses, predict_losses(data.mlp, data.statistics, data.metric));
            order = losses.order;
            NMM_ASSIGN(auto mlp,
                       narrow_mlp(data.mlp, data.statistics, data.metric, order, shape, stored));
            unfitted.push_back(std::move(mlp));
            return data;
          },
          .order = [&](int64_t) { return Result(order); },
          .save = [&](int64_t, const NarrowMlp& mlp) -> Status {
            fitted.push_back(mlp);
            return {};
          },
          .is_saved = [&](int64_t layer) { return layer < std::ssize(fitted); }};
      fs::create_directories(path("work"));
      const Status done = fit_downs(inputs, fit, path("work"));
      ASSERT_TRUE(done.ok()) << done.error().message;
      ASSERT_EQ(fitted.size(), static_cast<size_t>(kLayers));
      fs::remove_all(path("work"));

      for (size_t layer = 0; layer < fitted.size(); ++layer) {
        const NarrowRows with(fitted[layer], stored), without(unfitted[layer], stored);
        const auto weights = model::layer_weights(*checkpoint, config_, int64_t(layer));
        const auto dense = DenseMlp::read(weights->mlp);
        const NarrowRows whole({{{"gate_proj.weight", dense->gate_t, {}},
                                 {"up_proj.weight", dense->up_t, {}},
                                 {"down_proj.weight", dense->down_t, {}}},
                                0.0},
                               DType::kF64);
        double error_with = 0.0, error_without = 0.0;
        for (const auto& x : layers[layer].input) {
          const auto y = whole(x), a = with(x), b = without(x);
          for (size_t i = 0; i < y.size(); ++i) {
            error_with += (y[i] - a[i]) * (y[i] - a[i]);
            error_without += (y[i] - b[i]) * (y[i] - b[i]);
          }
        }
        if (shape.input == 0 && shape.gate == 0) {
          // The fit finds the optimum of the statistics, except for the rounding of gate and up and
          // of fp32 neurons.
          const double rounding = asked == kOriginal ? 1e-6 : asked == kInt8 ? 1e-2 : 0.1;
          EXPECT_NEAR(error_with, error_without, rounding * error_without) << layer;
        } else {
          EXPECT_LT(error_with, error_without) << layer;
        }
      }
    }
  }
}

TEST_F(DownFits, InterruptedRunsResumeToTheSameBytes) {
  const struct {
    Form form;
    WeightFormats weights;
  } runs[] = {{Form::kNarrow, kOriginal},
              {Form::kMixed, kInt8},
              {Form::kUv, kInt6},
              {Form::kPivoted, kInt4}};
  for (const auto& [form, weights] : runs) {
    CompressRequest request = shaped("whole", form);
    request.weights = weights;
    int64_t all_calls = 0;
    backend_.on_attention = [&] { ++all_calls; };
    run_well(request);
    request.out = path("parts");
    for (int64_t stop = 1; stop <= all_calls; stop += 11) {
      SCOPED_TRACE(fmt::format("{}, {}, after {} of {} attentions", form_name(form),
                               weights_text(weights), stop, all_calls));
      int64_t calls = 0;
      backend_.on_attention = [&] { set_interrupted(++calls == stop || interrupted()); };
      const auto stopped = run(request);
      ASSERT_FALSE(stopped.ok());
      EXPECT_EQ(stopped.error().kind, Error::Kind::kInterrupted) << stopped.error().message;
      EXPECT_FALSE(fs::exists(path("parts")));
      set_interrupted(false);
      backend_.on_attention = [&] { ++calls; };
      run_well(request);
      EXPECT_EQ(calls, all_calls) << "something was run twice";
      EXPECT_EQ(bytes("parts"), bytes("whole"));
      EXPECT_EQ(bytes("parts", "config.json"), bytes("whole", "config.json"));
      fs::remove_all(path("parts"));
    }
    fs::remove_all(path("whole"));
  }
}

TEST_F(DownFits, AFitThatHasEndedIsNotRunAgain) {
  CompressRequest request = shaped("whole", Form::kNarrow);
  run_well(request);
  request.out = path("parts");
  const auto stopped =
      compress(request, backend_, silent_, {}, {}, nullptr,
               [](const CompressSummary&) -> Status { return fail("stopped before the end"); });
  ASSERT_FALSE(stopped.ok());
  ASSERT_TRUE(fs::exists(path("parts.partial"))) << stopped.error().message;
  int64_t calls = 0;
  backend_.on_attention = [&] { ++calls; };
  run_well(request);
  EXPECT_EQ(calls, 0);
  EXPECT_EQ(bytes("parts"), bytes("whole"));
}

// The result is the same if any file of the work folder is damaged or lost.
TEST_F(DownFits, DamagedWorkFilesAreRewritten) {
  CompressRequest request = shaped("whole", Form::kPivoted);
  int64_t all_calls = 0;
  backend_.on_attention = [&] { ++all_calls; };
  run_well(request);
  request.out = path("parts");
  const fs::path work = path("parts.partial") / "work";
  const auto stop_near_the_end = [&] {
    int64_t calls = 0;
    backend_.on_attention = [&] { set_interrupted(++calls == all_calls - 1 || interrupted()); };
    EXPECT_FALSE(run(request).ok());
    set_interrupted(false);
    backend_.on_attention = [] {};
  };
  stop_near_the_end();
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(work)) names.push_back(entry.path().filename());
  EXPECT_GT(names.size(), 8u);  // statistics, losses, narrowed layers, the state
  for (const std::string& name : names) {
    if (!name.ends_with(".safetensors")) continue;
    for (const bool lost : {true, false}) {
      SCOPED_TRACE(fmt::format("{} {}", name, lost ? "lost" : "damaged"));
      fs::remove_all(path("parts.partial"));
      stop_near_the_end();
      ASSERT_TRUE(fs::exists(work / name));
      if (lost) {
        fs::remove(work / name);
      } else {
        std::fstream(work / name, std::ios::in | std::ios::out).seekp(-3, std::ios::end).put('!');
      }
      const auto resumed = run(request);
      EXPECT_TRUE(resumed.ok()) << resumed.error().message;
      EXPECT_EQ(bytes("parts"), bytes("whole"));
      fs::remove_all(path("parts"));
    }
  }
}

}  // namespace
}  // namespace neuronmm::compress
