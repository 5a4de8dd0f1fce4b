#include "processes.h"

#include <cstdlib>
#include <sstream>
#include <thread>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/cpu_quota.h"
#include "base/interrupt.h"
#include "base/parallel.h"
#include "base/printable.h"
#include "flags.h"
#include "message.h"
#include "parallel/agreement.h"
#include "parallel/connect.h"
#include "process.h"
#include "tensor_parallel/backend.h"
#include "tensor_parallel/follow.h"
#include "tensor_parallel/order.h"
#include "version.h"

namespace neuronmm::apps {
namespace {

using tensor_parallel::Order;

struct LinkFlags {
  parallel::LinkOptions link;
  std::string transport = "auto", value_format = "fp32";
};
// The flags of the one command that runs.
LinkFlags& link_flags() {
  static LinkFlags flags;
  return flags;
}

std::unique_ptr<parallel::Communicator>& communicator() {
  static std::unique_ptr<parallel::Communicator> processes = parallel::make_single();
  return processes;
}

// Gives each process of a host an equal share of the cores and of the CPU quota. If the launcher
// has bound each process to some cores, it keeps these. The number of threads stays as it is if the
// user has set OMP_NUM_THREADS. --threads is applied later and overrides both.
void share_cores(int processes_of_host) {
  if (std::getenv("OMP_NUM_THREADS") != nullptr) return;
  const bool bound = allowed_core_list().size() < std::thread::hardware_concurrency();
  set_num_threads(threads_for_process(processes_of_host, /*shares_cores=*/!bound));
}

Status connect_processes(const LaunchedCommand& command) {
  link_flags().link.shared_memory = link_flags().transport == "auto";
  link_flags().link.on_fatal = [name = command.name](const std::string& message) {
    print_message("neuronmm {}: {}\n", name, printable(message));
  };
  NMM_ASSIGN(communicator(), parallel::connect(link_flags().link));
  parallel::Communicator& all = *communicator();
  share_cores(all.processes_of_host());
  const parallel::Fact facts[] = {
      {"the version of neuronmm", kVersion},
      {"the command line", fmt::format("{}", fmt::join(command.arguments, " "))},
      {"the number of threads", std::to_string(num_threads())}};
  NMM_TRY(parallel::agree(all, facts));
  if (command.mode != ProcessMode::kOneProcess) return {};
  return fail("this command runs as one process, found {} of them", all.processes());
}

std::unique_ptr<ops::Backend> make_tensor_parallel_backend(std::unique_ptr<ops::Backend> own) {
  parallel::Communicator& all = *communicator();
  const auto wire =
      link_flags().value_format == "bf16" ? parallel::Wire::kBF16 : parallel::Wire::kFp32;
  const tensor_parallel::Machine machine = tensor_parallel::measure_machine(all, *own);
  return tensor_parallel::make_backend(all, std::move(own), {wire, machine});
}

// Encode the options as one line of text, which process 0 sends to the others, and decode it. The
// others need no --kv, because each cache is ordered with its dtype, and no limit of the memory,
// because several processes keep all experts. --numa goes with one process alone.
std::string encode_options(const DeviceOptions& options) {
  return fmt::format("{} {} {}", options.device, options.threads, options.activations);
}
DeviceOptions decode_options(const std::string& line) {
  DeviceOptions options;
  std::istringstream(line) >> options.device >> options.threads >> options.activations;
  return options;
}

// Runs the command in process 0 and then ends the other processes in an orderly way. If a process
// was lost, its loss is the error that `run` has reported, and all processes end at once.
int lead(const std::function<int()>& run) {
  const int code = run();
  if (code != 0 && !communicator()->lost().empty()) communicator()->end_all(code);
  tensor_parallel::send(*communicator(), {.kind = Order::Kind::kEnd});
  return code;
}

// Computes for process 0 until it sends kEnd. A launcher sends signals to all processes, but only
// process 0 acts on one, possibly after finishing its work, and then ends the others.
// OrderlyShutdown keeps the launcher's signal from ending this process. If process 0 dies, the
// communicator notices.
int follow() {
  const OrderlyShutdown ending;
  tensor_parallel::follow(
      *communicator(),
      [](const std::string& line) { return make_own_backend(decode_options(line)); },
      make_tensor_parallel_backend);
  return 0;
}

}  // namespace

parallel::Communicator& world_communicator() { return *communicator(); }

void add_link_options(CLI::App* command) {
  LinkFlags& flags = link_flags();
  command
      ->add_option("--link-timeout", flags.link.timeout_s,
                   "Under mpirun, wait S seconds for others")
      ->check(real_range(1.0, 86400.0))
      ->type_name("S")
      ->capture_default_str()
      ->group(kRare);
  command->add_option("--link", flags.transport, "Under mpirun, use auto or messages")
      ->check(CLI::IsMember({"auto", "messages"}))
      ->type_name("KIND")
      ->capture_default_str()
      ->group(kRare);
  command->add_option("--link-values", flags.value_format, "Under mpirun, send fp32 or bf16 sums")
      ->check(CLI::IsMember({"fp32", "bf16"}))
      ->type_name("TYPE")
      ->capture_default_str()
      ->group(kRare);
}

// If an exception breaks off the command, all processes are ended, because the others would wait
// for this one forever.
int run_on_processes(const LaunchedCommand& command, const std::function<int()>& run_command) {
  if (parallel::launched_processes() == 1) return run_command();
  if (const Status connected = connect_processes(command); !connected.ok()) {
    if (world_communicator().is_first()) {
      print_message("neuronmm {}: {}\n", command.name, printable(connected.error().message));
    }
    communicator() = parallel::make_single();
    return 1;
  }
  bool completed = false;
  const int code = catch_exceptions([&] {
    const int result = command.mode == ProcessMode::kDataParallel ? run_command()
                       : world_communicator().is_first()          ? lead(run_command)
                                                                  : follow();
    completed = true;
    return result;
  });
  if (!completed) world_communicator().end_all(code);
  communicator() = parallel::make_single();
  return code;
}

Result<std::unique_ptr<ops::Backend>> make_shared_backend(const DeviceOptions& options) {
  parallel::Communicator& all = *communicator();
  if (options.device != "cpu") {
    return fail("several processes compute with --device cpu alone, found {}", options.device);
  }
  if (options.numa) {
    return fail(
        "--numa: expected one process, found {}. Let the launcher bind the processes instead, for "
        "example by mpirun --map-by numa",
        all.processes());
  }
  tensor_parallel::send(all, {.kind = Order::Kind::kBackend, .text = encode_options(options)});
  auto own = make_own_backend(options);
  NMM_TRY(parallel::first_error_of_all(all, own.ok() ? Status() : own.error()));
  return make_tensor_parallel_backend(std::move(own).value());
}

}  // namespace neuronmm::apps
