#include "model/data_processes.h"

#include "compress/helper_process.h"
#include "processes.h"

namespace neuronmm::apps {

// The other processes return 1 without a message, because process 0 reports the error.
Result<int> run_data_parallel(const std::filesystem::path& model, const DeviceOptions& device,
                              const DataCommand& command) {
  parallel::Communicator& all = world_communicator();
  NMM_ASSIGN(const auto backend, make_own_backend(device));
  if (all.processes() == 1) return command(*backend, nullptr);
  if (!all.is_first()) return compress::help_first_process(all, model, *backend).ok() ? 0 : 1;
  NMM_ASSIGN(const auto helpers, compress::DataParallel::start(all, model, *backend));
  return command(*backend, helpers.get());
}

}  // namespace neuronmm::apps
