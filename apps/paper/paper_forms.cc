#include "paper/paper_forms.h"

#include <map>
#include <memory>

#include <fmt/format.h>

#include "kernel/tuned.h"
#include "trainium/device/roofline.h"
#include "trainium/simulator/timing.h"

namespace neuronmm::apps {
namespace {

using kernels::KernelShape;
using Kernels = std::vector<std::pair<std::string_view, KernelShape>>;

constexpr int64_t kTile = 128;

// The largest size in whole tiles, below `limit`, that has at most `most` parameters; 0: none.
template <typename Parameters>
int64_t largest(int64_t limit, double most, const Parameters& parameters) {
  int64_t size = 0;
  for (int64_t next = kTile; next < limit; next += kTile) {
    if (static_cast<double>(parameters(next)) <= most) size = next;
  }
  return size;
}

// A form of one size r: what it is called, its parameters, its kernels.
template <typename Parameters, typename MakeKernels>
Result<MlpForm> form_of(std::string_view name, const MlpSizes& mlp, double keep, bool neurons,
                        const Parameters& parameters, const MakeKernels& make_kernels) {
  const auto all = static_cast<double>(3 * mlp.hidden * mlp.intermediate);
  const int64_t limit = neurons ? mlp.intermediate : mlp.hidden;
  const int64_t size = largest(limit, keep * all, parameters);
  if (size == 0) {
    return fail("--keep {}: leaves {} nothing of an MLP of {} x {} in tiles of {}", keep, name,
                mlp.hidden, mlp.intermediate, kTile);
  }
  return MlpForm{.name = std::string(name),
                 .sizes = fmt::format("{} {}", neurons ? "I" : "r", size),
                 .kept = static_cast<double>(parameters(size)) / all,
                 .kernels = [=](int64_t M) { return make_kernels(M, size); }};
}

// One program, its tiling tuned for whole row tiles, its time that of the real number of tokens.
Result<double> kernel_seconds(std::string_view name, const KernelShape& shape,
                              const simulator::DeviceSpec& device) {
  NMM_ASSIGN(const kernels::Kernel* kernel, kernels::find_kernel(name));
  KernelShape whole_tiles = shape;
  whole_tiles.M = tile::ceil_div(shape.M, kTile) * kTile;
  NMM_ASSIGN(const kernels::Tiling tiling, tuned_tilings(device)(*kernel, whole_tiles));
  NMM_ASSIGN(const tile::Program program, kernels::make_program(*kernel, shape, tiling, {}));
  NMM_ASSIGN(const simulator::Timing timing, simulator::simulate(program, device));
  return timing.summary.total_time;
}

// A permutation of X's or Y's columns: assumed one pass of the Vector engine, through HBM.
device::Work gather_work(int64_t M, int64_t columns) {
  const auto elements = static_cast<double>(M * columns);
  return {.hbm_bytes = 2 * 2 * elements, .vector_elements = elements};
}

// silu(gate) * up of matrices in HBM.
device::Work gated_work(int64_t M, int64_t columns) {
  const auto elements = static_cast<double>(M * columns);
  return {.hbm_bytes = 3 * 2 * elements, .vector_elements = elements, .scalar_elements = elements};
}

Result<double> mlp_seconds(const MlpForm& form, const MlpSizes& mlp,
                           const simulator::DeviceSpec& device, int64_t tokens) {
  double seconds = form.gathers * roofline_seconds(device, gather_work(tokens, mlp.hidden));
  if (form.gated_apart) seconds += roofline_seconds(device, gated_work(tokens, mlp.intermediate));
  for (const auto& [name, shape] : form.kernels(tokens)) {
    NMM_ASSIGN(const double kernel, kernel_seconds(name, shape, device));
    seconds += kernel;
  }
  return seconds;
}

Result<MlpForm> low_rank(const MlpSizes& mlp, double keep) {
  const int64_t H = mlp.hidden, I = mlp.intermediate;
  return form_of(
      "uv", mlp, keep, false, [=](int64_t r) { return 3 * r * (H + I); },
      [=](int64_t M, int64_t r) {
        return Kernels{{"mlp", {.M = M, .K = H, .r = r, .N = I}}};
      });
}

// Gate and up have pivots of their own, so that X is gathered for each.
Result<MlpForm> pivoted(const MlpSizes& mlp, double keep) {
  const int64_t H = mlp.hidden, I = mlp.intermediate;
  NMM_ASSIGN(
      MlpForm form,
      form_of(
          "pivoted", mlp, keep, false, [=](int64_t r) { return 3 * r * (H + I - r); },
          [=](int64_t M, int64_t r) {
            const KernelShape up{.M = M, .K = H, .r = r, .N = I};
            const KernelShape down{.M = M, .K = I, .r = r, .N = H};
            return Kernels{{"xuv_pivoted", up}, {"xuv_pivoted", up}, {"xuv_pivoted_out", down}};
          }));
  form.gated_apart = true;
  form.gathers = 3;
  return form;
}

Result<MlpForm> narrow(const MlpSizes& mlp, double keep) {
  const int64_t H = mlp.hidden, I = mlp.intermediate;
  NMM_ASSIGN(MlpForm form,
             form_of(
                 "narrow", mlp, keep, false, [=](int64_t r) { return 2 * r * (H - r) + 3 * r * I; },
                 [=](int64_t M, int64_t r) {
                   return Kernels{{"narrow_mlp", {.M = M, .K = H, .r = r, .N = I, .s = r}}};
                 }));
  form.gathers = 2;
  return form;
}

Result<MlpForm> neurons(const MlpSizes& mlp, double keep) {
  const int64_t H = mlp.hidden;
  return form_of(
      "neurons", mlp, keep, true, [=](int64_t kept) { return 3 * H * kept; },
      [=](int64_t M, int64_t kept) {
        return Kernels{{"dense_mlp", {.M = M, .K = H, .r = 0, .N = kept}}};
      });
}

}  // namespace

Result<std::vector<MlpForm>> forms_at(const MlpSizes& mlp, double keep) {
  const int64_t H = mlp.hidden, I = mlp.intermediate;
  std::vector<MlpForm> forms = {{.name = "dense", .sizes = "", .kernels = [=](int64_t M) {
                                   return Kernels{{"dense_mlp", {.M = M, .K = H, .r = 0, .N = I}}};
                                 }}};
  for (const auto make : {low_rank, pivoted, narrow, neurons}) {
    NMM_ASSIGN(MlpForm form, make(mlp, keep));
    forms.push_back(std::move(form));
  }
  return forms;
}

device::MlpSeconds seconds_of(const MlpForm& form, const MlpSizes& mlp,
                              const simulator::DeviceSpec& device) {
  const auto known = std::make_shared<std::map<int64_t, double>>();
  return [=](int64_t tokens) -> Result<double> {
    if (const auto found = known->find(tokens); found != known->end()) return found->second;
    NMM_ASSIGN(const double seconds, mlp_seconds(form, mlp, device, tokens));
    return known->emplace(tokens, seconds).first->second;
  };
}

}  // namespace neuronmm::apps
