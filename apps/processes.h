#pragma once
// Runs a command on several processes that an MPI launcher (mpirun) has started. Process 0 leads
// and prints the report. main.cc passes add_link_options() and run_on_processes() to Program as
// hooks (commands.h), and Program calls the second one for each command. Commands make backends
// with make_backend() (commands.h), which calls the functions at the end of this file. A process
// that is lost ends the others with an error.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "commands.h"
#include "parallel/communicator.h"

namespace neuronmm::apps {

// Returns the communicator of all processes of this run. Without a launcher it has one process, and
// so it has before and after run_on_processes(). The reference is valid while the command runs.
parallel::Communicator& world_communicator();

// Adds --link-timeout, --link and --link-values. One set of values serves the whole program,
// because only one command runs.
void add_link_options(CLI::App* command);

// Runs a command and returns its exit code. Without a launcher this only calls `run_command`.
// Otherwise the function connects the processes, and calls `run_command` in process 0 or in every
// process, depending on command.mode. A message is printed and every process returns 1 if:
//   the processes cannot be connected
//   their version, arguments or number of threads differ
//   the mode is kOneProcess
//
// An exception of `run_command` becomes a message and ends all processes.
int run_on_processes(const LaunchedCommand& command, const std::function<int()>& run_command);

// Makes a backend that computes on all processes, in mode kTensorParallel. Only process 0 calls
// this function; it sends the options to the other processes, which make their backends from them.
// Errors: a device other than "cpu", and a process that cannot make its backend.
Result<std::unique_ptr<ops::Backend>> make_shared_backend(const DeviceOptions& options);
// Make the backend of this process alone, and set its number of threads. Commands whose processes
// each compute on their own call these functions directly (data_processes.h, fit.cc). On a
// simulated device, the latency backend predicts times without computing values. Error: a simulated
// device of an unknown name. The definitions are in device_options.cc.
Result<std::unique_ptr<ops::Backend>> make_own_backend(const DeviceOptions& options);
Result<std::unique_ptr<ops::Backend>> make_own_latency_backend(const DeviceOptions& options);

}  // namespace neuronmm::apps
