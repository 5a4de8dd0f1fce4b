// Tests that no fault damages the files of a command. Every command line that writes
// (command_lines.h) is run many times. In each run one system call on a file or folder is disturbed
// (fault_injector.cc): it fails with an error that fits the call, it transfers only half of the
// bytes, or the program is killed there. The following must hold after each fault:
//
// - Each output is absent, unchanged or complete. With exit code 0 everything is as after an
//   undisturbed run. Every other end has exit code 1 and a message.
// - Nothing else is left, except work that a later run continues and what the message names.
// - The same command, run again, leaves the files of an undisturbed run, byte for byte, and nothing
//   else, in the temporary folder neither. If the output was complete already, the command says so.
// - No other file has changed. The program never ends by a signal, except where it was killed.
//
// With NEURONMM_FAULTS=all in the environment every call is disturbed in all these ways, on a file
// system with and without O_TMPFILE. Otherwise a few calls of each command are disturbed, or as
// many as NEURONMM_FAULTS says. Each day chooses other calls.

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "command_lines.h"
#include "gguf/small_gguf.h"
#include "io/small_adapter.h"
#include "parallel/several_processes.h"
#include "places.h"
#include "trainium/nki/python_program.h"
#include "watched_program.h"

namespace neuronmm::faults {

void PrintTo(const Command& command, std::ostream* out) { *out << command.name; }

namespace {

namespace fs = std::filesystem;
using io::get;
using io::put;

// The number of calls of each command that are disturbed, unless all of them are, or the
// environment gives another number.
constexpr long kSampledCalls = 3;

// Returns the ways in which a call of this kind can fail. A kill differs from a kill at the next
// call only if the call changes something.
std::vector<int> codes_of(CallKind kind) {
  switch (kind) {
    case CallKind::kOpen:
      return {EACCES, EIO, EMFILE};
    case CallKind::kCreate:
      return {kKill, ENOSPC, EACCES};
    case CallKind::kRead:
      return {EIO, EINTR, kHalf};
    case CallKind::kWrite:
      return {kKill, ENOSPC, EIO, EINTR, kHalf};
    case CallKind::kSync:
      return {kKill, EIO, ENOSPC};
    case CallKind::kName:
      return {kKill, ENOSPC, EACCES, EIO};
    case CallKind::kMakeFolder:
      return {kKill, ENOSPC, EACCES};
    case CallKind::kRemove:
      return {kKill, EACCES, EIO};
    case CallKind::kMap:
      return {ENOMEM};
    case CallKind::kLock:
      return {EINTR, ENOLCK};
    case CallKind::kStatus:
      return {EACCES, EIO};
    case CallKind::kList:
    case CallKind::kClose:
    case CallKind::kMode:
      break;
  }
  return {EIO};
}

std::string name_of(int code) {
  return code == kKill ? "killed" : code == kHalf ? "half the bytes" : std::strerror(code);
}

bool all_faults() {
  const char* const asked = std::getenv("NEURONMM_FAULTS");
  return asked != nullptr && std::string(asked) == "all";
}

long sampled_calls() {
  const char* const asked = std::getenv("NEURONMM_FAULTS");
  const long number = asked == nullptr ? 0 : std::atol(asked);
  return number > 0 ? number : kSampledCalls;
}

long today() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::hours>(now).count() / 24;
}

// Returns why the command cannot run here, or an empty text.
std::string why_not(Needs needs) {
  const auto has = [](const std::string& command) { return std::system(command.c_str()) == 0; };
  if (needs == Needs::kPython && !python_with_numpy())
    return "no python3 with NumPy: tools/install_dependencies.sh test";
  if (needs != Needs::kMpirun) return {};
  if (!has("ldd '" + program_path().string() + "' | grep -q libmpi"))
    return "this build has no MPI: configure it again after tools/install_dependencies.sh build";
  return parallel::why_no_mpirun();
}

class FaultSweep : public testing::TestWithParam<Command> {
 protected:
  void SetUp() override {
    if (const std::string why = why_not(command_.needs); !why.empty()) GTEST_SKIP() << why;
    const fs::path in = program_.in(), demo = source_dir() / "models/demo";
    put(in / "config.json", R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"],
      "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2,
      "num_key_value_heads": 2, "vocab_size": 2048, "max_position_embeddings": 256,
      "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu", "tie_word_embeddings": true,
      "torch_dtype": "bfloat16"})");
    put(in / "m.gguf", gguf::SmallModel().builder.bytes());
    put(in / "vocabulary.gguf", vocabulary());
    io::write_small_adapter(in / "adapter", 32, 0.1f);
    put(in / "text.txt", get(demo / "evaluation.txt").substr(0, 4000));
    put(in / "ptb.txt", get(demo / "evaluation.txt").substr(0, 2000));
    put(in / "matmul.trace", get(source_dir() / "fuzz/corpus/kernel_trace/matmul"));
    put(in / "baseline.json",
        R"({"kernel": "matmul.trace", "device": "trn2", "latency_ms": 1000})");
    put(in / "double.py",
        "import nki\nimport nki.language as nl\nimport nki.isa as nisa\n"
        "TIMES = 1\n@nki.jit\ndef double(x):\n"
        "    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)\n"
        "    t = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)\n"
        "    nisa.dma_copy(dst=t, src=x)\n"
        "    nisa.tensor_tensor(dst=t, data1=t, data2=t, op=nl.add)\n"
        "    nisa.dma_copy(dst=y, src=t)\n"
        "    return y\n");
    program_.prepare();
    program_.run("synthesize --config ../in/config.json -o ../in/model --seed 1");
    for (const char* file : {"tokenizer.json", "tokenizer_config.json"}) {
      if (fs::exists(demo / file)) fs::copy_file(demo / file, in / "model" / file);
    }
    put(in / "model/chat_template.jinja", "{{ messages | map(attribute='content') | join }}");
    put(in / "model/preprocessor_config.json", "{}");
    if (std::string_view(command_.arguments).find("../in/mixture") != std::string_view::npos) {
      make_mixture(in);
    }
    program_.run("compress ../in/model -o ../in/small --ratio 0.25 --block 8 --method svd");
    program_.run("quantize ../in/model -o ../in/eight");
    program_.run("synthesize --config ../in/config.json -o ../in/old --seed 2");
    before_ = tree_of(in);
    ASSERT_TRUE(fs::exists(in / "small/model.safetensors"));
    ASSERT_TRUE(fs::exists(in / "eight/model.safetensors"));
  }

