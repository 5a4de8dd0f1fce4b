#include "many_cores/step_recorder.h"

#include <algorithm>
#include <regex>

#include <fmt/format.h>

#include "base/parallel.h"
#include "cpu/kv_cache.h"
#include "cpu/packed_matrix.h"
#include "cpu/tasks.h"

namespace neuronmm::many_cores {
namespace {

StepRecorder* recorder = nullptr;

// The rows of a piece of a product, which are those of a tile of AMX. Smaller tiles of other
// processors are not shared out, because each thread would read the weights again.
constexpr int64_t kPieceRows = 16;

// Returns "multiply" for "void neuronmm::cpu::multiply(const Kernels&, ...)", and "Attention::run"
// for "void neuronmm::cpu::Attention::run(...) const". Names of classes begin with a capital.
std::string short_name(const std::string& function) {
  std::smatch found;
  const std::regex name("(([A-Z][A-Za-z]*::)?[a-z_0-9]+)( \\[[^\\]]*\\])?\\(");
  return std::regex_search(function, found, name) ? found[1].str() : function;
}

int64_t quant_groups(int64_t columns) {
  return (columns + cpu::kQuantGroup - 1) / cpu::kQuantGroup;
}

}  // namespace

// The functions of the table. Outside of a loop, nothing is counted.
struct CountingKernels {
  static void multiply(const cpu::PackedRows& a, const cpu::PackedMatrix& w,
                       const cpu::ProductPart& part, const float*, MutableMatrixView) {
    if (!counting()) return;
    const int64_t rows = a.first_row(part.first_tile + part.tiles) - a.first_row(part.first_tile);
    recorder->pieces_.products += part.panels * ((rows + kPieceRows - 1) / kPieceRows);
    load().weight_bytes += part.panels * w.panel_words() * 4;
    load().multiply_adds += rows * w.k() * part.panels * cpu::kPanel;
    const std::string shape = fmt::format("{}x{}", w.k(), w.n());
    std::string& shapes = recorder->steps_.back().weights;
    if (shapes.ends_with(shape)) return;
    // Tasks of several products alternate between them only where the rows have shares.
    if (shapes.find(shape) == std::string::npos) shapes += (shapes.empty() ? "" : " ") + shape;
  }
  template <int64_t bytes_of_element>
  static void attend(const cpu::AttentionBlock& block) {
    if (!counting()) return;
    const int64_t positions = block.end - block.begin;
    ++recorder->pieces_.ranges;
    load().kv_bytes += 2 * positions * block.q.k * bytes_of_element;
    load().multiply_adds += 2 * positions * block.q.k * block.q.rows;
  }
  static void pack_floats(const cpu::PackedRows&, int64_t, const cpu::ColumnRange& columns,
                          const float* const*, float*) {
    pack(columns);
  }
  static void pack_words(const cpu::PackedRows&, int64_t, const cpu::ColumnRange& columns,
                         const float* const*, int32_t*) {
    pack(columns);
  }
  static void add_attention(int64_t, int64_t, float, const cpu::AttentionSums&,
                            const cpu::AttentionSums&) {}
  static void finish(const float*, const float*, int64_t, float*) { row(); }
  static void silu_multiply(const float*, float*, int64_t) {
    if (counting()) ++recorder->pieces_.pairs;
  }
  static void rest(const float*, int64_t, float*) { row(); }
  static void add(const float*, float*, int64_t) { row(); }
  static void norm(const float*, const float*, float, float*, int64_t) { row(); }
  static void rotate(const float*, const float*, float*, float*, int64_t) { row(); }

