// Tests the training of whole models: invariants of gradients, replay, and that models learn.

#include <cmath>
#include <cstring>
#include <limits>

#include <gtest/gtest.h>

#include "base/float16.h"
#include "base/parallel.h"
#include "drawn_model.h"
#include "training/model_training.h"
#include "training/optimizer.h"

namespace neuronmm::training {
namespace {

using io::ModelConfig;

constexpr int64_t kKeepAll = int64_t{1} << 40;
bool everything(std::string_view) { return true; }

template <typename T>
Parameter<T>& find(Model<T>& model, const std::string& name) {
  Parameter<T>* found = nullptr;
  model.for_each_parameter([&](Parameter<T>& parameter) {
    if (parameter.name == name) found = &parameter;
  });
  if (found == nullptr) throw std::runtime_error(name);
  return *found;
}

template <typename T>
std::vector<T> all_gradients(Model<T>& model) {
  std::vector<T> all;
  for (const Parameter<T>* const parameter : trained_parameters<T>(model)) {
    all.insert(all.end(), parameter->gradient.data(),
               parameter->gradient.data() + parameter->size());
  }
  return all;
}

// Returns Σ_j value · gradient over row i, or over column i.
double row_product(const Parameter<double>& of, int64_t i) {
  double sum = 0.0;
  for (int64_t j = 0; j < of.columns; ++j) sum += of.value.row(i)[j] * of.gradient.row(i)[j];
  return sum;
}
double column_product(const Parameter<double>& of, int64_t j) {
  double sum = 0.0;
  for (int64_t i = 0; i < of.rows; ++i) sum += of.value.row(i)[j] * of.gradient.row(i)[j];
  return sum;
}

// A dense model with its gradients in fp64.
struct Trained {
  ModelConfig config = drawn_config("llama");
  std::unique_ptr<Model<double>> model = open_drawn_model<double>(config, drawn_tensors(config));
  TrainingBatch batch = {drawn_sequences({8, 5}, config.vocab_size)};