  // Makes a random mixture with the tokenizer of the other model.
  void make_mixture(const fs::path& in) {
    put(in / "mixture.json", R"({"model_type": "mixtral", "architectures": ["MixtralForCausalLM"],
      "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2,
      "num_key_value_heads": 2, "vocab_size": 2048, "max_position_embeddings": 256,
      "num_local_experts": 4, "num_experts_per_tok": 2, "rms_norm_eps": 1e-5,
      "rope_theta": 10000.0, "hidden_act": "silu", "tie_word_embeddings": true,
      "torch_dtype": "bfloat16"})");
    program_.run("synthesize --config ../in/mixture.json -o ../in/mixture --seed 3");
    fs::copy_file(in / "model/tokenizer.json", in / "mixture/tokenizer.json");
  }

  // Returns a GGUF file without weights.
  static std::string vocabulary() {
    io::GgufBuilder builder;
    builder.text("tokenizer.ggml.model", "gpt2").text("tokenizer.ggml.pre", "smollm");
    builder.texts("tokenizer.ggml.tokens", {"<|end|>", "a", "b", "ab"});
    builder.numbers<int32_t>("tokenizer.ggml.token_type", 5, {3, 1, 1, 1});
    builder.texts("tokenizer.ggml.merges", {"a b"});
    builder.u32("tokenizer.ggml.eos_token_id", 0).u32("tokenizer.ggml.bos_token_id", 0);
    return builder.bytes();
  }

  void prepare() const { program_.prepare(command_.replaces ? "old" : ""); }
  Outcome run(const Fault& fault = {}, const std::string& more = {}) const {
    return program_.run(command_.arguments + more, fault, command_.input, command_.needs);
  }

  // Returns the tree of run/ and the temporary folder, without contents that differ from run to
  // run.
  Tree run_tree() const {
    Tree tree = tree_of(program_.working_folder());
    for (auto& [path, content] : tree) {
      const bool in_folder =
          path.find('/') != std::string::npos && part_of(tree, outputs_[0]).contains(path);
      if (!command_.same_bytes && !in_folder && !path.ends_with('/')) content = "times";
    }
    for (const auto& [path, content] : tree_of(program_.temporary_folder())) {
      tree["tmp/" + path] = content;
    }
    return tree;
  }

  size_t hash_of_files() const {
    std::string all;
    for (const fs::path& folder : {program_.working_folder(), program_.temporary_folder()}) {
      for (const auto& [path, content] : tree_of(folder)) {
        all += fmt::format("{}\n{}\n", path, std::hash<std::string>()(content));
      }
    }
    return std::hash<std::string>()(all);
  }

  bool is_complete(const Tree& tree, const std::string& output) const {
    return part_of(tree, output) == part_of(finished_, output);
  }

  // Returns whether `path` is an output, a part of one, or a folder above it.
  bool belongs_to_output(const std::string& path) const {
    return std::ranges::any_of(outputs_, [&](const std::string& output) {
      return path == output || path.starts_with(output + "/") || (output + "/").starts_with(path);
    });
  }

  // Returns what an error may not leave in `tree`.
  std::string leftovers(const Tree& tree, const std::string& message) const {
    std::string found;
    for (const auto& [path, content] : tree) {
      if (initial_.contains(path) || belongs_to_output(path)) continue;
      const std::string top = path.substr(0, path.find('/'));
      const std::vector<std::string> keeps = words_of(command_.keeps);
      if (std::ranges::find(keeps, top) != keeps.end()) continue;
      if (top == outputs_[0] + ".partial" && has_work(tree, top)) continue;
      if (message.find(top) == std::string::npos) found += " " + path;
    }
    return found;
  }
  // Returns whether the staging folder holds finished work, and nothing that only looks like it.
  static bool has_work(const Tree& tree, const std::string& staging) {
    bool work = false;
    for (const auto& [path, content] : part_of(tree, staging)) {
      if (path.starts_with(staging + "/model/")) return false;
      work |= path.starts_with(staging + "/work/") && !path.ends_with('/') &&
              !path.ends_with("/settings.json");
    }
    return work;
  }

  void expect_good_end(const Outcome& faulted, bool killed, const std::string& where) const {
    const bool launched = command_.needs == Needs::kMpirun;
    const bool child = command_.needs == Needs::kPython;
    if (killed && (launched || (child && faulted.signal == 0))) {
      EXPECT_NE(faulted.exit_code, 0) << where << faulted.output;
      return;
    }
    EXPECT_EQ(faulted.signal, killed ? SIGKILL : 0) << where << faulted.output;
    if (killed) return;
    EXPECT_TRUE(faulted.exit_code == 0 || faulted.exit_code == 1) << where << faulted.output;
    const bool said = faulted.output.find("neuronmm") != std::string::npos;
    EXPECT_TRUE(faulted.exit_code == 0 || said) << where << "no message: " << faulted.output;
  }

  void expect_whole_outputs(const Tree& tree, const std::string& where) const {
    for (const std::string& output : outputs_) {
      EXPECT_TRUE(is_complete(tree, output) || part_of(tree, output) == part_of(initial_, output))
          << where
          << "half an output:" << difference(part_of(finished_, output), part_of(tree, output));
    }
    for (const auto& [path, content] : initial_) {
      if (belongs_to_output(path)) continue;
      EXPECT_TRUE(tree.contains(path) && tree.at(path) == content) << where << "foreign: " << path;
    }
  }

  // Runs the command again. A late report may need one more run. The files decide how a run ends,
  // so that one run for each state of them is enough.
  void expect_rerun(const Tree& tree, const std::string& where) {
    if (!rerun_.insert(hash_of_files()).second) return;
    Outcome again = run();
    const bool folder = finished_.contains(outputs_[0] + "/");
    if (is_complete(tree, outputs_[0]) && (folder || command_.refuses) && !command_.replaces) {
      EXPECT_EQ(again.exit_code, 1) << where << again.output;
      EXPECT_NE(again.output.find("already exists"), std::string::npos) << where << again.output;
    } else {
      EXPECT_EQ(again.exit_code, 0) << where << "not resumable: " << again.output;
    }
    if (command_.late_report && run_tree() != finished_) {
      again = run({}, " --force");
      EXPECT_EQ(again.exit_code, 0) << where << again.output;
    }
    EXPECT_EQ(difference(finished_, run_tree()), "") << where << "after the rerun";
  }

  void expect_survived(const Outcome& faulted, const Fault& fault, const std::string& where) {
    // The last calls of a run do not happen if another run needed fewer, which is rare. Nothing was
    // disturbed then.
    const bool killed = fault.code == kKill && !faulted.failed.empty();
    expect_good_end(faulted, killed, where);
    const Tree tree = run_tree();
    expect_whole_outputs(tree, where);
    const bool failed = killed || faulted.exit_code != 0;
    if (!failed) {
      EXPECT_EQ(difference(finished_, tree), "") << where << "exit code 0: " << faulted.output;
    }
    if (!killed) {
      EXPECT_EQ(leftovers(tree, faulted.output), "") << where << faulted.output;
    }
    expect_rerun(tree, where);
    EXPECT_EQ(difference(before_, tree_of(program_.in())), "") << where;
  }

  // Returns the faults of a run with `calls` calls, of which the last run tells the kinds.
  std::vector<Fault> faults_of(long calls) const {
    std::vector<Fault> faults;
    const long step = all_faults() ? 1 : std::max(1L, calls / sampled_calls());
    const long first = all_faults() ? 1 : 1 + today() % step;
    for (long call = first; call <= calls; call += step) {
      std::vector<int> codes = codes_of(program_.kind(call));
      if (!all_faults()) codes = {codes[static_cast<size_t>(call) % codes.size()]};
      for (const int code : codes) faults.push_back({call, code});
    }
    return faults;
  }

  void sweep() {
    prepare();
    initial_ = run_tree();
    const Outcome undisturbed = run();
    ASSERT_EQ(undisturbed.exit_code, 0) << undisturbed.output;
    finished_ = run_tree();
    prepare();
    const long calls = run().calls;
    ASSERT_GT(calls, 3);
    ASSERT_LT(calls, kMaxCalls);
    EXPECT_EQ(difference(finished_, run_tree()), "") << "two undisturbed runs differ";
    const std::vector<Fault> faults = faults_of(calls);
    for (const Fault& fault : faults) {
      prepare();
      const Outcome faulted = run(fault);
      expect_survived(faulted, fault,
                      fmt::format("{} at {} of {} ({}): ", name_of(fault.code), fault.call, calls,
                                  faulted.failed));
    }
    fmt::print("{}: {} faults at {} calls\n", command_.name, faults.size(), calls);
  }

  const Command command_ = GetParam();
  const std::vector<std::string> outputs_ = words_of(command_.outputs);
  const WatchedProgram program_;
  // The trees of in/, of run/ at the start and of run/ after an undisturbed run.
  Tree before_, initial_, finished_;
  std::set<size_t> rerun_;  // Hashes of the states that a run has begun with.
};

TEST_P(FaultSweep, EveryFaultIsSurvived) {
  for (const bool unnamed : {true, false}) {
    if (!all_faults() && unnamed != (today() % 2 == 0)) continue;
    SCOPED_TRACE(unnamed ? "with O_TMPFILE" : "without O_TMPFILE");
    program_.set_unnamed_files(unnamed);
    sweep();
    // A command that asked for no unnamed file does the same on any file system.
    if (HasFatalFailure() || !program_.asked_for_unnamed_files()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Commands, FaultSweep, testing::ValuesIn(commands()),
                         [](const auto& command) { return command.param.name; });

}  // namespace
}  // namespace neuronmm::faults
