#include "io/foreign_methods.h"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

namespace neuronmm::io {
namespace {

struct Method {
  std::string_view quant_method;
  std::string_view name;
  std::string_view advice;
};

constexpr std::string_view kOriginal =
    "use the original model with float weights, and round it with `neuronmm quantize`";
constexpr std::string_view kDequantize =
    "use the original model, or make floats with transformers: load it, call "
    "model.dequantize(), and save_pretrained() to another folder";

constexpr Method kMethods[] = {
    {"bitsandbytes", "weights of bitsandbytes", kDequantize},
    {"hqq", "weights of HQQ", kDequantize},
    {"eetq", "weights of EETQ", kOriginal},
    {"aqlm", "code books of AQLM", kOriginal},
    {"quip", "code books of QuIP#", kOriginal},
    {"quip_sharp", "code books of QuIP#", kOriginal},
    {"exl2", "weights of ExLlamaV2 (EXL2)", kOriginal},
    {"exl3", "weights of ExLlamaV3 (EXL3)", kOriginal},
    {"torchao", "weights of torchao", kOriginal},
    {"quanto", "weights of optimum-quanto", kOriginal},
    {"fp_quant", "weights of FP-Quant", kOriginal},
    {"vptq", "code books of VPTQ", kOriginal},
    {"spqr", "weights of SpQR", kOriginal},
    {"higgs", "weights of HIGGS", kDequantize},
    {"bitnet", "weights of BitNet", kOriginal},
    {"mxfp4", "weights in MXFP4 of another model than gpt-oss", kDequantize},
    {"modelopt", "weights of NVIDIA ModelOpt", kOriginal},
    {"quark", "weights of AMD Quark", kOriginal},
    {"marlin", "GPTQ weights in Marlin's layout",
     "use a folder with \"checkpoint_format\": \"gptq\""},
    {"auto-round", "weights of AutoRound",
     "export the model again with the format auto_gptq or auto_awq, or use the original model"},
    {"intel/auto-round", "weights of AutoRound",
     "export the model again with the format auto_gptq or auto_awq, or use the original model"},
};

}  // namespace

std::string refusal_of_method(std::string_view quant_method) {
  const auto* const found = std::ranges::find(kMethods, quant_method, &Method::quant_method);
  const bool known = found != std::end(kMethods);
  const std::string what = known ? fmt::format("{:?} ({})", quant_method, found->name)
                                 : fmt::format("{:?}, a method that is not known", quant_method);
  return fmt::format(
      "expected gptq, awq, compressed-tensors, fp8, or \"neuronmm\" (weights that `neuronmm "
      "quantize` writes), found {}; {}",
      what, known ? found->advice : kOriginal);
}

}  // namespace neuronmm::io
