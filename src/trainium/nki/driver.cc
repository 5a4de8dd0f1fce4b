#include "trainium/nki/driver.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "trainium/nki/names.h"

namespace neuronmm::nki {

namespace {

// {0} arguments, {1} reference, {2} assignments, {3} kernel, {4} tolerance, {5} imports
constexpr std::string_view kDriver = R"(

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
    import statistics
    import sys
    import time

    import torch

    torch.manual_seed(0)
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

}  // namespace

// The first operand is X and has deviation 1; weights have 1 / sqrt(rows), so that the result has
// about deviation 1 too, whatever the shape.
std::string emit_driver(const tile::Program& program, const Description& description,
                        double tolerance) {
  std::vector<std::string> names, assignments;
  for (const Operand& operand : description.operands) {
    for (const tile::Buffer& buffer : program.buffers) {
      if (buffer.name != operand.name || buffer.role != tile::HbmRole::kInput) continue;
      const std::string shape = fmt::format("{}", fmt::join(operand.dimensions, ", "));
      const std::string values =
          names.empty() ? fmt::format("torch.randn({})", shape)
                        : fmt::format("(torch.randn({}) / {}**0.5)", shape, operand.dimensions[0]);
      const std::string_view dtype = buffer.dtype == DType::kBF16 ? "bfloat16" : "float32";
      names.push_back(identifier(operand.name));
      assignments.push_back(fmt::format("    {} = {}.to(torch.{})", names.back(), values, dtype));
    }
  }
  std::string imports;
  for (const std::string& function : description.functions) {
    const bool activation = function != "concatenate";
    imports +=
        fmt::format("    from torch{} import {}\n", activation ? ".nn.functional" : "", function);
  }
  if (!imports.empty()) imports += "\n";
  return fmt::format(kDriver, fmt::join(names, ", "), description.reference,
                     fmt::join(assignments, "\n"), identifier(program.name), tolerance, imports);
}

}  // namespace neuronmm::nki
