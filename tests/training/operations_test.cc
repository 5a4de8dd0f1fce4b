// Compares the backward pass of every operation with finite differences.

#include <gtest/gtest.h>

#include "finite_differences.h"
#include "training/attention.h"
#include "training/elementwise.h"
#include "training/linear.h"
#include "training/norm.h"
#include "training/rotation.h"

namespace neuronmm::training {
namespace {

using Values = std::vector<Value64>;

void set_drawn(Parameter<double>& parameter, const std::string& name, int64_t rows,
               int64_t columns) {
  parameter.set(name, drawn_rows<double>(name, rows, columns));
}

void set_pivots(PivotMap<double>& pivots, std::vector<int32_t> index, std::vector<int32_t> others,
                bool of_input) {
  pivots.index = std::move(index);
  pivots.others = std::move(others);
  const int64_t rank = std::ssize(pivots.index), rest = std::ssize(pivots.others);
  set_drawn(pivots.map, "map", of_input ? rank : rest, of_input ? rest : rank);
}

void compare(Linear<double>& linear, int64_t tokens, int64_t features) {
  Differences differences(
      [&](Tape<double>& tape, const Values& in) { return apply(tape, in[0], linear); });
  differences.add_input(tokens, features);
  for_each_parameter(linear,
                     [&](Parameter<double>& parameter) { differences.add_parameter(parameter); });
  differences.compare_entries();
}

TEST(Operations, LinearWithBias) {
  for (const auto& [tokens, in, out] : {std::tuple(1, 1, 1), {1, 5, 3}, {7, 3, 33}, {5, 35, 2}}) {
    Linear<double> linear;
    set_drawn(linear.w, "w", out, in);
    set_drawn(linear.bias, "bias", 1, out);
    compare(linear, tokens, in);
  }
}

TEST(Operations, TwoFactors) {
  for (const int64_t rank : {1, 4}) {
    Linear<double> linear;
    set_drawn(linear.u, "u", rank, 7);
    set_drawn(linear.v, "v", 5, rank);
    set_drawn(linear.bias, "bias", 1, 5);
    compare(linear, 3, 7);
    // Uᵀ·dU = dV·Vᵀ in the letters of W = U·V, which are stored as u = Uᵀ and v = Vᵀ.
    for (int64_t i = 0; i < rank; ++i) {
      for (int64_t j = 0; j < rank; ++j) {
        double of_u = 0.0, of_v = 0.0;
        for (int64_t k = 0; k < 7; ++k)
          of_u += linear.u.value.row(i)[k] * linear.u.gradient.row(j)[k];
        for (int64_t k = 0; k < 5; ++k)
          of_v += linear.v.gradient.row(k)[i] * linear.v.value.row(k)[j];
        EXPECT_NEAR(of_u, of_v, 1e-12);
      }
    }
  }
}

TEST(Operations, Adapters) {
  Linear<double> linear;
  set_drawn(linear.w, "w", 5, 7);
  set_drawn(linear.bias, "bias", 1, 5);
  add_adapter(linear.w, 2, 0.5, 3);
  Adapter<double>& adapter = *linear.w.adapter;
  for (int64_t i = 0; i < adapter.b.size(); ++i) EXPECT_EQ(adapter.b.value.data()[i], 0.0);
  for (int64_t i = 0; i < adapter.a.size(); ++i) {
    EXPECT_LE(std::abs(adapter.a.value.data()[i]), 1.0 / std::sqrt(7.0));
  }
  set_drawn(adapter.b, adapter.b.name, 5, 2);
  compare(linear, 3, 7);
  // The weight with its change gives what the adapter gives.
  Tape<double> silent(Precision::kFp32, false);
  const Value64 x = make_tensor(drawn_rows<double>("x", 3, 7));
  const Value64 y = apply(silent, x, linear);
  const Rows<double> change = change_of(adapter);
  linear.w.adapter = nullptr;
  for (int64_t i = 0; i < change.size(); ++i) linear.w.value.data()[i] += change.data()[i];
  linear.w.changed();
  const Value64 merged = apply(silent, x, linear);
  for (int64_t i = 0; i < y->data.size(); ++i) {
    EXPECT_NEAR(y->data.data()[i], merged->data.data()[i], 1e-14);
  }
}

TEST(Operations, InputPivots) {
  Linear<double> linear;
  set_drawn(linear.w, "w", 4, 2);
  set_pivots(linear.in, {1, 4}, {0, 2, 3, 5, 6}, true);
  compare(linear, 3, 7);
}

TEST(Operations, OutputPivots) {
  Linear<double> linear;
  set_drawn(linear.w, "w", 2, 4);
  set_drawn(linear.bias, "bias", 1, 7);
  set_pivots(linear.out, {0, 6}, {1, 2, 3, 4, 5}, false);
  compare(linear, 3, 4);
}

TEST(Operations, SeveralReadersOfOneInput) {
  Parameter<double> a, b;
  set_drawn(a, "a", 4, 5);
  set_drawn(b, "b", 4, 5);
  Differences differences([&](Tape<double>& tape, const Values& in) {
    return add_scaled(tape, product(tape, in[0], a), -0.5, product(tape, in[0], b));
  });
  differences.add_input(3, 5);
  differences.add_parameter(a);
  differences.add_parameter(b);
  differences.compare_entries();
}

TEST(Operations, RmsNorm) {
  for (const int64_t width : {6, 3}) {  // a row of 6, or two heads of 3
    Parameter<double> gain;
    set_drawn(gain, "gain", 1, width);
    const NormSettings settings = {.eps = 0.01, .gain_offset = 1.0, .factor = 0.4};
    Differences differences([&](Tape<double>& tape, const Values& in) {
      return rms_norm(tape, in[0], gain, settings);
    });
    differences.add_input(5, 6);
    differences.add_parameter(gain);
    differences.compare_entries();
  }
}

TEST(Operations, GradientBehindRmsNormIsOrthogonalToItsInput) {
  Parameter<double> gain;
  set_drawn(gain, "gain", 1, 9);
  Tape<double> tape(Precision::kFp32);
  const Value64 x = make_tensor(drawn_rows<double>("x", 1, 9), true);
  const Value64 y = rms_norm(tape, x, gain, {.eps = 0.0});
  y->gradient = drawn_rows<double>("dy", 1, 9);
  tape.read_backwards();
  double product = 0.0;
  for (int64_t j = 0; j < 9; ++j) product += x->data.data()[j] * x->gradient.data()[j];
  EXPECT_NEAR(product, 0.0, 1e-14);
}

TEST(Operations, Gates) {
  for (const Activation activation : {Activation::kSilu, Activation::kGeluTanh}) {
    Differences differences([&](Tape<double>& tape, const Values& in) {
      return gated(tape, activation, in[0], in[1]);
    });
    differences.add_input(3, 37);
    differences.add_input(3, 37);
    differences.compare_entries();
  }
}

// Some numbers are beyond the limits, and none is so near to one that a difference crosses it.
TEST(Operations, ClampedSwiglu) {
  const SwigluClamp clamp = {.limit = 0.5f, .alpha = 1.5f};
  Differences differences([&](Tape<double>& tape, const Values& in) {
    return gated(tape, Activation::kClampedSwiglu, in[0], in[1], clamp);
  });
  differences.add_input(3, 37);
  differences.add_input(3, 37);
  differences.compare_entries();
  Tape<double> silent(Precision::kFp32, false);
  const Value64 gate = make_tensor(drawn_rows<double>("z", 1, 50)),
                up = make_tensor(drawn_rows<double>("up", 1, 50));
  const Value64 y = gated(silent, Activation::kClampedSwiglu, gate, up, clamp);
  for (int64_t i = 0; i < 50; ++i) {
    EXPECT_NEAR(y->data.data()[i],
                neuronmm::gated(Activation::kClampedSwiglu, clamp, gate->data.data()[i],
                                up->data.data()[i]),
                1e-14);
  }
}

TEST(Operations, Limits) {
  Differences differences([](Tape<double>& tape, const Values& in) {
    const Value64 y = limited(tape, in[0], 0.4);
    for (int64_t i = 0; i < y->data.size(); ++i) EXPECT_LE(std::abs(y->data.data()[i]), 0.4);
    return y;
  });
  differences.add_input(4, 9);
  differences.compare_entries();
  Tape<double> silent(Precision::kFp32, false);
  const Value64 x = make_tensor(drawn_rows<double>("x", 2, 3));
  EXPECT_EQ(limited(silent, x, 0.0), x);
}

TEST(Operations, GatesAreThoseOfTheDefinition) {
  for (const Activation activation : {Activation::kSilu, Activation::kGeluTanh}) {
    Tape<double> silent(Precision::kFp32, false);
    Rows<double> z = drawn_rows<double>("z", 1, 50);
    for (int64_t i = 0; i < z.size(); ++i) z.data()[i] *= 8.0;
    const Value64 gate = make_tensor(std::move(z)),
                  up = make_tensor(drawn_rows<double>("up", 1, 50));
    const Value64 y = gated(silent, activation, gate, up);
    for (int64_t i = 0; i < 50; ++i) {
      EXPECT_NEAR(y->data.data()[i],
                  activate(activation, gate->data.data()[i]) * up->data.data()[i], 1e-14);
    }
  }
}

TEST(Operations, LookupOfRepeatedTokens) {
  Parameter<double> table;
  set_drawn(table, "table", 5, 67);
  const TokenSequence tokens = {3, 0, 3, 4, 3};
  Differences differences(
      [&](Tape<double>& tape, const Values&) { return lookup(tape, table, tokens, 1.5); });
  differences.add_parameter(table);
  differences.compare_entries();
}

TEST(Operations, TakenRows) {
  const std::vector<int64_t> rows = {1, 4};
  Differences differences(
      [&](Tape<double>& tape, const Values& in) { return take_rows(tape, in[0], rows); });
  differences.add_input(6, 3);
  differences.compare_entries();
}

TEST(Operations, Rotation) {
  for (const int64_t turned : {0, 2, 6}) {
    io::ModelConfig config = model::tiny_config(io::Architecture::kLlama);
    config.ropes[0].rotary_width = turned;
    Angles<double> angles(config);
    const Sequences sequences = {{4, 1, 3}};
    Differences differences([&](Tape<double>& tape, const Values& in) {
      Value64 y = add_scaled(tape, in[0], 0.0, in[0]);
      rotate(tape, y, 6, 0, sequences, angles);
      return y;
    });
    differences.add_input(8, 12);
    differences.compare_entries();
  }
}

// The tables of longrope scale what they turn, and longer sequences turn by another list.
TEST(Operations, RotationOfLongrope) {
  io::ModelConfig config = model::tiny_longrope_config();
  auto& longrope = std::get<io::LongRopeScaling>(config.ropes[0].scaling);
  longrope.long_factor = {2.0, 3.0, 5.0};
  longrope.original_max_position_embeddings = 4;
  Angles<double> angles(config);
  const int64_t longer = config.long_rope_from() + 1;
  const Sequences sequences = {{2, longer}};
  Differences differences([&](Tape<double>& tape, const Values& in) {
    Value64 y = add_scaled(tape, in[0], 0.0, in[0]);
    rotate(tape, y, 6, 0, sequences, angles);
    return y;
  });
  differences.add_input(2 + longer, 6);
  differences.compare_entries();
}

struct AttentionCase {
  const char* name;
  ops::AttentionShape shape;
  io::QueryTemperature temperature;
  std::vector<int64_t> lengths;
  bool sinks = false;
};

class AttentionGradients : public testing::TestWithParam<AttentionCase> {
 protected:
  Differences differences() {
    const AttentionCase& of = GetParam();
    const Sequences sequences = {of.lengths};
    const int64_t dim = of.shape.head_dim;
    if (of.sinks) sinks_.set("sinks", drawn_rows<double>("sinks", 1, of.shape.num_attention_heads));
    Differences differences([of, sequences, this](Tape<double>& tape, const Values& in) {
      return attention(tape, of.shape, of.temperature, sequences, in[0], in[1], in[2], sinks_);
    });
    if (of.sinks) differences.add_parameter(sinks_);
    differences.add_input(sequences.tokens(), of.shape.num_attention_heads * dim);
    differences.add_input(sequences.tokens(), of.shape.num_key_value_heads * dim);
    differences.add_input(sequences.tokens(), of.shape.num_key_value_heads * dim);
    return differences;
  }

