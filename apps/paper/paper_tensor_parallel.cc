// This file implements `neuronmm paper end-to-end --cores`. The figure simulates whole requests of
// the paper's models on several NeuronCores by tensor parallelism, dense and compressed. Each core
// has a share of the heads, of the MLPs' intermediate size and of the vocabulary.
//
// In a low-rank MLP every core holds the first factors of gate and up and the second factor of
// down, as in the 2026 reference. There are two layouts:
// * Layout 1, the reference's: the cores add up the layer's output.
// * Layout 2: the cores add up the strip of down before its second factor. The result is equal by
//   linearity, with r/H of the bytes.

#include <algorithm>
#include <map>
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "compress/sizes/plan.h"
#include "kernel/tuned.h"
#include "paper/paper_figures.h"
#include "paper/paper_models.h"
#include "paper/paper_request.h"
#include "trainium/device/backend.h"
#include "trainium/device/collective.h"
#include "trainium/device/roofline.h"
#include "trainium/simulator/timing.h"
#include "trainium/validation/published_models.h"

namespace neuronmm::apps {
namespace {

using simulator::DeviceSpec;
using validation::PublishedRequest;
using Json = nlohmann::ordered_json;

constexpr double kBytes = 2;  // The bytes of a bf16 value.
// The bytes that greedy decoding exchanges: the best logit of a core, its sum and its token, padded
// to a transfer.
constexpr double kHeadBytes = 64;

constexpr const char* kExplanation =
    "\nrequest: batch 1, {} tokens in + {} out, bf16, ms; x: over the same model on one core; "
    "sums: share of\nthe request that the all-reduces take, two per layer. Layout 1 adds up the "
    "MLP's output, as the\nreference does, and keeps down fused; layout 2 adds up the strip of "
    "down, and has down's two\nproducts as operations of their own. MLP: weights per core over "
    "those of the dense MLP's share.\nCores that share a stack of HBM have a part of it each. "
    "Collectives are computed, never measured:\n{}.\n";

// Returns the part of a model that one core of `cores` has. Fails if a size does not divide evenly.
Result<io::ModelConfig> share_of(io::ModelConfig config, std::string_view name, int64_t cores) {
  const auto divided = [&](const char* what, int64_t& size) -> Status {
    if (size % cores != 0) {
      return fail("--cores {}: expected a divisor of {}'s {} {}", cores, name, size, what);
    }
    size /= cores;
    return {};
  };
  NMM_TRY(divided("attention heads", config.num_attention_heads));
  NMM_TRY(divided("columns of an MLP", config.intermediate_size));
  // Cores beyond the number of KV heads hold copies of KV heads.
  const int64_t kv = config.num_key_value_heads;
  if (kv % cores != 0 && cores % kv != 0) {
    return fail("--cores {}: expected a divisor or a multiple of {}'s {} KV heads", cores, name,
                kv);
  }
  config.num_key_value_heads = std::max<int64_t>(1, kv / cores);
  config.vocab_size = (config.vocab_size + cores - 1) / cores;
  return config;
}

// The times of one core, with its collectives.
struct Parallel {
  Request request;
  double sums = 0;  // The time of the request's all-reduces, in ms.
};

// Adds the collectives to the times of one core. `mlp_columns` is the number of columns that are
// added up after an MLP.
Parallel with_collectives(const Request& one_core, const DeviceSpec& device,
                          const io::ModelConfig& config, int64_t cores, int64_t mlp_columns) {
  const auto ms = [&](int64_t rows) {
    const double tokens = static_cast<double>(rows) * kBytes;
    const double layer =
        device::all_reduce_seconds(device, cores,
                                   tokens * static_cast<double>(config.hidden_size)) +
        device::all_reduce_seconds(device, cores, tokens * static_cast<double>(mlp_columns));
    return 1e3 * (static_cast<double>(config.num_hidden_layers) * layer +
                  device::all_reduce_seconds(device, cores, kHeadBytes));
  };
  const double prefill = ms(kRequest.prompt_tokens), decode = ms(1);
  Parallel parallel{.request = one_core,
                    .sums = prefill + static_cast<double>(one_core.decodes) * decode};
  parallel.request.prefill += prefill;
  parallel.request.decode += decode;
  parallel.request.whole += parallel.sums;
  return parallel;
}

// Returns the time of an MLP in layout 2 between its collectives: gate and up fused, then the two
// products of down.
device::MlpSeconds strip_mlp(const DeviceSpec& device, const device::ChooseTiling& tilings,
                             const io::ModelConfig& share, int64_t rank) {
  return [=](int64_t tokens) -> Result<double> {
    NMM_ASSIGN(const kernels::Kernel* kernel, kernels::find_kernel("mlp_up"));
    kernels::KernelShape shape{
        .M = tile::ceil_div(tokens, kernels::kPartitions) * kernels::kPartitions,
        .K = share.hidden_size,
        .r = rank,
        .N = share.intermediate_size};
    NMM_ASSIGN(const kernels::Tiling tiling, tilings(*kernel, shape));
    shape.M = tokens;
    NMM_ASSIGN(const tile::Program program, kernels::make_program(*kernel, shape, tiling, {}));
    NMM_ASSIGN(const simulator::Timing timing, simulator::simulate(program, device));
    const auto product = [&](int64_t in, int64_t out) {
      return device::roofline_seconds(device, device::linear_work(tokens, in, out, false));
    };
    return timing.summary.total_time + product(share.intermediate_size, rank) +
           product(rank, share.hidden_size);
  };
}

// Simulates a request. The time of the MLPs is computed once per number of tokens.
Result<Request> with_mlps(const io::ModelConfig& share, std::string_view name,
                          const DeviceSpec& device, const device::MlpSeconds& seconds) {
  const auto known = std::make_shared<std::map<int64_t, double>>();
  const auto backend =
      device::make_timing_backend(device, [seconds, known](int64_t tokens) -> Result<double> {
        const auto found = known->find(tokens);
        if (found != known->end()) return found->second;
        NMM_ASSIGN(const double time, seconds(tokens));
        return known->emplace(tokens, time).first->second;
      });
  return simulate_request(share, name, *backend);
}

struct ParallelRow {
  PublishedRequest published;
  int64_t cores = 1, rank = 0;
  Request dense_one_core, low_rank_one_core;  // The times on one core.
  Parallel dense, layout1, layout2;
  double mlp_bytes = 0;  // The MLP weights of a core over those of its share of the dense MLP.

