#include "paper/paper_forms.h"

#include <memory>

#include <fmt/format.h>

#include "kernel/tuned.h"
#include "trainium/device/mlp_program.h"

namespace neuronmm::apps {
namespace {

using device::MlpShape;

constexpr int64_t kTile = 128;

// Returns the largest size in whole tiles, below `limit`, that has at most `most` parameters. The
// result is 0 if there is none.
template <typename Parameters>
int64_t largest(int64_t limit, double most, const Parameters& parameters) {
  int64_t size = 0;
  for (int64_t next = kTile; next < limit; next += kTile) {
    if (static_cast<double>(parameters(next)) <= most) size = next;
  }
  return size;
}

// Makes a form that has one size, from its name, its number of parameters and its shape.
template <typename Parameters, typename MakeShape>
Result<MlpForm> form_of(std::string_view name, const MlpSizes& mlp, double kept_share, bool neurons,
                        const Parameters& parameters, const MakeShape& make_shape) {
  const auto all = static_cast<double>(3 * mlp.hidden * mlp.intermediate);
  const int64_t limit = neurons ? mlp.intermediate : mlp.hidden;
  const int64_t size = largest(limit, kept_share * all, parameters);
  if (size == 0) {
    return fail("--keep {}: leaves {} nothing of an MLP of {} x {} in tiles of {}", kept_share,
                name, mlp.hidden, mlp.intermediate, kTile);
  }
  return MlpForm{.name = std::string(name),
                 .sizes = fmt::format("{} {}", neurons ? "I" : "r", size),
                 .kept = static_cast<double>(parameters(size)) / all,
                 .shape = make_shape(size)};
}

Result<MlpForm> low_rank(const MlpSizes& mlp, double kept_share) {
  const int64_t H = mlp.hidden, I = mlp.intermediate;
  return form_of(
      "uv", mlp, kept_share, false, [=](int64_t r) { return 3 * r * (H + I); },
      [=](int64_t r) { return MlpShape{.hidden_size = H, .intermediate_size = I, .rank = r}; });
}

Result<MlpForm> pivoted(const MlpSizes& mlp, double kept_share) {
  const int64_t H = mlp.hidden, I = mlp.intermediate;
  return form_of(
      "pivoted", mlp, kept_share, false, [=](int64_t r) { return 3 * r * (H + I - r); },
      [=](int64_t r) {
        return MlpShape{.hidden_size = H,
                        .intermediate_size = I,
                        .input_pivots = r,
                        .output_pivots = r,
                        .separate_pivots = true};
      });
}

Result<MlpForm> narrow(const MlpSizes& mlp, double kept_share) {
  const int64_t H = mlp.hidden, I = mlp.intermediate;
  return form_of(
      "narrow", mlp, kept_share, false, [=](int64_t r) { return 2 * r * (H - r) + 3 * r * I; },
      [=](int64_t r) {
        return MlpShape{
            .hidden_size = H, .intermediate_size = I, .input_pivots = r, .output_pivots = r};
      });
}

Result<MlpForm> neurons(const MlpSizes& mlp, double kept_share) {
  const int64_t H = mlp.hidden;
  return form_of(
      "neurons", mlp, kept_share, true, [=](int64_t kept) { return 3 * H * kept; },
      [=](int64_t kept) { return MlpShape{.hidden_size = H, .intermediate_size = kept}; });
}

}  // namespace

Result<std::vector<MlpForm>> forms_at(const MlpSizes& mlp, double kept_share) {
  std::vector<MlpForm> forms = {
      {.name = "dense",
       .sizes = "",
       .shape = {.hidden_size = mlp.hidden, .intermediate_size = mlp.intermediate}}};
  for (const auto make : {low_rank, pivoted, narrow, neurons}) {
    NMM_ASSIGN(MlpForm form, make(mlp, kept_share));
    forms.push_back(std::move(form));
  }
  return forms;
}

device::MlpSeconds seconds_of(const MlpForm& form, const simulator::DeviceSpec& device) {
  const auto programs = std::make_shared<device::MlpPrograms>(device, tuned_tilings(device));
  return [programs, shape = form.shape](int64_t tokens) -> Result<double> {
    NMM_ASSIGN(const device::MlpProgram* program, programs->find(shape, tokens));
    return program->seconds;
  };
}

}  // namespace neuronmm::apps
