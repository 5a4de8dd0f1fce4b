#pragma once
// How a subcommand joins the program: one file per subcommand, each with one add_ function declared
// here.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/progress.h"
#include "base/result.h"
#include "ops/backend.h"

namespace neuronmm::apps {

// What a subcommand does after its flags are parsed. The value is the exit code (0; `check` also
// has 1); an Error is printed to stderr as "neuronmm COMMAND: message" and becomes exit code 1, or
// 130 when it is an interrupt.
using Run = std::function<Result<int>()>;

// What a command does when a launcher (mpirun) has started the program several times. kAlone: it is
// refused. kLeads: process 0 runs it, the others compute with it whatever models it opens
// (tensor_parallel/follow.h). kEach: all run it, and it sees to what each does
// (model/data_processes.h).
enum class Processes { kAlone, kLeads, kEach };

inline constexpr int kInterruptedExit = 130;  // 128 + SIGINT, what shells report

// Where a subcommand stands in the help.
enum class CommandGroup { kModels, kKernels, kPaper };

struct TogetherCommand {
  std::string name;
  std::vector<std::string> arguments;
  Processes processes;
};
// What a program does where it may be one of several processes (processes.h).
struct Together {
  void (*add_options)(CLI::App* command);
  int (*run)(const TogetherCommand& command, const std::function<int()>& alone);
};

class Program {
 public:
  Program();
  // Before any command is added.
  void set_together(const Together& together) { together_ = together; }
  // The new subcommand; put its flags on the returned CLI::App and its work into set_run.
  CLI::App* add(CommandGroup group, const std::string& name, const std::string& description);
  void set_run(CLI::App* command, Run run, Processes processes = Processes::kAlone);
  int run(int argc, char** argv);
  // What followed the program's name.
  const std::vector<std::string>& arguments() const { return arguments_; }

 private:
  struct Entry {
    CLI::App* command;
    Run run;
    Processes processes;
  };
  void add_describe();
  int explain(const CLI::ParseError& error);
  int run(const Entry& entry);

  CLI::App cli_;
  Together together_ = {};
  std::vector<Entry> runs_;
  std::vector<std::string> arguments_;
};

// --device, --threads and --activations, shared by every command that runs a model. Some run it on
// simulated NeuronCores, too.
struct DeviceOptions {
  std::string device = "cpu";
  int threads = 0;  // 0: all cores
  std::string activations = "auto";
  bool simulated() const { return device.starts_with("trn"); }
};
enum class Devices { kHost, kHostAndSimulated };
void add_device_options(CLI::App* command, DeviceOptions& options,
                        Devices devices = Devices::kHost);
Result<std::unique_ptr<ops::Backend>> make_backend(const DeviceOptions& options);
// For latencies alone: a simulated device computes no values.
Result<std::unique_ptr<ops::Backend>> make_latency_backend(const DeviceOptions& options);

void add_bench(Program& program);
void add_chat(Program& program);
void add_check(Program& program);
void add_compare(Program& program);
void add_compress(Program& program);
void add_emit(Program& program);
void add_eval(Program& program);
void add_export(Program& program);
void add_finetune(Program& program);
void add_fit(Program& program);
void add_generate(Program& program);
void add_import(Program& program);
void add_inspect(Program& program);
void add_kernels(Program& program);
void add_paper(Program& program);
void add_perplexity(Program& program);
void add_quantize(Program& program);
void add_serve(Program& program);
void add_simulate(Program& program);
void add_nki(Program& program);
void add_synthesize(Program& program);
void add_tokenize(Program& program);
void add_tune(Program& program);

}  // namespace neuronmm::apps
