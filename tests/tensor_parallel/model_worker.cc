// The program that tensor_parallel_test.cc starts in several processes. First, all processes
// compare their shared MLPs with the whole MLPs, in every layout. Then process 0 compares the
// logits of models of every form and dtype with those that it computes alone, while the other
// processes follow. The program prints what is wrong and then exits with 1.
//
//   model_worker shared|messages fp32|bf16

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/parallel.h"
#include "cpu/backend.h"
#include "model/layer_weights.h"
#include "model/tiny_model.h"
#include "model/transformer.h"
#include "parallel/agreement.h"
#include "parallel/connect.h"
#include "tensor_parallel/backend.h"
#include "tensor_parallel/excerpt.h"
#include "tensor_parallel/follow.h"
#include "tensor_parallel/order.h"
#include "tensor_parallel/shared_mixture.h"
#include "tensor_parallel/shared_mlp.h"
#include "tensor_parallel/shared_vocabulary.h"

namespace {

using namespace neuronmm;
using model::TestTensors;
using parallel::Communicator;
using parallel::Wire;

int failures = 0;
void expect(bool condition, const std::string& what) {
  if (condition) return;
  ++failures;
  fmt::print(stderr, "WRONG: {}\n", what);
}

struct Case {
  std::string name;
  io::ModelConfig config;
  DType dtype = DType::kF32;
};

// Makes a model of nine heads and three key-value heads, which two or four processes cannot divide
// equally.
io::ModelConfig float_config(io::Architecture architecture) {
  io::ModelConfig config = model::tiny_config(architecture);
  config.hidden_size = 96;
  config.intermediate_size = 320;
  config.num_attention_heads = 9;
  config.num_key_value_heads = 3;
  config.head_dim = 16;
  config.vocab_size = 211;
  if (config.experts) config.experts->width = config.intermediate_size;
  return config;
}

// Two heads of 64 columns fill a group of 128 columns that share a scale.
io::ModelConfig rounded_config(const LowBitFormat& format) {
  io::ModelConfig config = float_config(io::Architecture::kLlama);
  config.hidden_size = 256;
  config.intermediate_size = 576;
  config.num_attention_heads = 8;
  config.num_key_value_heads = 2;
  config.head_dim = 64;
  config.quantization = io::Quantization{format};
  return config;
}

// A sequence of more than 8 tokens turns by the second list.
io::ModelConfig longrope_config() {
  io::ModelConfig config = float_config(io::Architecture::kLlama);
  config.ropes[0].scaling =
      io::LongRopeScaling{.short_factor = {1.0, 1.2, 1.5, 2.0, 3.0, 4.0, 6.0, 9.0},
                          .long_factor = {2.0, 3.0, 5.0, 8.0, 9.0, 9.0, 20.0, 30.0},
                          .original_max_position_embeddings = 8,
                          .attention_factor = 1.25};
  return config;
}

std::vector<Case> all_cases() {
  using io::Architecture;
  std::vector<Case> cases;
  for (const Architecture architecture :
       {Architecture::kLlama, Architecture::kMistral, Architecture::kQwen2, Architecture::kQwen3,
        Architecture::kOlmo2, Architecture::kGemma2, Architecture::kGranite}) {
    cases.push_back({std::string(io::architecture_name(architecture)), float_config(architecture)});
  }
  cases.push_back({"longrope", longrope_config()});
  // With three experts and four processes, one process has none.
  for (const int64_t count : {3, 7}) {
    for (const Architecture architecture : {Architecture::kOlmoe, Architecture::kGptOss}) {
      Case c = {fmt::format("{}, {} experts", io::architecture_name(architecture), count),
                float_config(architecture)};
      c.config.experts->count = count;
      cases.push_back(c);
    }
  }
  Case bases = {"shared bases", float_config(Architecture::kOlmoe)};
  bases.config.num_hidden_layers = 2;
  bases.config.compression = model::tiny_record("basis", {{}, {}});
  bases.config.compression->bases = bases.config.experts->bases = {{32, 64}, {0, 40}};
  cases.push_back(bases);
  cases.push_back({"bf16", float_config(Architecture::kLlama), DType::kBF16});
  const std::map<std::string, std::vector<io::MlpShape>> forms = {
      {"uv", {{32, 40, 48}, {32, 0, 48}}},
      {"pivoted", {{32, 40, 48}, {0, 32, 64}, {40, 0, 0}}},
      {"narrow", {{.down = 48, .input = 64}, {.input = 40}}},
      {"mixed",
       {{.down = 32, .input = 40, .neurons = 129}, {.gate = 32, .up = 40, .neurons = 256}}},
      {"neurons", {{.neurons = 192}, {.neurons = 97}}}};
  for (const auto& [form, shapes] : forms) {
    Case c = {form, float_config(Architecture::kLlama)};
    c.config.num_hidden_layers = std::ssize(shapes);
    c.config.compression = model::tiny_record(form, shapes);
    cases.push_back(c);
    c.name += " with biases";
    c.config.attention_bias = c.config.attention_output_bias = c.config.mlp_bias = true;
    cases.push_back(c);
  }
  for (const LowBitFormat& format :
       {LowBitFormat{8, 128}, LowBitFormat{6, 128}, LowBitFormat{4, 16}, LowBitFormat{4, 32}}) {
    for (const bool compressed : {false, true}) {
      Case c = {fmt::format("{} bits{}", format.bits, compressed ? ", uv" : ""),
                rounded_config(format)};
      if (compressed) {
        c.config.compression = model::tiny_record("uv", {{128, 96, 128}, {128, 96, 128}});
      }
      cases.push_back(c);
    }
  }
  return cases;
}

// Returns random tensors. The weights are scaled by their width, because the standard deviation 0.3
// of random_tensors() would make activations grow from layer to layer.
TestTensors tensors_of(const Case& c, uint64_t seed) {
  TestTensors tensors = model::random_tensors(c.config, seed);
  for (auto& [name, tensor] : tensors) {
    if (tensor.shape.size() == 2 && tensor.dtype == DType::kF32) {
      const float factor = 3.3f / std::sqrt(static_cast<float>(tensor.shape[1]));
      for (float& value : tensor.values) value *= factor;
    }
  }
  if (c.config.quantization) {
    return model::quantized_tensors(c.config, tensors, *c.config.quantization);
  }
  for (auto& [name, tensor] : tensors) {
    if (tensor.dtype == DType::kF32) tensor.dtype = c.dtype;
  }
  return tensors;
}

double largest(ConstMatrixView x) {
  double result = 0;
  for (int64_t i = 0; i < x.rows; ++i) {
    for (int64_t j = 0; j < x.columns; ++j)
      result = std::max(result, std::abs(double{x.row(i)[j]}));
  }
  return result;
}

double difference(const Matrix& a, const Matrix& b) {
  Matrix d = a;
  for (int64_t i = 0; i < a.rows() * a.columns(); ++i) d.data()[i] -= b.data()[i];
  return largest(d.view());
}

// Returns how far results of magnitude `size` may differ. Sums of K terms in another order differ
// by at most K · 2^-24 of their size, in each of the matrices of `layers` layers. Backends round
// activations to 8 bits for rounded weights. An activation between two codes may get either of
// them, and they differ by 1/127 of the group's largest value. Communication in bf16 rounds values
// by 2^-8 two times.
double tolerance(const io::ModelConfig& config, Wire wire, int64_t layers, double size) {
  const auto terms = static_cast<double>(config.hidden_size + config.intermediate_size);
  double relative = 4.0 * static_cast<double>(layers) * terms * std::ldexp(1.0, -24);
  if (config.quantization) relative += static_cast<double>(layers) * 2.0 / 127;
  if (wire == Wire::kBF16) relative += static_cast<double>(layers) * std::ldexp(4.0, -8);
  return relative * size;
}

Matrix random_rows(int64_t rows, int64_t columns, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  Matrix x(rows, columns);
  for (int64_t i = 0; i < rows * columns; ++i) x.data()[i] = normal(random);
  return x;
}

// Returns the number of values that this process sends to sum `values` values over all processes.
// With two processes it sends all of its values to the other one. With more, it sends each process
// its share, and the sum of its own share to all others.
int64_t sent_in_sum(const Communicator& all, int64_t values) {
  const int64_t own = all.share(values).count;
  return all.processes() == 2 ? values : values - own + (all.processes() - 1) * own;
}

void check_layout(Communicator& all, const ops::Backend& own, const Case& c,
                  const ops::MlpWeight& weight, const tensor_parallel::LayoutCost& cost,
                  Wire wire) {
  constexpr int64_t kRows = 12;  // 2, 3 and 4 processes divide them equally
  const std::string what = fmt::format("{}, {}", c.name, tensor_parallel::layout_name(cost.layout));
  const auto whole = own.make_mlp(weight);
  const auto shared = tensor_parallel::make_shared_mlp(own, all, wire, weight, cost.layout);
  const Matrix x = random_rows(kRows, c.config.hidden_size, 7);
  Matrix expected(kRows, c.config.hidden_size), y(kRows, c.config.hidden_size);
  whole->apply(x.view(), expected.view());
  const auto before = all.traffic();
  shared->apply(x.view(), y.view());
  const double bound = tolerance(c.config, wire, 1, largest(expected.view()));
  expect(difference(y, expected) <= bound,
         fmt::format("{}: differs by {} of {}, bound {}", what, difference(y, expected),
                     largest(expected.view()), bound));
  expect(all.traffic().collectives - before.collectives == cost.collectives,
         what + ": the number of collectives");
  if (all.link() != "messages") return;
  const bool gathers = cost.layout == tensor_parallel::MlpLayout::kGatherStrips;
  const bool whole_output =
      cost.layout == tensor_parallel::MlpLayout::kSumOutput || weight.down.rank() == 0;
  const int64_t summed = whole_output ? c.config.hidden_size : weight.down.rank();
  int64_t own_strips = 0;
  for (const int64_t rank : tensor_parallel::strip_ranks(weight)) {
    if (gathers) own_strips += all.share(rank).count;
  }
  const int64_t values =
      sent_in_sum(all, kRows * summed) + (all.processes() - 1) * kRows * own_strips;
  const int64_t sent = all.traffic().bytes_sent - before.bytes_sent;
  expect(sent == values * bytes_of(wire), fmt::format("{}: sent {} bytes", what, sent));
  // The formula of plan.h counts what processes send on average.
  const std::vector<Communicator::Bytes> everybody =
      all.all_gather(std::as_bytes(std::span(&sent, 1)));
  double total = 0;
  for (const auto& bytes : everybody) {
    int64_t theirs = 0;
    std::memcpy(&theirs, bytes.data(), sizeof(theirs));
    total += static_cast<double>(theirs);
  }
  const double formula = kRows * cost.bytes_per_token(all.processes(), wire) * all.processes();
  expect(std::abs(total - formula) < 0.5,
         fmt::format("{}: all sent {} bytes, expected {}", what, total, formula));
}

// Compares a mixture whose experts are shared out with the whole one.
void check_mixture(Communicator& all, const ops::Backend& own, const Case& c,
                   const ops::MixtureWeight& weight, Wire wire) {
  constexpr int64_t kRows = 12;
  const Matrix x = random_rows(kRows, c.config.hidden_size, 7);
  Matrix expected(kRows, c.config.hidden_size), y(kRows, c.config.hidden_size);
  own.make_mixture(weight)->apply(x.view(), expected.view());
  tensor_parallel::make_shared_mixture(own, all, wire, weight)->apply(x.view(), y.view());
  const double bound = tolerance(c.config, wire, 1, largest(expected.view()));
  expect(difference(y, expected) <= bound,
         fmt::format("{}: the mixture differs by {}, expected at most {}", c.name,
                     difference(y, expected), bound));
}

// Compares the MLPs of all layers and layouts. Every process opens the folder of process 0.
void check_mlps(Communicator& all, const ops::Backend& own, const Case& c,
                const std::string& folder, Wire wire) {
  const auto checkpoint = io::Checkpoint::open(folder);
  const auto config = io::ModelConfig::load(folder + "/config.json");
  if (!checkpoint.ok() || !config.ok()) return expect(false, "the folder of " + c.name);
  for (int64_t layer = 0; layer < config->num_hidden_layers; ++layer) {
    const auto weights = model::layer_weights(*checkpoint, *config, layer);
    if (!weights.ok()) return expect(false, weights.error().message);
    if (weights->mixture) {
      check_mixture(all, own, c, *weights->mixture, wire);
      continue;
    }
    for (const auto& cost :
         tensor_parallel::layout_costs(weights->mlp, all.process(), all.processes())) {
      check_layout(all, own, c, weights->mlp, cost, wire);
    }
  }
}

std::vector<text::TokenId> tokens_of(size_t count, int64_t vocabulary, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<text::TokenId> tokens(count);
  for (auto& token : tokens) {
    token = static_cast<text::TokenId>(random() % static_cast<uint64_t>(vocabulary));
  }
  return tokens;
}

// Returns the logits of several passes, and at last the hidden states of one. Sequence a gets a
// prompt in two pieces, the second one in a batch with the prompt of b. Three passes then decode a
// token of both. At last a forgets two tokens and goes on, and a new sequence c begins after b's
// memory has been freed.
std::vector<Matrix> logits_of(const model::Transformer& transformer) {
  using model::Logits;
  const int64_t vocabulary = transformer.config().vocab_size;
  const auto first = tokens_of(20, vocabulary, 1), second = tokens_of(20, vocabulary, 2);
  const auto piece = [](const std::vector<text::TokenId>& tokens, size_t from, size_t count) {
    return std::span(tokens).subspan(from, count);
  };
  std::vector<Matrix> logits;
  const auto a = transformer.make_cache(60, DType::kF32);
  auto b = transformer.make_cache(60, DType::kF32);
  logits.push_back(transformer.forward(piece(first, 0, 5), *a, Logits::kAll));
  const model::SequenceTokens mixed[] = {{piece(first, 5, 4), a.get(), Logits::kLast},
                                         {piece(second, 0, 7), b.get(), Logits::kAll}};
  logits.push_back(transformer.forward(mixed));
  for (size_t i = 9; i < 12; ++i) {
    const model::SequenceTokens decode[] = {{piece(first, i, 1), a.get()},
                                            {piece(second, i - 2, 1), b.get()}};
    logits.push_back(transformer.forward(decode));
  }
  a->set_length(10);
  b.reset();
  const auto c = transformer.make_cache(60, DType::kF32);
  const model::SequenceTokens last[] = {{piece(first, 12, 2), a.get(), Logits::kAll},
                                        {piece(second, 10, 3), c.get(), Logits::kAll}};
  logits.push_back(transformer.forward(last));
  const auto d = transformer.make_cache(60, DType::kF32);
  model::SequenceTokens embedded = {piece(second, 0, 6), d.get(), Logits::kNone};
  embedded.hidden = model::HiddenStates::kAll;
  logits.push_back(transformer.predict(std::span(&embedded, 1)).hidden);
  return logits;
}

void check_predictions(const Communicator& all, const model::Transformer& transformer,
                       const std::string& name);

void check_model(const Communicator& all, const ops::Backend& own, const ops::Backend& shared,
                 const Case& c, const std::string& folder, Wire wire) {
  const auto alone = model::Transformer::load(folder, own);
  const auto together = model::Transformer::load(folder, shared);
  if (!alone.ok() || !together.ok()) {
    return expect(false, c.name + ": " + (alone.ok() ? together.error() : alone.error()).message);
  }
  const std::vector<Matrix> expected = logits_of(*alone), found = logits_of(*together);
  for (size_t i = 0; i < expected.size(); ++i) {
    const double size = largest(expected[i].view());
    const double bound = tolerance(c.config, wire, c.config.num_hidden_layers + 1, size);
    const double off = difference(found[i], expected[i]);
    expect(off <= bound, fmt::format("{}: logits of pass {} differ by {} of {}, bound {}", c.name,
                                     i, off, size, bound));
  }
  // Capped logits are always complete.
  if (c.config.logit_cap == 0.0) check_predictions(all, *together, c.name);
}

// Compares the wanted logits and log sums of a pass with those of the whole rows. The bits must be
// the same, and each process may contribute only as many values as were wanted.
void check_predictions(const Communicator& all, const model::Transformer& transformer,
                       const std::string& name) {
  using model::Logits;
  const int64_t vocabulary = transformer.config().vocab_size;
  const auto tokens = tokens_of(9, vocabulary, 3);
  const auto cache = transformer.make_cache(60, DType::kF32);
  const Matrix whole = transformer.forward(tokens, *cache, Logits::kAll);
  cache->set_length(0);
  model::SequenceTokens sequence = {tokens, cache.get(), Logits::kAll};
  for (int32_t i = 0; i < 8; ++i) {
    sequence.wanted.push_back(
        {.all = false, .named = {i, 100 + i}, .num_best = i, .log_sum = i % 2 == 0});
  }
  sequence.wanted.push_back({.all = true, .log_sum = true});
  const model::Predictions found = transformer.predict(std::span(&sequence, 1));
  for (int64_t i = 0; i < 9; ++i) {
    const auto& wanted = sequence.wanted[static_cast<size_t>(i)];
    std::vector<float> row(whole.row(i), whole.row(i) + vocabulary);
    int64_t here = 0, wrong = 0;
    for (int64_t j = 0; j < vocabulary; ++j) {
      if (found.logits.row(i)[j] == ops::kUnwantedLogit) continue;
      ++here;
      wrong += found.logits.row(i)[j] == row[static_cast<size_t>(j)] ? 0 : 1;
    }
    expect(wrong == 0, name + ": values that are not the whole row's");
    const float best = *std::ranges::max_element(row);
    const bool has_best =
        *std::max_element(found.logits.row(i), found.logits.row(i) + vocabulary) == best;
    expect(wanted.num_best == 0 || has_best, name + ": the best logit");
    for (const int32_t id : wanted.named) {
      expect(found.logits.row(i)[id] == row[static_cast<size_t>(id)], name + ": a named logit");
    }
    const int64_t most = 2 + all.processes() * wanted.num_best;
    expect(wanted.all ? here == vocabulary : here <= most, name + ": how many logits there are");
    if (!wanted.log_sum) continue;
    const auto log_sum = found.log_sum(i);
    const auto expected = ops::log_sum(row);
    expect((log_sum || wanted.all) &&
               (!log_sum || (log_sum->log == expected.log && log_sum->largest == expected.largest)),
           name + ": a log sum");
  }
}

// Compares the bytes that each process sends for rows that are wanted in part with the formula of
// excerpt.h. All processes apply the LM head together.
void check_excerpt_bytes(Communicator& all, const ops::Backend& own) {
  constexpr int64_t kRows = 6, kHidden = 32, kVocabulary = 4100;
  const Matrix weight = random_rows(kVocabulary, kHidden, 5), x = random_rows(kRows, kHidden, 6);
  const ops::WeightView view(TensorView{
      DType::kF32, {kVocabulary, kHidden}, reinterpret_cast<const std::byte*>(weight.data())});
  const auto head = tensor_parallel::make_shared_vocabulary(own, all, {.w_t = view});
  const std::vector<ops::WantedLogits> wanted(
      kRows, {.all = false, .named = {1, 2000, 4099}, .num_best = 7, .log_sum = true});
  Matrix y(kRows, kVocabulary);
  const auto before = all.traffic();
  (void)head->apply_wanted(x.view(), wanted, y.view());
  if (all.is_first() || all.link() != "messages") return;
  const tensor_parallel::Share mine =
      tensor_parallel::vocabulary_share(kVocabulary, all.process(), all.processes());
  int64_t named = 0;
  for (const int32_t id : wanted[0].named) {
    named += id >= mine.first && id < mine.end() ? 1 : 0;
  }
  const int64_t block = ops::log_sum_block(kVocabulary);
  const int64_t blocks = (mine.count + block - 1) / block;
  const int64_t sent = all.traffic().bytes_sent - before.bytes_sent;
  const int64_t formula = kRows * (4 + 8 * (named + 7) + 12 * blocks);
  expect(sent == formula, fmt::format("an excerpt: sent {} bytes, expected {}", sent, formula));
}

void write(const Case& c, const model::ModelFolder& folder, uint64_t seed) {
  folder.write_text("config.json", model::config_json(c.config));
  folder.write_tensors(model::stored_tensors(c.config, tensors_of(c, seed)));
}

std::string path_for_all(Communicator& all, const std::string& mine) {
  const auto* const text = reinterpret_cast<const std::byte*>(mine.data());
  Communicator::Bytes bytes(text, text + mine.size());
  all.broadcast(bytes);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

int run(Communicator& all, Wire wire) {
  set_num_threads(1);
  const auto own = cpu::make_backend();
  const std::vector<Case> cases = all_cases();
  std::vector<std::unique_ptr<model::ModelFolder>> folders;
  for (size_t i = 0; i < cases.size(); ++i) {
    if (all.is_first()) write(cases[i], *folders.emplace_back(new model::ModelFolder), 100 + i);
    const std::string folder =
        path_for_all(all, all.is_first() ? folders.back()->path().string() : "");
    check_mlps(all, *own, cases[i], folder, wire);
  }
  check_excerpt_bytes(all, *own);
  // Every layout for two factors is the fastest with one of these two links.
  for (const double latency_s : {0.0, 1.0}) {
    const tensor_parallel::Settings settings = {wire, {latency_s, 1e12, 1e9, 1e9}};
    const auto shared = tensor_parallel::make_backend(all, cpu::make_backend(), settings);
    if (!all.is_first()) {
      tensor_parallel::follow(
          all, [](const std::string&) { return cpu::make_backend(); },
          [&](std::unique_ptr<ops::Backend> mine) {
            return tensor_parallel::make_backend(all, std::move(mine), settings);
          });
      continue;
    }
    using Kind = tensor_parallel::Order::Kind;
    tensor_parallel::send(all, {.kind = Kind::kBackend});
    expect(parallel::first_error_of_all(all, Status()).ok(), "the others' backends");
    for (size_t i = 0; i < cases.size(); ++i) {
      // Sums in bf16 may make a token choose other experts.
      if (cases[i].config.experts && wire == Wire::kBF16) continue;
      check_model(all, *own, *shared, cases[i], folders[i]->path(), wire);
    }
    tensor_parallel::send(all, {.kind = Kind::kEnd});
  }
  return failures;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  parallel::LinkOptions options;
  options.shared_memory = std::string(argv[1]) == "shared";
  auto all = parallel::connect(options);
  if (!all.ok()) {
    fmt::print(stderr, "{}\n", all.error().message);
    return 1;
  }
  const int wrong = run(**all, std::string(argv[2]) == "bf16" ? Wire::kBF16 : Wire::kFp32);
  return wrong == 0 ? 0 : 1;
}