  Parameter<double> sinks_;  // absent in most cases
};

TEST_P(AttentionGradients, AgreeWithDifferences) {
  Differences checked = differences();
  if (Sequences{GetParam().lengths}.tokens() < 50) {
    checked.compare_entries();
  } else {
    checked.compare_directions();
  }
}

INSTANTIATE_TEST_SUITE_P(
    Cases, AttentionGradients,
    testing::Values(AttentionCase{"OneToken", {2, 2, 3}, {}, {1}},
                    AttentionCase{"GroupsOfOne", {2, 2, 3}, {}, {5, 1, 4}},
                    AttentionCase{"GroupsOfThree", {6, 2, 2}, {}, {7, 2}},
                    AttentionCase{"Window", {3, 1, 4, 3}, {}, {9}},
                    AttentionCase{"Cap", {2, 1, 4, 0, 2.0, 1.5}, {}, {6}},
                    AttentionCase{"Temperature", {2, 1, 4}, {0.7, 2}, {7}},
                    AttentionCase{"SeveralBlocks", {3, 1, 2}, {}, {131, 300}},
                    AttentionCase{"WindowOverBlocks", {1, 1, 2, 140, 0.0, 3.0}, {}, {290}},
                    AttentionCase{"Sinks", {4, 2, 3, 2}, {}, {5, 1, 4}, true},
                    AttentionCase{"SinksOverBlocks", {2, 1, 2, 0, 0.0, 2.0}, {}, {140}, true}),
    [](const auto& with) { return with.param.name; });

// A loss at one position leaves what comes later without a gradient, and other sequences, too.
TEST(Operations, AttentionIsCausal) {
  const ops::AttentionShape shape = {2, 1, 3};
  Tape<double> tape(Precision::kFp32);
  const Value64 q = make_tensor(drawn_rows<double>("q", 9, 6), true);
  const Value64 k = make_tensor(drawn_rows<double>("k", 9, 3), true);
  const Value64 v = make_tensor(drawn_rows<double>("v", 9, 3), true);
  Parameter<double> no_sinks;
  const Value64 o = attention(tape, shape, {}, {{4, 5}}, q, k, v, no_sinks);
  o->gradient = Rows<double>(9, 6);
  clear(o->gradient.view());
  std::fill_n(o->gradient.row(6), 6, 1.0);  // position 2 of the second sequence
  tape.read_backwards();
  for (int64_t i = 0; i < 9; ++i) {
    const bool seen = i >= 4 && i <= 6;
    for (int64_t j = 0; j < 3; ++j) {
      EXPECT_EQ(v->gradient.row(i)[j] != 0.0, seen);
      EXPECT_EQ(k->gradient.row(i)[j] != 0.0, seen);
      EXPECT_EQ(q->gradient.row(i)[j] != 0.0, i == 6);
    }
  }
}

TEST(Operations, RecomputingChangesNoBit) {
  Parameter<double> w;
  set_drawn(w, "w", 5, 5);
  const auto gradients = [&](bool again) {
    w.train();
    Tape<double> tape(Precision::kFp32);
    const Value64 x = make_tensor(drawn_rows<double>("x", 4, 5), true);
    const auto run = [&w](Tape<double>& on, const Value64& in) {
      return gated(on, Activation::kSilu, product(on, in, w), in);
    };
    const Value64 y = again ? recomputed(tape, x, run) : run(tape, x);
    y->gradient = drawn_rows<double>("dy", 4, 5);
    tape.read_backwards();
    std::vector<double> all(w.gradient.data(), w.gradient.data() + w.size());
    all.insert(all.end(), x->gradient.data(), x->gradient.data() + x->gradient.size());
    return all;
  };
  EXPECT_EQ(gradients(true), gradients(false));
}

}  // namespace
}  // namespace neuronmm::training
