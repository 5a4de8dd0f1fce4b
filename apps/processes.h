#pragma once
// The program started several times by a launcher of MPI: who the others are, and how a command
// runs on all of them.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "commands.h"
#include "parallel/communicator.h"

namespace neuronmm::apps {

// All processes of this run; a single one without a launcher.
parallel::Communicator& all_processes();

// --link-timeout, --link, --link-values.
void add_link_options(CLI::App* command);

// Meets the other processes, refuses what differs between them, and runs the command as it is said
// to: `alone` in process 0, or in each. Without a launcher that is all. The exit code.
int run_together(const TogetherCommand& command, const std::function<int()>& alone);

// A backend of all processes: process 0 has those that follow it make theirs by the same options.
Result<std::unique_ptr<ops::Backend>> share_backend(const DeviceOptions& options);
// One process's own; device_options.cc has it.
Result<std::unique_ptr<ops::Backend>> make_own_backend(const DeviceOptions& options);
Result<std::unique_ptr<ops::Backend>> make_own_latency_backend(const DeviceOptions& options);

}  // namespace neuronmm::apps