 private:
  static bool counting() { return recorder != nullptr && recorder->load_ != nullptr; }
  static ThreadLoad& load() { return *recorder->load_; }
  static void pack(const cpu::ColumnRange& columns) {
    if (counting()) recorder->pieces_.packed += quant_groups(columns.count);
  }
  static void row() {
    if (counting()) ++recorder->pieces_.rows;
  }
};

const cpu::Kernels& counting_kernels() {
  static const cpu::Kernels table = [] {
    cpu::Kernels kernels = cpu::best_kernels(cpu::default_choice());
    kernels.pack_tile = CountingKernels::pack_floats;
    kernels.pack_bf16_tile = CountingKernels::pack_words;
    kernels.quantize_tile = CountingKernels::pack_words;
    kernels.quantization_rest = CountingKernels::rest;
    kernels.multiply_floats = CountingKernels::multiply;
    kernels.multiply_int8 = CountingKernels::multiply;
    kernels.multiply_int6 = CountingKernels::multiply;
    kernels.multiply_int4 = CountingKernels::multiply;
    kernels.attend_fp32 = CountingKernels::attend<4>;
    kernels.attend_bf16 = CountingKernels::attend<2>;
    kernels.attend_int8 = CountingKernels::attend<1>;
    kernels.add_attention = CountingKernels::add_attention;
    kernels.finish_attention = CountingKernels::finish;
    kernels.silu_multiply = CountingKernels::silu_multiply;
    kernels.add = CountingKernels::add;
    kernels.rms_norm = CountingKernels::norm;
    kernels.rotate = CountingKernels::rotate;
    return kernels;
  }();
  return table;
}

StepRecorder::StepRecorder() { recorder = this; }
StepRecorder::~StepRecorder() { recorder = nullptr; }

// Loops without iterations are no steps.
void StepRecorder::begin_loop(int64_t count, const LoopFacts& facts) {
  in_step_ = count > 0;
  if (!in_step_) return;
  Step& step = steps_.emplace_back();
  step.function = short_name(facts.where.function_name());
  step.work = facts.work;
  const bool serial = facts.work != kUnknownWork && facts.work <= cpu::kSerialWork;
  step.tasks = serial ? std::min<int64_t>(count, 1) : count;
  step.threads.resize(static_cast<size_t>(num_threads()));
  pieces_ = {};
}

// A small loop runs on thread 0 alone.
void StepRecorder::begin_iteration(int64_t, int thread) {
  Step& step = steps_.back();
  load_ = &step.threads[step.tasks > 1 ? static_cast<size_t>(thread) : 0];
  ++load_->tasks;
}

// Gate and up have a piece together.
void StepRecorder::end_loop() {
  if (!in_step_) return;
  load_ = nullptr;
  Step& step = steps_.back();
  const int64_t products = pieces_.pairs > 0 ? pieces_.products / 2 : pieces_.products;
  step.pieces = products > 0         ? products
                : pieces_.ranges > 0 ? pieces_.ranges
                : pieces_.packed > 0 ? pieces_.packed
                                     : pieces_.rows;
}

int64_t Step::allowed_tasks() const {
  if (work == kUnknownWork) return tasks;
  const int64_t worth = std::max<int64_t>(1, work / cpu::kSerialWork);
  return pieces > 0 ? std::min(worth, pieces) : worth;
}

ThreadLoad Step::largest() const {
  ThreadLoad most;
  for (const ThreadLoad& load : threads) {
    most.tasks = std::max(most.tasks, load.tasks);
    most.weight_bytes = std::max(most.weight_bytes, load.weight_bytes);
    most.kv_bytes = std::max(most.kv_bytes, load.kv_bytes);
    most.multiply_adds = std::max(most.multiply_adds, load.multiply_adds);
  }
  return most;
}

double Step::imbalance() const {
  ThreadLoad sum;
  for (const ThreadLoad& load : threads) {
    sum.tasks += load.tasks;
    sum.multiply_adds += load.multiply_adds;
  }
  const ThreadLoad most = largest();
  const auto of_mean = [&](int64_t largest_load, int64_t all) {
    return static_cast<double>(largest_load) * static_cast<double>(threads.size()) /
           static_cast<double>(all);
  };
  if (sum.multiply_adds > 0) return of_mean(most.multiply_adds, sum.multiply_adds);
  return sum.tasks > 0 ? of_mean(most.tasks, sum.tasks) : 1.0;
}

}  // namespace neuronmm::many_cores
