#include "exports/readme.h"

#include <fmt/ranges.h>

namespace neuronmm::exports {
namespace {

std::string packages_text(const Release& release) {
  std::vector<std::string> texts;
  for (const Package& package : release.packages) {
    texts.push_back(fmt::format("{} {}", package.name, package.version));
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::string version_table(const Manifest& m) {
  std::string text = "| Neuron SDK | packages | devices | |\n|---|---|---|---|\n";
  for (const Release& release : releases(m.target)) {
    text += fmt::format("| {} | {} | {} | {} |\n", release.sdk, packages_text(release),
                        fmt::join(release.devices, ", "),
                        release.sdk == m.choice.release.sdk ? "this export" : "");
  }
  return text;
}

std::string latency_row(std::string_view what, double Prediction::*time, const Manifest& m) {
  const double dense = m.dense.*time, factored = m.factored.*time;
  return fmt::format("| {} | {:.3f} | {:.3f} | {:.3f} | | | |\n", what, dense, factored,
                     dense / factored);
}

std::string latency_table(const Manifest& m) {
  return fmt::format(
             "| {} prompt + {} new tokens, batch 1 | dense, simulated ms | factored, simulated ms "
             "| "
             "speed-up, simulated | dense, measured ms | factored, measured ms | with kernels, "
             "measured ms |\n|---|---|---|---|---|---|---|\n",
             m.prompt_tokens, m.new_tokens) +
         latency_row("prefill", &Prediction::prefill_ms, m) +
         latency_row("a token", &Prediction::decode_ms, m) +
         latency_row("a request", &Prediction::request_ms, m);
}

std::string install_steps(const Manifest& m) {
  if (m.target == Target::kVllmNeuron) {
    return "In the environment of the vLLM Neuron plugin:\n\n    pip install ./plugin\n";
  }
  return "In the environment of NxD Inference; nothing else is to be installed.\n";
}

}  // namespace

std::string readme(const Manifest& m) {
  std::string text = fmt::format(
      "# {} for {} on {}\n\n"
      "**Never run on a Trainium.** Everything here was written from public documentation and "
      "sources, and tested on a CPU\nagainst stand-ins for the SDK. `check_on_trainium.py` says, "
      "step by step, what holds; its report is welcome.\n\n"
      "{} {}, form `{}`, bf16, one core group. Written by neuronmm {}.\n\n"
      "## Use\n\n{}\n"
      "    python check_on_trainium.py --dense ORIGINAL     pass, fail or skip for each step; also "
      "on an x86 machine without a device\n"
      "    python run.py compile                            also without a device\n"
      "    python run.py generate \"The color of the sky is\"\n"
      "    python run.py benchmark --dense ORIGINAL         writes benchmark_report.json\n\n"
      "ORIGINAL is the folder of the model that was compressed. `check_report.json` goes back to "
      "the project, where\n`neuronmm paper validation --measured check_report.json` sets it beside "
      "the simulation.\n\n"
      "## Code\n\n"
      "All Python files here are a part of neuronmm (`python/export` and `python/transformers` of "
      "its source). None comes from\nthe model. `export.json` has the checksums of all files, and "
      "`check_on_trainium.py` compares them.\n\n"
      "## Versions\n\n{}\n"
      "## Latency\n\n{}\n"
      "Simulated by neuronmm for one NeuronCore of {}; not measured. The columns on the right are "
      "for what you measure.\n",
      m.source, target_name(m.target), m.choice.device, architecture(m.config), m.source,
      m.config.compression->form, m.version, install_steps(m), version_table(m), latency_table(m),
      m.choice.device);
  if (!m.use.notes.empty()) {
    text += "\n## What runs without our kernels\n\n";
    for (const std::string& note : m.use.notes) text += fmt::format("* {}\n", note);
  }
  if (!m.kernels.empty()) {
    text += fmt::format(
        "\n## Kernels\n\nOff unless `NEURONMM_KERNELS` names the folder `kernels`. They take the "
        "place of an MLP in prefills of exactly\n{} tokens, on both cores of a pair (LNC 2), and "
        "need its "
        "weights in memory a second time.\n",
        m.prompt_tokens);
  }
  return text;
}

}  // namespace neuronmm::exports
