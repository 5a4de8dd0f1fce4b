#include "processes.h"

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <thread>

#include <fmt/format.h>
#include <fmt/ranges.h>

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
  std::string through = "auto", values = "fp32";
};
// Of the one command that runs.
LinkFlags& link_flags() {
  static LinkFlags flags;
  return flags;
}

std::unique_ptr<parallel::Communicator>& communicator() {
  static std::unique_ptr<parallel::Communicator> processes = parallel::make_single();
  return processes;
}

// The cores are shared out among the processes of a host, unless the launcher has done so by
// binding them or the user by OMP_NUM_THREADS; --threads goes before all of that.
void share_cores(int processes_of_host) {
  const int cores = num_threads();
  const bool bound = cores < static_cast<int>(std::thread::hardware_concurrency());
  if (bound || std::getenv("OMP_NUM_THREADS") != nullptr) return;
  set_num_threads(std::max(1, cores / processes_of_host));
}

Status meet(const TogetherCommand& command) {
  link_flags().link.shared_memory = link_flags().through == "auto";
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
  if (command.processes != Processes::kAlone) return {};
  return fail("this command runs as one process, found {} of them", all.processes());
}

std::unique_ptr<ops::Backend> share(std::unique_ptr<ops::Backend> own) {
  parallel::Communicator& all = *communicator();
  const auto wire = link_flags().values == "bf16" ? parallel::Wire::kBF16 : parallel::Wire::kFp32;
  const tensor_parallel::Machine machine = tensor_parallel::measure_machine(all, *own);
  return tensor_parallel::make_backend(all, std::move(own), {wire, machine});
}

// What another process makes its backend by, in one line.
std::string line_of(const DeviceOptions& options) {
  return fmt::format("{} {} {}", options.device, options.threads, options.activations);
}
DeviceOptions options_of(const std::string& line) {
  DeviceOptions options;
  std::istringstream(line) >> options.device >> options.threads >> options.activations;
  return options;
}

// An error where a process is lost has said so.
int lead(const std::function<int()>& run) {
  const int code = run();
  if (code != 0 && !communicator()->lost().empty()) communicator()->end_all(code);
  tensor_parallel::send(*communicator(), {.kind = Order::Kind::kEnd});
  return code;
}

// A launcher's signal goes to all processes: process 0 obeys it, perhaps in its own time, and then
// ends the others. One that is left alone notices.
int follow() {
  const OrderlyShutdown ending;
  tensor_parallel::follow(
      *communicator(), [](const std::string& line) { return make_own_backend(options_of(line)); },
      share);
  return 0;
}

}  // namespace

parallel::Communicator& all_processes() { return *communicator(); }

void add_link_options(CLI::App* command) {
  constexpr const char* kGroup = "OPTIONS under mpirun";
  LinkFlags& flags = link_flags();
  command
      ->add_option("--link-timeout", flags.link.timeout_s,
                   "seconds without a sign of life after which a process counts as lost")
      ->check(real_range(1.0, 86400.0))
      ->capture_default_str()
      ->group(kGroup);
  command
      ->add_option("--link", flags.through,
                   "auto (memory that the processes of one host share), or messages")
      ->check(CLI::IsMember({"auto", "messages"}))
      ->capture_default_str()
      ->group(kGroup);
  command
      ->add_option("--link-values", flags.values,
                   "fp32, or bf16: what sums are sent as; half the bytes, and rounded")
      ->check(CLI::IsMember({"fp32", "bf16"}))
      ->capture_default_str()
      ->group(kGroup);
}

// Where work was broken off, the others wait in vain and are ended.
int run_together(const TogetherCommand& command, const std::function<int()>& alone) {
  if (parallel::launched_processes() == 1) return alone();
  if (const Status met = meet(command); !met.ok()) {
    if (all_processes().is_first()) {
      print_message("neuronmm {}: {}\n", command.name, printable(met.error().message));
    }
    communicator() = parallel::make_single();
    return 1;
  }
  bool is_whole = false;
  const int code = run_caught([&] {
    const int result = command.processes == Processes::kEach ? alone()
                       : all_processes().is_first()          ? lead(alone)
                                                             : follow();
    is_whole = true;
    return result;
  });
  if (!is_whole) all_processes().end_all(code);
  communicator() = parallel::make_single();
  return code;
}

Result<std::unique_ptr<ops::Backend>> share_backend(const DeviceOptions& options) {
  parallel::Communicator& all = *communicator();
  if (options.device != "cpu") {
    return fail("several processes compute with --device cpu alone, found {}", options.device);
  }
  tensor_parallel::send(all, {.kind = Order::Kind::kBackend, .text = line_of(options)});
  auto own = make_own_backend(options);
  NMM_TRY(parallel::agree(all, own.ok() ? Status() : own.error()));
  return share(std::move(own).value());
}

}  // namespace neuronmm::apps
