#include "compress/linear_algebra/blas.h"

#include <cstdlib>
#include <fstream>

#include <dlfcn.h>
#include <sys/resource.h>
#include <unistd.h>

namespace neuronmm::compress {
namespace {

// The address space that must be left before OpenBLAS is loaded. With too little address space
// OpenBLAS retries its reservation for ever and does not fail. Measured with OpenBLAS 0.3.21 and
// one thread under `ulimit -v`: 400 MB are enough to load both libraries. With 300 MB they cannot
// be loaded.
constexpr uint64_t kAddressSpaceBytes = uint64_t{512} << 20;

constexpr const char* kBlasName = "libopenblas.so.0";
constexpr const char* kLapackName = "liblapacke.so.3";

using SetNumThreads = void (*)(int);

struct Libraries {
  Blas routines;
  // omp_set_num_threads(), which acts on the calling thread. Null if OpenBLAS was built without
  // OpenMP.
  SetNumThreads set_num_threads = nullptr;
};

// Returns how many bytes the process may still map, or UINT64_MAX if there is no limit.
uint64_t address_space_left() {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return UINT64_MAX;
  uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const uint64_t used = pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return used < limit.rlim_cur ? limit.rlim_cur - used : 0;
}

Result<void*> open_library(const char* name) {
  void* const library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    return fail("{}: cannot be loaded, factorizations need it: {}", name, dlerror());
  return library;
}

template <typename Function>
Status find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr) return fail("{}: is missing in the installed library", name);
  return {};
}

Result<Libraries> load() {
  if (address_space_left() < kAddressSpaceBytes) {
    return fail("too little address space for OpenBLAS: expected {} MB more, found {} (ulimit -v)",
                kAddressSpaceBytes >> 20, address_space_left() >> 20);
  }
  // Without this variable OpenBLAS starts a thread for each core.
  setenv("OPENBLAS_NUM_THREADS", "1", /*overwrite=*/1);
  NMM_ASSIGN(void* const openblas, open_library(kBlasName));
  NMM_ASSIGN(void* const lapacke, open_library(kLapackName));
  Libraries found;
  NMM_TRY(find(openblas, "cblas_dgemm", found.routines.dgemm));
  NMM_TRY(find(openblas, "cblas_sgemm", found.routines.sgemm));
  NMM_TRY(find(openblas, "cblas_dsyrk", found.routines.dsyrk));
  NMM_TRY(find(lapacke, "LAPACKE_dsyevd", found.routines.dsyevd));
  NMM_TRY(find(lapacke, "LAPACKE_dgesdd", found.routines.dgesdd));
  NMM_TRY(find(lapacke, "LAPACKE_dgeqrt", found.routines.dgeqrt));
  NMM_TRY(find(lapacke, "LAPACKE_dgemqrt", found.routines.dgemqrt));
  NMM_TRY(find(lapacke, "LAPACKE_dposv", found.routines.dposv));
  NMM_TRY(find(lapacke, "LAPACKE_dpotrf", found.routines.dpotrf));
  NMM_TRY(find(lapacke, "LAPACKE_dpotri", found.routines.dpotri));
  NMM_TRY(find(lapacke, "LAPACKE_dgeqp3", found.routines.dgeqp3));
  NMM_TRY(find(openblas, "cblas_dtrsm", found.routines.dtrsm));
  found.set_num_threads = reinterpret_cast<SetNumThreads>(dlsym(openblas, "omp_set_num_threads"));
  return found;
}

const Result<Libraries>& libraries() {
  static const Result<Libraries> loaded = load();
  return loaded;
}

}  // namespace

Status load_blas() {
  if (!libraries().ok()) return libraries().error();
  return {};
}

const Blas& blas() {
  const Result<Libraries>& loaded = libraries();
  NMM_CHECK(loaded.ok());
  // OpenBLAS asks OpenMP for the number of threads, and OpenMP keeps that number per calling
  // thread.
  thread_local bool limited = false;
  if (!limited && loaded.value().set_num_threads != nullptr) loaded.value().set_num_threads(1);
  limited = true;
  return loaded.value().routines;
}

}  // namespace neuronmm::compress
