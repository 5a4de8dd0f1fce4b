#pragma once
// Runs a command on several processes that an MPI launcher (mpirun) has started. Process 0 leads
// and prints the report. program.cc calls run_on_processes() for each command, and
// device_options.cc calls make_shared_backend(). A process that is lost ends the others with an
// error.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "commands.h"
#include "parallel/communicator.h"

namespace neuronmm::apps {

// Returns the communicator of all processes of this run. Without a launcher it has one process.
parallel::Communicator& all_processes();

// Adds --link-timeout, --link and --link-values.
void add_link_options(CLI::App* command);

// Runs a command and returns its exit code. Without a launcher this only calls `run_command`.
// Otherwise the function connects the processes and refuses to run if their version, arguments or
// number of threads differ. It then calls `run_command` in process 0 or in every process, depending
// on command.mode.
int run_on_processes(const LaunchedCommand& command, const std::function<int()>& run_command);

// Makes a backend that computes on all processes. Only process 0 calls this function; it sends the
// options to the other processes, which make their backends from them. Error: a device other than
// the CPU.
Result<std::unique_ptr<ops::Backend>> make_shared_backend(const DeviceOptions& options);
// Makes the backend of this process alone, for all values or only for latencies. The definitions
// are in device_options.cc.
Result<std::unique_ptr<ops::Backend>> make_own_backend(const DeviceOptions& options);
Result<std::unique_ptr<ops::Backend>> make_own_latency_backend(const DeviceOptions& options);

}  // namespace neuronmm::apps