  Trained() {
    model->train(everything);
    ModelTraining<double>(*model, nullptr, kKeepAll).accumulate(batch, 1.0);
  }
  Parameter<double>& operator[](const std::string& name) {
    return find(*model, "model.layers.1." + name);
  }
};

TEST(Training, ScalesThatCancelHaveEqualGradients) {
  Trained of;
  for (int64_t j = 0; j < of.config.intermediate_size; ++j) {
    EXPECT_NEAR(row_product(of["mlp.up_proj.weight"], j),
                column_product(of["mlp.down_proj.weight"], j), 1e-12);
  }
  for (int64_t i = 0; i < of.config.hidden_size; ++i) {
    double readers = 0.0;
    for (const char* const letter : {"q", "k", "v"}) {
      readers += column_product(of[std::string("self_attn.") + letter + "_proj.weight"], i);
    }
    const Parameter<double>& gain = of["input_layernorm.weight"];
    EXPECT_NEAR(gain.value.data()[i] * gain.gradient.data()[i], readers, 1e-12);
  }
  const int64_t dim = of.config.head_dim;
  for (int64_t i = 0; i < of.config.num_key_value_heads * dim; ++i) {
    double outputs = 0.0;  // of the two query heads that share the key-value head
    for (int64_t h = 0; h < 2; ++h) {
      outputs += column_product(of["self_attn.o_proj.weight"], (i / dim * 2 + h) * dim + i % dim);
    }
    EXPECT_NEAR(row_product(of["self_attn.v_proj.weight"], i), outputs, 1e-12);
  }
}

TEST(Training, MicroBatchesAddUpToTheBatch) {
  Trained of;
  const std::vector<double> whole = all_gradients(*of.model);
  Optimizer<double> optimizer(trained_parameters<double>(*of.model), {});
  optimizer.clear_gradients();
  ModelTraining<double> training(*of.model, nullptr, kKeepAll);
  for (const TokenSequence& sequence : of.batch.sequences) training.accumulate({{sequence}}, 1.0);
  const std::vector<double> parts = all_gradients(*of.model);
  for (size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(parts[i], whole[i], 1e-12);
}

TEST(Training, ASmallStepAgainstTheGradientLowersTheLossByItsSquare) {
  Trained of;
  ModelTraining<double> training(*of.model, nullptr, kKeepAll);
  const double before = training.loss(of.batch);
  constexpr double kStep = 1e-7;
  double squares = 0.0;
  for (Parameter<double>* const parameter : trained_parameters<double>(*of.model)) {
    for (int64_t i = 0; i < parameter->size(); ++i) {
      const double g = parameter->gradient.data()[i];
      parameter->value.data()[i] -= kStep * g;
      squares += g * g;
    }
    parameter->changed();
  }
  EXPECT_NEAR(before - training.loss(of.batch), kStep * squares, 1e-3 * kStep * squares);
}

TEST(Training, ATiedTableGetsTheSumOfBothGradients) {
  ModelConfig config = drawn_config("llama");
  auto tensors = drawn_tensors(config);
  tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"];
  const TrainingBatch batch = {drawn_sequences({8}, config.vocab_size)};
  const auto untied = open_drawn_model<double>(config, drawn_tensors(config));
  config.tie_word_embeddings = true;
  const auto tied = open_drawn_model<double>(config, tensors);
  // open() ties equal tables by itself, so the untied model gets its head here.
  Parameter<double>& head = find(*untied, "lm_head.weight");
  Parameter<double>& table = find(*untied, "model.embed_tokens.weight");
  std::copy_n(table.value.data(), table.size(), head.value.data());
  for (Model<double>* const model : {untied.get(), tied.get()}) {
    model->train(everything);
    ModelTraining<double>(*model, nullptr, 0).accumulate(batch, 1.0);
  }
  const Parameter<double>& both = find(*tied, "model.embed_tokens.weight");
  for (int64_t i = 0; i < both.size(); ++i) {
    EXPECT_NEAR(both.gradient.data()[i], head.gradient.data()[i] + table.gradient.data()[i], 1e-12);
  }
}

TEST(Training, NeuronsOfZerosKeepGradientsOfZero) {
  const ModelConfig config = drawn_config("llama");
  auto tensors = drawn_tensors(config);
  const int64_t inner = config.intermediate_size, hidden = config.hidden_size;
  const std::string mlp = "model.layers.0.mlp.";
  for (int64_t i = 0; i < hidden; ++i) {
    const auto last = static_cast<size_t>((inner - 1) * hidden + i);
    tensors[mlp + "gate_proj.weight"].values[last] = 0.0f;
    tensors[mlp + "up_proj.weight"].values[last] = 0.0f;
    tensors[mlp + "down_proj.weight"].values[static_cast<size_t>(i * inner + inner - 1)] = 0.0f;
  }
  const auto model = open_drawn_model<float>(config, tensors);
  model->train(everything);
  ModelTraining<float>(*model, nullptr, 0)
      .accumulate({drawn_sequences({8}, config.vocab_size)}, 1.0);
  for (int64_t i = 0; i < hidden; ++i) {
    EXPECT_EQ(find(*model, mlp + "gate_proj.weight").gradient.row(inner - 1)[i], 0.0f);
    EXPECT_EQ(find(*model, mlp + "up_proj.weight").gradient.row(inner - 1)[i], 0.0f);
    EXPECT_EQ(find(*model, mlp + "down_proj.weight").gradient.row(i)[inner - 1], 0.0f);
  }
}

// Trains for some steps and returns all values.
std::vector<float> trained_values(const std::string& name, Precision precision, int threads,
                                  int64_t activation_bytes) {
  const int before = num_threads();
  set_num_threads(threads);
  const ModelConfig config = drawn_config(name);
  const auto model = open_drawn_model<float>(config, drawn_tensors(config), precision);
  const auto teacher =
      open_drawn_model<float>(config, drawn_tensors(config, "teacher."), precision);
  teacher->freeze();
  model->train(everything);
  ModelTraining<float> training(*model, teacher.get(), activation_bytes);
  Optimizer<float> optimizer(trained_parameters<float>(*model), {});
  const TrainingBatch batch = {drawn_sequences({40, 17, 60}, config.vocab_size), {1, 5, 60}};
  for (int i = 0; i < 3; ++i) {
    optimizer.clear_gradients();
    training.accumulate(batch, 1.0 / static_cast<double>(batch.scored_tokens()));
    EXPECT_TRUE(optimizer.update(0.01));
  }
  std::vector<float> values;
  for (const Parameter<float>* const parameter : trained_parameters<float>(*model)) {
    values.insert(values.end(), parameter->value.data(),
                  parameter->value.data() + parameter->size());
  }
  set_num_threads(before);
  return values;
}

TEST(Training, ThreadsAndRecomputingChangeNoBit) {
  for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
    const auto expected = trained_values("gemma2", precision, 1, 0);
    EXPECT_EQ(trained_values("gemma2", precision, 3, 0), expected);
    EXPECT_EQ(trained_values("gemma2", precision, 2, kKeepAll), expected);
  }
  for (const std::string name : {"mixed", "olmoe", "gpt_oss"}) {
    EXPECT_EQ(trained_values(name, Precision::kBf16, 3, 0),
              trained_values(name, Precision::kBf16, 1, kKeepAll))
        << name;
  }
}

// Returns the norms of the differences between the gradients of two models, tensor by tensor.
template <typename T>
std::vector<double> distances(Model<double>& a, Model<T>& b) {
  const auto of_a = trained_parameters<double>(a);
  const auto of_b = trained_parameters<T>(b);
  std::vector<double> distances;
  for (size_t i = 0; i < of_a.size(); ++i) {
    double squares = 0.0;
    for (int64_t j = 0; j < of_a[i]->size(); ++j) {
      const double difference =
          of_a[i]->gradient.data()[j] - static_cast<double>(of_b[i]->gradient.data()[j]);
      squares += difference * difference;
    }
    distances.push_back(std::sqrt(squares));
  }
  return distances;
}

// Rounding the weights alone shows what one rounding of one factor does to the gradients. In bf16
// both factors of all three products are rounded, and the variances of these six add up. Twice
// their deviation is allowed.
TEST(Training, GradientsInBf16AreOffByTheSummedVarianceOfTheirRoundings) {
  const ModelConfig config = drawn_config("qwen3");
  auto tensors = drawn_tensors(config);
  const TrainingBatch batch = {drawn_sequences({40, 60}, config.vocab_size)};
  const auto exact = open_drawn_model<double>(config, tensors);
  const auto in_bf16 = open_drawn_model<float>(config, tensors, Precision::kBf16);
  for (auto& [name, tensor] : tensors) {
    if (tensor.shape.size() == 1) continue;
    for (float& value : tensor.values) value = bf16::from_float(value).to_float();
  }
  const auto rounded = open_drawn_model<double>(config, tensors);
  exact->train(everything);
  in_bf16->train(everything);
  rounded->train(everything);
  const double loss = ModelTraining<double>(*exact, nullptr, 0).accumulate(batch, 1.0);
  ModelTraining<double>(*rounded, nullptr, 0).accumulate(batch, 1.0);
  EXPECT_NEAR(ModelTraining<float>(*in_bf16, nullptr, 0).accumulate(batch, 1.0), loss, 0.01 * loss);
  const std::vector<double> one = distances(*exact, *rounded), all = distances(*exact, *in_bf16);
  const auto parameters = trained_parameters<double>(*exact);
  for (size_t i = 0; i < one.size(); ++i) {
    EXPECT_LT(all[i], 2.0 * std::sqrt(6.0) * one[i]) << parameters[i]->name;
    EXPECT_GT(all[i], 0.0) << parameters[i]->name;
  }
}

TEST(Training, AModelLearns64TokensByHeart) {
  const ModelConfig config = drawn_config("llama");
  const auto model = open_drawn_model<float>(config, drawn_tensors(config), fastest_precision());
  model->train(everything);
  ModelTraining<float> training(*model, nullptr, kKeepAll);
  Optimizer<float> optimizer(trained_parameters<float>(*model), {});
  const TrainingBatch batch = {drawn_sequences({32, 32}, config.vocab_size)};
  const auto tokens = static_cast<double>(batch.scored_tokens());
  EXPECT_GT(training.loss(batch) / tokens, 1.5);
  for (int i = 0; i < 300; ++i) {
    optimizer.clear_gradients();
    training.accumulate(batch, 1.0 / tokens);
    optimizer.update(0.02 * (1.0 - i / 300.0));
  }
  EXPECT_LT(training.loss(batch) / tokens, 0.05);
}

TEST(Training, KeptStatesOfTheTeacherChangeNoBit) {
  const ModelConfig config = drawn_config("llama");
  const auto student = open_drawn_model<float>(config, drawn_tensors(config));
  const auto teacher = open_drawn_model<float>(config, drawn_tensors(config, "teacher."));
  ModelTraining<float> training(*student, teacher.get(), 0);
  const TrainingBatch batch = {drawn_sequences({9, 12}, config.vocab_size), {3, 1}};
  const Rows<float> states = training.teacher_states(batch);
  EXPECT_EQ(states.rows(), 17);
  EXPECT_EQ(training.loss(batch, &states), training.loss(batch));
}

TEST(Training, AStudentBecomesItsTeacher) {
  const ModelConfig config = drawn_config("llama");
  auto tensors = drawn_tensors(config);
  const auto teacher = open_drawn_model<float>(config, tensors);
  for (auto& [name, tensor] : tensors) {
    for (size_t i = 0; i < tensor.values.size(); ++i) {
      tensor.values[i] +=
          0.05f * static_cast<float>(drawn("change" + name, static_cast<int64_t>(i)));
    }
  }
  const auto student = open_drawn_model<float>(config, tensors);
  student->train(everything);
  teacher->freeze();
  ModelTraining<float> training(*student, teacher.get(), kKeepAll);
  Optimizer<float> optimizer(trained_parameters<float>(*student), {});
  const TrainingBatch batch = {drawn_sequences({32, 32}, config.vocab_size)};
  const auto tokens = static_cast<double>(batch.scored_tokens());
  EXPECT_GT(training.loss(batch) / tokens, 1e-3);
  for (int i = 0; i < 300; ++i) {
    optimizer.clear_gradients();
    training.accumulate(batch, 1.0 / tokens);
    optimizer.update(0.003 * (1.0 - i / 300.0));
  }
  EXPECT_LT(training.loss(batch) / tokens, 1e-4);
}

// A run that is saved after three steps and goes on elsewhere has the bits of the undisturbed one.
TEST(Training, AResumedOptimizerHasTheSameBits) {
  Parameter<float> one, other;
  for (Parameter<float>* const parameter : {&one, &other}) {
    parameter->set("w", drawn_rows<float>("w", 3, 5));
    parameter->train();
  }
  const auto step = [](Optimizer<float>& optimizer, Parameter<float>& of, int number) {
    for (int64_t i = 0; i < of.size(); ++i) {
      of.gradient.data()[i] = static_cast<float>(drawn("g" + std::to_string(number), i));
    }
    EXPECT_TRUE(optimizer.update(0.1));
  };
  Optimizer<float> first({&one}, {.weight_decay = 0.1});
  for (int i = 0; i < 3; ++i) step(first, one, i);
  Optimizer<float> second({&other}, {.weight_decay = 0.1});
  const auto from = first.state(), to = second.state();
  ASSERT_EQ(from.size(), 3u);
  for (size_t i = 0; i < from.size(); ++i) {
    EXPECT_EQ(from[i].name, to[i].name);
    std::copy_n(from[i].values.data, 15, to[i].values.data);
  }
  second.state_written();
  second.set_steps(first.steps());
  for (int i = 3; i < 6; ++i) {
    step(first, one, i);
    step(second, other, i);
  }
  EXPECT_EQ(std::memcmp(one.value.data(), other.value.data(), 15 * sizeof(float)), 0);
}

// One step of AdamW by its definition.
TEST(Training, AdamWFollowsItsDefinition) {
  Parameter<double> w;
  w.set("w", drawn_rows<double>("w", 2, 3));
  w.train();
  const Rows<double> before = copy_of<double>(w.value.view());
  Optimizer<double> optimizer({&w}, {.weight_decay = 0.5, .largest_norm = 1.0});
  for (int64_t i = 0; i < 6; ++i) w.gradient.data()[i] = i == 2 ? -4.0 : 3.0;
  const double norm = std::sqrt(16.0 + 5 * 9.0);
  EXPECT_DOUBLE_EQ(optimizer.gradient_norm(), norm);
  EXPECT_TRUE(optimizer.update(0.1));
  for (int64_t i = 0; i < 6; ++i) {
    const double g = w.gradient.data()[i] / norm;  // the corrected moments are g and g²
    const double expected = before.data()[i] * (1.0 - 0.05) - 0.1 * g / (std::abs(g) + 1e-8);
    EXPECT_NEAR(w.value.data()[i], expected, 1e-12);
  }
}

TEST(Training, AGradientThatIsNotFiniteChangesNothing) {
  Parameter<float> w;
  w.set("w", drawn_rows<float>("w", 2, 3));
  w.train();
  Optimizer<float> optimizer({&w}, {});
  w.gradient.data()[4] = std::numeric_limits<float>::quiet_NaN();
  const Rows<float> before = copy_of<float>(w.value.view());
  EXPECT_FALSE(optimizer.update(0.1));
  EXPECT_EQ(optimizer.steps(), 0);
  EXPECT_TRUE(std::equal(before.data(), before.data() + 6, w.value.data()));
}

}  // namespace
}  // namespace neuronmm::training
