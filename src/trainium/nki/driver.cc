#include "trainium/nki/driver.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "trainium/nki/names.h"

namespace neuronmm::nki {

namespace {

// The source of the torch driver. Its fields are:
// * {0} the arguments
// * {1} the reference
// * {2} the assignments of the inputs
// * {3} the kernel
// * {4} the tolerance
// * {5} the imports of the reference
// * {6} the runtime's cores
// * {7} the imports of main
constexpr std::string_view kTorch = R"(

def reference({0}):
    """What the kernel computes, by torch."""
{5}    return {1}


def connect():
    """The NeuronCore as a torch device, and a function that waits until it is idle."""
    try:
        import torch_xla.core.xla_model as xm
    except ImportError:  # the native backend of torch-neuronx (Neuron SDK 2.33)
        import torch
        import torch_neuronx  # noqa: F401

        return torch.device("neuron"), torch.accelerator.synchronize

    def wait():
        xm.mark_step()
        xm.wait_device_ops()

    return xm.xla_device(), wait


def main(warm_up=5, iterations=20):
    """Runs the kernel, checks it against torch in fp32 and times it."""
{7}    import statistics
    import sys
    import time

    import torch

{6}    torch.manual_seed(0)
{2}
    inputs = [{0}]

    device, wait = connect()
    on_device = [tensor.to(device) for tensor in inputs]
    found = {3}(*on_device)
    wait()

    # Five times what independent roundings would add up to, in the Frobenius norm.
    tolerance = {4:.3g}
    expected = reference(*(tensor.float() for tensor in inputs))
    error = ((found.cpu().float() - expected).norm() / expected.norm()).item()
    ok = error <= tolerance
    print(f"relative error {{error:.3g}}, at most {{tolerance:.3g}}: {{'ok' if ok else 'WRONG'}}")

    milliseconds = []
    for i in range(warm_up + iterations):
        start = time.perf_counter()
        {3}(*on_device)
        wait()
        if i >= warm_up:
            milliseconds.append(1e3 * (time.perf_counter() - start))
    milliseconds.sort()
    # Wall-clock, the launch included; neuron-explorer gives the time on the core alone.
    print(
        f"{{iterations}} calls: median {{statistics.median(milliseconds):.3f}} ms, "
        f"fastest {{milliseconds[0]:.3f}} ms, slowest {{milliseconds[-1]:.3f}} ms"
    )
    sys.exit(0 if ok else 1)


if __name__ == "__main__":
    main()
)";

// The source of the NumPy driver. Its fields are:
// * {0} the arguments
// * {1} the reference
// * {2} the assignments of the inputs
// * {3} the call of the kernel
// * {4} the tolerance
// * {5} the imports and functions
// * {6} the place where the kernel runs
// * {7} the timing
// * {8} the arguments of main
// * {9} the runtime's cores
constexpr std::string_view kNumpy = R"(

{5}def reference({0}):
    """What the kernel computes, by NumPy."""
    return {1}


def main({8}):
    """Runs the kernel {6} and checks it against NumPy in fp32."""
{9}    random = np.random.default_rng(0)
{2}
    inputs = [{0}]
    found = np.asarray({3}, dtype=np.float32)

    # Five times what independent roundings would add up to, in the Frobenius norm.
    tolerance = {4:.3g}
    expected = reference(*(array.astype(np.float32) for array in inputs))
    error = float(np.linalg.norm(found - expected) / np.linalg.norm(expected))
    ok = error <= tolerance
    print(f"relative error {{error:.3g}}, at most {{tolerance:.3g}}: {{'ok' if ok else 'WRONG'}}")
{7}    sys.exit(0 if ok else 1)


if __name__ == "__main__":
    main()
)";

