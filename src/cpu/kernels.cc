#include "cpu/kernels.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <string>
#include <tuple>

#include "cpu/amx.h"
#include "cpu/kernel_parts.h"
#include "hwy/targets.h"

#if HWY_ARCH_X86
#include <cpuid.h>
#elif HWY_ARCH_ARM_A64
#include <sys/auxv.h>
#endif

namespace neuronmm::cpu {
namespace {

struct NamedKernels {
  std::string name;
  Kernels kernels;
};

// Returns a name that says what the table uses. Benchmarks print it, and bug reports need it.
std::string name_of(int64_t target, const Kernels& kernels) {
  std::string name = hwy::TargetName(target);
  if (kernels.dot_products != DotProducts::kNone) name += "+int8";
  if (kernels.dot_products == DotProducts::kInt8AndBf16) name += "+bf16";
  if (kernels.amx) name += "+amx";
  return name;
}

// Returns the table of the chosen target. Tables live as long as the program.
const Kernels& kernels_with(int64_t target, DotProducts dots, bool amx) {
  static std::mutex mutex;
  static std::map<std::tuple<int64_t, DotProducts, bool>, NamedKernels> tables;
  const std::lock_guard lock(mutex);
  const auto [found, is_new] = tables.try_emplace({target, dots, amx});
  auto& [name, kernels] = found->second;
  if (is_new) {
    kernels.dot_products = dots;
    kernels.amx = amx;
    name = name_of(target, kernels);
    kernels.target = name.c_str();
    set_float_kernels(kernels);
    set_int8_kernels(kernels);
    set_int6_kernels(kernels);
    set_int4_kernels(kernels);
    set_coded_kernels(kernels);
  }
  return kernels;
}

#if HWY_ARCH_X86
// Returns whether products of bf16 pairs are faster. Measured on prefill of SmolLM2
// (docs/measurements/cpu_speed.md): they are slower on an Intel CPU with AVX512-BF16 and without
// AMX (670 instead of 1,045 tokens/s), and up to twice as fast on CPUs of AMD.
bool bf16_pairs_pay() { return !__builtin_cpu_is("intel"); }
#endif

// Returns the dot products that make this target of the CPU faster, with or without AMX. Highway
// does not look for these extensions of its targets. The bits of CPUID leaf 7 are documented by
// Intel (Software Developer's Manual, volume 2A, CPUID), those of ARM by Linux ("ARM64 ELF
// hwcaps").
DotProducts dot_products_of_cpu(int64_t target, [[maybe_unused]] bool amx) {
#if HWY_ARCH_X86
  constexpr unsigned kAvx512Vnni = 1u << 11, kAvxVnni = 1u << 4, kAvx512Bf16 = 1u << 5;
  unsigned a = 0, b = 0, c = 0, d = 0;
  const bool avx512_vnni =
      target == HWY_AVX3 && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (c & kAvx512Vnni) != 0;
  const unsigned more = __get_cpuid_count(7, 1, &a, &b, &c, &d) ? a : 0;
  if (avx512_vnni) {
    return (more & kAvx512Bf16) != 0 && (amx || bf16_pairs_pay()) ? DotProducts::kInt8AndBf16
                                                                  : DotProducts::kInt8;
  }
  if (target == HWY_AVX2 && (more & kAvxVnni) != 0) return DotProducts::kInt8;
#elif HWY_ARCH_ARM_A64
  if (target == HWY_NEON && (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0) {
    return (getauxval(AT_HWCAP2) & HWCAP2_BF16) != 0 ? DotProducts::kInt8AndBf16
                                                     : DotProducts::kInt8;
  }
#endif
  static_cast<void>(target);
  return DotProducts::kNone;
}

// Returns whether AMX can be used: the CPU and the system allow it, and a small product has the
// same bits with it as without. The comparison is made once, before anything else uses the tiles.
bool amx_works(int64_t target) {
#if HWY_ARCH_X86_64
  if (target != HWY_AVX3) return false;
  static const bool works =
      amx_granted() && multiply_alike(kernels_with(target, DotProducts::kInt8, false),
                                      kernels_with(target, DotProducts::kInt8, true));
  return works;
#else
  static_cast<void>(target);
  return false;
#endif
}

}  // namespace

// Clamped SwiGLU is (u + 1) g / (1 + exp(-alpha g)), which is silu(alpha g) · (u + 1) / alpha.
void Gating::operator()(float* gate, float* up, int64_t count) const {
  if (clamped) {
    const float limit = clamp.limit, alpha = clamp.alpha, inverse = 1.0f / clamp.alpha;
    for (int64_t i = 0; i < count; ++i) {
      gate[i] = alpha * std::min(gate[i], limit);
      up[i] = (std::clamp(up[i], -limit, limit) + 1.0f) * inverse;
    }
  }
  kernel(gate, up, count);
}

void Kernels::multiply(const PackedRows& a, const PackedMatrix& w, const ProductPart& part,
                       const float* bias, MutableMatrixView y) const {
  switch (w.type()) {
    case WeightType::kFp32:
    case WeightType::kBf16:
      return multiply_floats(a, w, part, bias, y);
    case WeightType::kInt8:
      return multiply_int8(a, w, part, bias, y);
    case WeightType::kInt6:
      return multiply_int6(a, w, part, bias, y);
    case WeightType::kInt4:
      return multiply_int4(a, w, part, bias, y);
    case WeightType::kCoded:
      return multiply_coded(a, w, part, bias, y);
  }
}

KernelChoice default_choice() {
  const KernelChoice rounded = {.most_dot_products = DotProducts::kInt8AndBf16};
  return best_kernels(rounded).amx ? rounded : KernelChoice();
}

const Kernels& best_kernels(const KernelChoice& choice) {
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());  // a test may have changed them
  const int64_t target = chosen_target();
  const bool may_use_amx =
      choice.amx && choice.most_dot_products != DotProducts::kNone && amx_works(target);
  const DotProducts dots =
      std::min(dot_products_of_cpu(target, may_use_amx), choice.most_dot_products);
  const bool amx = may_use_amx && dots != DotProducts::kNone;
  return kernels_with(target, dots, amx);
}

}  // namespace neuronmm::cpu