  const Parallel& best() const {
    return layout2.request.whole < layout1.request.whole ? layout2 : layout1;
  }
};

Result<io::ModelConfig> compressed(io::ModelConfig config, const PublishedRequest& published) {
  const compress::RankRule rule{.ratio = published.ratio};
  NMM_ASSIGN(const compress::Plan plan,
             compress::make_plan(config, rule, std::nullopt, std::string(published.model)));
  config.compression.emplace().ranks = plan.mlp_shapes();
  return config;
}

Result<ParallelRow> simulate_row(const PublishedRequest& published, const DeviceSpec& one_core,
                                 int64_t cores) {
  ParallelRow row;
  row.published = published;
  row.cores = cores;
  NMM_ASSIGN(const io::ModelConfig dense, paper_model(published.model));
  NMM_ASSIGN(const io::ModelConfig low_rank, compressed(dense, published));
  NMM_ASSIGN(const io::ModelConfig dense_share, share_of(dense, published.model, cores));
  NMM_ASSIGN(const io::ModelConfig low_rank_share, share_of(low_rank, published.model, cores));
  row.rank = low_rank.compression->ranks.front().gate;
  const auto r = static_cast<double>(row.rank), h = static_cast<double>(dense.hidden_size),
             i = static_cast<double>(dense_share.intermediate_size);
  row.mlp_bytes = r * (h + i) / (h * i);

  const auto single = device::make_timing_backend(one_core, tuned_tilings(one_core));
  NMM_ASSIGN(row.dense_one_core, simulate_request(dense, published.model, *single));
  NMM_ASSIGN(row.low_rank_one_core, simulate_request(low_rank, published.model, *single));

  const DeviceSpec device = simulator::with_shared_stack(one_core, cores);
  const device::ChooseTiling tilings = tuned_tilings(device, cores);
  const auto backend = device::make_timing_backend(device, tilings);
  const auto parallel = [&](const Request& request, int64_t columns) {
    return with_collectives(request, device, dense, cores, columns);
  };
  NMM_ASSIGN(const Request d, simulate_request(dense_share, published.model, *backend));
  NMM_ASSIGN(const Request one, simulate_request(low_rank_share, published.model, *backend));
  NMM_ASSIGN(const Request two, with_mlps(low_rank_share, published.model, device,
                                          strip_mlp(device, tilings, low_rank_share, row.rank)));
  row.dense = parallel(d, dense.hidden_size);
  row.layout1 = parallel(one, dense.hidden_size);
  row.layout2 = parallel(two, row.rank);
  return row;
}

std::string cell(const Parallel& parallel, const Request& one_core) {
  return fmt::format("{:>9.1f}{:>6.2f}x{:>5.1f} %", parallel.request.whole,
                     one_core.whole / parallel.request.whole,
                     100 * parallel.sums / parallel.request.whole);
}

std::string table(const std::vector<ParallelRow>& rows) {
  std::string text = fmt::format("{:13}{:>6}{:>6}{:>6} {:^23}{:^23}{:^23}{:>7}{:>9}\n", "", "", "",
                                 "", "dense", "layout 1", "layout 2", "", "speed-up");
  text += fmt::format(
      "{0:13}{1:>6}{2:>6}{3:>6} {4:>9}{5:>7}{6:>7}{4:>9}{5:>7}{6:>7}{4:>9}{5:>7}{6:>7}"
      "{7:>7}{8:>9}\n",
      "model", "ratio", "rank", "cores", "request", "x", "sums", "MLP", "of dense");
  for (const ParallelRow& row : rows) {
    text += fmt::format(
        "{:13}{:>6}{:>6}{:>6} {}{}{}{:>6.2f}x{:>8.2f}x\n", row.published.model, row.published.ratio,
        row.rank, row.cores, cell(row.dense, row.dense_one_core),
        cell(row.layout1, row.low_rank_one_core), cell(row.layout2, row.low_rank_one_core),
        row.mlp_bytes, row.dense.request.whole / row.best().request.whole);
  }
  return text;
}

Json parallel_json(const Parallel& parallel) {
  return {{"prefill_ms", parallel.request.prefill},
          {"decode_ms", parallel.request.decode},
          {"request_ms", parallel.request.whole},
          {"all_reduce_ms", parallel.sums}};
}

Json row_json(const ParallelRow& row, std::string_view device) {
  return {{"model", row.published.model},
          {"ratio", row.published.ratio},
          {"rank", row.rank},
          {"device", device},
          {"cores", row.cores},
          {"mlp_weights_per_core_over_dense", row.mlp_bytes},
          {"simulated",
           {{"one_core_dense_ms", row.dense_one_core.whole},
            {"one_core_low_rank_ms", row.low_rank_one_core.whole},
            {"dense", parallel_json(row.dense)},
            {"layout_1", parallel_json(row.layout1)},
            {"layout_2", parallel_json(row.layout2)}}}};
}

std::string links(const DeviceSpec& device) {
  const auto graded = [](const simulator::Parameter& p, const char* unit) {
    return fmt::format("{} {} ({}: {})", p.value, unit, grade_name(p.grade), p.source);
  };
  return fmt::format("a step takes {},\na chip's {} cores reach others over {}",
                     graded(device.collective_step_ns, "ns"), device.cores_per_chip.value,
                     graded(device.link_bandwidth, "GB/s"));
}

}  // namespace

Result<Figure> tensor_parallel_figure(const Choice& choice) {
  if (!choice.rows.empty()) return fail("--rows: the published requests have 32 tokens");
  const std::vector<std::string> wanted = models_or_all(choice.models);
  Figure figure;
  figure.text = "simulated (no Trainium was used): tensor parallelism over several NeuronCores\n";
  Json json = Json::array();
  // The default device is that of the published requests.
  const std::vector<std::string> devices =
      choice.devices.empty() ? std::vector<std::string>{"trn1"} : choice.devices;
  for (const std::string& name : devices) {
    NMM_ASSIGN(const DeviceSpec device, simulator::find_device(name));
    std::vector<ParallelRow> rows;
    for (const PublishedRequest& published : validation::kPublishedRequests) {
      if (std::find(wanted.begin(), wanted.end(), published.model) == wanted.end()) continue;
      for (const int64_t cores : choice.cores) {
        NMM_ASSIGN(const ParallelRow row, simulate_row(published, device, cores));
        json.push_back(row_json(row, name));
        rows.push_back(row);
      }
    }
    if (rows.empty()) {
      return fail("--model {}: no request of it is published", fmt::join(choice.models, ", "));
    }
    figure.text +=
        fmt::format("\n{} ({})\n\n", device.name, device.core) + table(rows) +
        fmt::format(kExplanation, kRequest.prompt_tokens, kRequest.new_tokens, links(device));
  }
  figure.json = json.dump(2) + "\n";
  return figure;
}

}  // namespace neuronmm::apps