constexpr std::string_view kNumpyTiming = R"(
    milliseconds = []
    for i in range(warm_up + iterations):
        start = time.perf_counter()
        {}
        if i >= warm_up:
            milliseconds.append(1e3 * (time.perf_counter() - start))
    # Wall-clock, copies to and from the device included; neuron-explorer gives the time on the core.
    print(f"{{iterations}} calls: fastest {{min(milliseconds):.3f}} ms, slowest {{max(milliseconds):.3f}} ms")
)";

// Returns the inputs of the program, in order.
std::vector<std::pair<const Operand*, DType>> inputs_of(const tile::Program& program,
                                                        const Description& description) {
  std::vector<std::pair<const Operand*, DType>> inputs;
  for (const Operand& operand : description.operands) {
    for (const tile::Buffer& buffer : program.buffers) {
      if (buffer.name != operand.name || buffer.role != tile::HbmRole::kInput) continue;
      inputs.emplace_back(&operand, buffer.dtype);
    }
  }
  return inputs;
}

std::vector<std::string> names_of(const std::vector<std::pair<const Operand*, DType>>& inputs) {
  std::vector<std::string> names;
  for (const auto& [operand, dtype] : inputs) names.push_back(identifier(operand->name));
  return names;
}

// How a library makes random inputs.
struct RandomText {
  std::string_view normal;        // Normal values of a shape.
  std::string_view permutation;   // The numbers below a limit in random order.
  std::string_view cast;          // The conversion to a type.
  std::string_view bf16, others;  // The modules of bfloat16 and of the other types.

  std::string cast_to(DType dtype) const {
    const std::string_view name = dtype == DType::kBF16  ? "bfloat16"
                                  : dtype == DType::kI32 ? "int32"
                                                         : "float32";
    return fmt::format("{}({}.{})", cast, dtype == DType::kBF16 ? bf16 : others, name);
  }
};
constexpr RandomText kTorchRandom = {"torch.randn({})", "torch.randperm({})", "to", "torch",
                                     "torch"};
constexpr RandomText kNumpyRandom = {"random.standard_normal(({}))", "random.permutation({})",
                                     "astype", "ml_dtypes", "np"};

// Returns assignments of random inputs. The first operand is X and has deviation 1. Weights have 1
// / sqrt(contraction), so that the result also has a deviation of about 1 for every shape. Integers
// are different numbers of places.
std::string random_inputs(const std::vector<std::pair<const Operand*, DType>>& inputs,
                          const RandomText& text) {
  std::vector<std::string> lines;
  for (const auto& [operand, dtype] : inputs) {
    const std::string shape = fmt::format("{}", fmt::join(operand->dimensions, ", "));
    const std::string& contraction =
        operand->contraction.empty() ? operand->dimensions[0] : operand->contraction;
    std::string values = fmt::format(fmt::runtime(text.normal), shape);
    if (dtype == DType::kI32) {
      values = fmt::format("{}[:{}].reshape(({}))",
                           fmt::format(fmt::runtime(text.permutation), operand->values),
                           operand->dimensions.back(), shape);
    } else if (!lines.empty()) {
      values = fmt::format("({} / {}**0.5)", values, contraction);
    }
    lines.push_back(
        fmt::format("    {} = {}.{}", identifier(operand->name), values, text.cast_to(dtype)));
  }
  return fmt::format("{}", fmt::join(lines, "\n"));
}

// Returns "xuv", or "xuv[2]" if the kernel is launched on two cores.
std::string launch_text(const tile::Program& program, const Description& description) {
  const std::string cores = description.cores > 1 ? fmt::format("[{}]", description.cores) : "";
  return identifier(program.name) + cores;
}

// Returns lines that set the runtime's number of cores. The runtime starts with two cores on trn2
// and trn3, and a launch on another number is an error (nki.jit, SDK 2.32). The devices of the
// legacy dialect have one core.
std::string runtime_cores(const Description& description) {
  if (description.release.dialect == Dialect::kNeuronxcc) return "";
  return fmt::format(
      "    # The runtime's cores have to be the launch's; trn2 and trn3 start with 2.\n"
      "    os.environ.setdefault(\"NEURON_LOGICAL_NC_CONFIG\", \"{}\")\n",
      std::max<int64_t>(1, description.cores));
}

