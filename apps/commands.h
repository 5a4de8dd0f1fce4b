#pragma once
// Declares the program and its subcommands. Each subcommand has a .cc file of its own, which
// defines one of the add_ functions declared here; main.cc calls all of them. The file also
// declares the options that select a device, which most commands share, and the functions that make
// a backend from them (device_options.cc).

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/progress.h"
#include "base/result.h"
#include "help.h"
#include "ops/backend.h"

namespace neuronmm::apps {

// The work of a subcommand, called after its flags are parsed. The value is the exit code. It is 0
// on success; `check` returns 1 if the check fails. An Error is printed to stderr as "neuronmm
// COMMAND: message" and becomes exit code 1, or 130 if it is an interrupt.
using Run = std::function<Result<int>()>;

// How a command runs when a launcher (mpirun) has started the program several times.
enum class ProcessMode {
  // The command runs as one process only; with several it is refused.
  kOneProcess,
  // Process 0 runs the command. The other processes compute their parts of the models that it opens
  // (tensor_parallel/follow.h).
  kTensorParallel,
  // Every process runs the command, and the command itself divides the calibration text
  // (model/data_processes.h).
  kDataParallel
};

// The section of the help text that lists a subcommand.
enum class CommandGroup { kModels, kKernels, kPaper };

// The command of this run. run_on_processes() (processes.h) checks that its arguments are the same
// in all processes.
struct LaunchedCommand {
  std::string name;
  std::vector<std::string> arguments;
  ProcessMode mode;
};
// The functions that a program needs to run as one of several processes (processes.h). Both are
// null in a program that always runs as one process.
struct ProcessHooks {
  void (*add_options)(CLI::App* command);
  int (*run)(const LaunchedCommand& command, const std::function<int()>& run_command);
};

// The command line program: it holds the subcommands, parses the arguments and runs one subcommand.
class Program {
 public:
  Program();
  // Lets the commands run on several processes. Call it before the first command is added.
  void set_process_hooks(const ProcessHooks& hooks) { process_hooks_ = hooks; }
  // Adds a subcommand and returns it. `summary` is a sentence without its full stop. `examples` are
  // two command lines, which the help shows as they are. The caller adds the flags to the returned
  // CLI::App, each in one of the groups of help.h, and passes the work to set_run().
  CLI::App* add(CommandGroup group, const std::string& name, const std::string& summary,
                const std::vector<std::string>& examples);
  // Sets the arguments in the usage line of a subcommand whose own checks require more than CLI11
  // knows of (HelpFormatter::set_usage).
  void set_usage(const CLI::App* command, const std::string& arguments) {
    help_->set_usage(command, arguments);
  }
  // Sets the work of a subcommand that add() has returned. Every subcommand needs it.
  void set_run(CLI::App* command, Run run, ProcessMode mode = ProcessMode::kOneProcess);
  // Parses the arguments and runs the subcommand that they name. Returns the exit code, which is 2
  // for wrong usage.
  int run(int argc, char** argv);
  // Returns the arguments that followed the program's name.
  const std::vector<std::string>& arguments() const { return arguments_; }

 private:
  struct Entry {
    CLI::App* command;
    Run run;
    ProcessMode mode;
  };
  void add_version();
  void add_describe();
  std::string usage_message(CLI::App& command, const std::string& name,
                            const CLI::ParseError& error);
  int show_help();
  int report_parse_error(const CLI::ParseError& error);
  int run(const Entry& entry);

  CLI::App cli_;
  std::shared_ptr<HelpFormatter> help_;
  ProcessHooks process_hooks_ = {};
  std::vector<Entry> entries_;
  std::vector<std::string> arguments_;
};

// The values of --device, --threads and --activations, which all commands share that run a model,
// and of --numa and --kv.
struct DeviceOptions {
  std::string device = "cpu";
  int threads = 0;  // the number of threads; 0 means all that can compute at once
  bool numa = false;
  std::string activations = "auto";
  std::string kv = "auto";
  // The memory that the command may take, in bytes, or 0 if only the machine limits it.
  int64_t memory_bytes = 0;
  // Returns whether the device is a simulated NeuronCore.
  bool simulated() const { return device.starts_with("trn"); }
};
// The devices that --device accepts: the CPU, or also the simulated NeuronCores.
enum class Devices { kHost, kHostAndSimulated };
// Adds the three flags. `options` receives their values and must outlive the command.
void add_device_options(CLI::App* command, DeviceOptions& options,
                        Devices devices = Devices::kHost);
// Add --numa and --kv, for the commands that generate text.
void add_numa_option(CLI::App* command, DeviceOptions& options);
void add_kv_option(CLI::App* command, DeviceOptions& options);
// Makes the backend that the options ask for, and sets the number of threads. With --numa it binds
// them, and weights that the backend takes are copied to each memory domain. Under a launcher the
// backend computes on all processes, and a device other than "cpu" or --numa is an error.
Result<std::unique_ptr<ops::Backend>> make_backend(const DeviceOptions& options);
// Makes a backend for measuring latencies, as make_backend() does. A simulated device then predicts
// times but computes no values.
Result<std::unique_ptr<ops::Backend>> make_latency_backend(const DeviceOptions& options);

void add_bench(Program& program);
void add_chat(Program& program);
void add_check(Program& program);
void add_compare(Program& program);
void add_compress(Program& program);
void add_demo(Program& program);
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