std::string torch_driver(const tile::Program& program, const Description& description,
                         double tolerance) {
  const auto inputs = inputs_of(program, description);
  std::string imports;
  for (const std::string& function : description.functions) {
    const bool activation = function != "concatenate";
    imports +=
        fmt::format("    from torch{} import {}\n", activation ? ".nn.functional" : "", function);
  }
  if (!imports.empty()) imports += "\n";
  return fmt::format(kTorch, fmt::join(names_of(inputs), ", "), description.reference,
                     random_inputs(inputs, kTorchRandom), launch_text(program, description),
                     tolerance, imports, runtime_cores(description),
                     description.release.dialect == Dialect::kNki ? "    import os\n" : "");
}

// Returns the imports of NumPy's functions, and definitions of the functions that NumPy lacks.
std::string numpy_functions(const Description& description, bool bf16, bool timed) {
  std::string text = timed ? "import sys\nimport time\n\n" : "import sys\n\n";
  if (timed && description.release.dialect == Dialect::kNki) text = "import os\n" + text;
  if (bf16) text += "import ml_dtypes\n";
  text += "import numpy as np\n";
  for (const std::string& function : description.functions) {
    if (function == "concatenate") text += "from numpy import concatenate\n";
  }
  for (const std::string& function : description.functions) {
    if (function == "silu") {
      text +=
          "\n\ndef silu(x):\n    \"\"\"x * sigmoid(x).\"\"\"\n    return x / (1 + np.exp(-x))\n";
    }
  }
  return text + "\n\n";
}

std::string numpy_call(const tile::Program& program, const Description& description,
                       Driver driver) {
  const std::string kernel = launch_text(program, description);
  const bool legacy = description.release.dialect == Dialect::kNeuronxcc;
  if (driver == Driver::kNumpy) {
    return fmt::format(fmt::runtime(legacy ? "nki.baremetal({})(*inputs)" : "{}(*inputs)"), kernel);
  }
  return fmt::format(
      fmt::runtime(legacy ? "nki.simulate_kernel({}, *inputs)" : "nki.simulate({})(*inputs)"),
      kernel);
}

std::string numpy_driver(const tile::Program& program, const Description& description,
                         Driver driver, double tolerance) {
  const auto inputs = inputs_of(program, description);
  const bool timed = driver == Driver::kNumpy;
  const bool bf16 = !inputs.empty() && inputs.front().second == DType::kBF16;
  const std::string call = numpy_call(program, description, driver);
  return fmt::format(kNumpy, fmt::join(names_of(inputs), ", "), description.reference,
                     random_inputs(inputs, kNumpyRandom), call, tolerance,
                     numpy_functions(description, bf16, timed),
                     timed ? "stand-alone on a NeuronCore" : "in the SDK's simulator",
                     timed ? fmt::format(kNumpyTiming, call) : "",
                     timed ? "warm_up=5, iterations=20" : "",
                     timed ? runtime_cores(description) : "");
}

}  // namespace

const std::vector<std::string>& driver_names() {
  static const std::vector<std::string> names = {"torch", "numpy", "simulate"};
  return names;
}

std::optional<Driver> find_driver(std::string_view name) {
  for (const Driver driver : {Driver::kTorch, Driver::kNumpy, Driver::kSimulate}) {
    if (name == driver_names()[static_cast<size_t>(driver)]) return driver;
  }
  return std::nullopt;
}

std::string emit_driver(const tile::Program& program, const Description& description, Driver driver,
                        double tolerance) {
  return driver == Driver::kTorch ? torch_driver(program, description, tolerance)
                                  : numpy_driver(program, description, driver, tolerance);
}

}  // namespace neuronmm::nki
