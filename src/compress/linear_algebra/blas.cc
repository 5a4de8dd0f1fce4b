#include "compress/linear_algebra/blas.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <new>
#include <vector>

#include <dlfcn.h>

#include "base/memory_limit.h"

namespace neuronmm::compress {
namespace {

// The address space that must be left before the two libraries are loaded, and before one more
// thread calls their routines. OpenBLAS retries for ever if it cannot reserve memory. Measured with
// OpenBLAS 0.3.21 under `ulimit -v`: loading takes 310 MiB, and each thread 128 MiB. The rest is
// for what other threads may allocate at the same time.
constexpr int64_t kLibraryBytes = int64_t{512} << 20, kThreadBytes = int64_t{256} << 20;

constexpr const char* kBlasName = "libopenblas.so.0";
constexpr const char* kLapackName = "liblapacke.so.3";
// The library of a wheel, which has the routines of both (packaging/link_blas.sh). The loader
// replaces $ORIGIN by the folder of the program or, in the second path, of the Python module.
constexpr const char* kBundledNames[] = {"$ORIGIN/../lib/neuronmm/libneuronmm_blas.so",
                                         "$ORIGIN/lib/neuronmm/libneuronmm_blas.so"};

using SetNumThreads = void (*)(int);
// OpenBLAS's own functions for the buffer that a routine takes while it runs. A freed buffer stays
// mapped, and the next routine takes it again.
using AllocateBuffer = void* (*)(int);
using FreeBuffer = void (*)(void*);

struct Libraries {
  Blas routines;
  // omp_set_num_threads(), which acts on the calling thread. Null if OpenBLAS was built without
  // OpenMP.
  SetNumThreads set_num_threads = nullptr;
  AllocateBuffer allocate = nullptr;
  FreeBuffer free_buffer = nullptr;
};

// Opens the library of the wheel with these flags. Returns null if this is no wheel's program.
void* open_bundled(int flags) {
  for (const char* const name : kBundledNames) {
    if (void* const library = dlopen(name, flags | RTLD_LOCAL)) return library;
  }
  return nullptr;
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

Status find_buffers(void* openblas, Libraries& libraries) {
  NMM_TRY(find(openblas, "blas_memory_alloc", libraries.allocate));
  return find(openblas, "blas_memory_free", libraries.free_buffer);
}

Result<Libraries> load() {
  if (mappable_bytes() < kLibraryBytes) {
    return fail("too little address space for OpenBLAS: expected {} MB more, found {} (ulimit -v)",
                kLibraryBytes >> 20, mappable_bytes() >> 20);
  }
  // Without this variable OpenBLAS starts a thread for each core.
  setenv("OPENBLAS_NUM_THREADS", "1", /*overwrite=*/1);
  void* openblas = open_bundled(RTLD_NOW);
  void* lapacke = openblas;
  if (openblas == nullptr) {
    NMM_ASSIGN(openblas, open_library(kBlasName));
    NMM_ASSIGN(lapacke, open_library(kLapackName));
  }
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
  NMM_TRY(find_buffers(openblas, found));
  found.set_num_threads = reinterpret_cast<SetNumThreads>(dlsym(openblas, "omp_set_num_threads"));
  return found;
}

const Result<Libraries>& libraries() {
  static const Result<Libraries> loaded = load();
  return loaded;
}

// The buffers that OpenBLAS has mapped, as far as this file made it map them. There are as many as
// threads ever called routines at the same time.
class Buffers {
 public:
  // Makes sure that there is a buffer for one more thread. Throws std::bad_alloc if the address
  // space is too small for it.
  void add_thread(const Libraries& libraries) {
    const std::lock_guard lock(mutex_);
    if (threads_ >= std::ssize(mapped_)) map_another(libraries);
    ++threads_;
  }
  void remove_thread() {
    const std::lock_guard lock(mutex_);
    --threads_;
  }

 private:
  // Takes buffers until OpenBLAS maps a new one. Routines that run hold the others, or they are
  // given out first.
  void map_another(const Libraries& libraries) {
    if (mappable_bytes() < kThreadBytes) throw std::bad_alloc();
    std::vector<void*> taken;
    taken.reserve(mapped_.size() + 1);
    mapped_.reserve(mapped_.size() + 1);
    bool is_new = false;
    while (!is_new) {
      taken.push_back(libraries.allocate(0));
      is_new = std::ranges::find(mapped_, taken.back()) == mapped_.end();
    }
    mapped_.push_back(taken.back());
    for (void* const buffer : taken) libraries.free_buffer(buffer);
  }

  std::mutex mutex_;
  std::vector<void*> mapped_;
  int64_t threads_ = 0;  // the threads that may call routines
};

Buffers& buffers() {
  static Buffers all;
  return all;
}

// A thread that calls routines. Each thread has one from its first call to its end.
class BlasThread {
 public:
  // OpenBLAS asks OpenMP for the number of threads, and OpenMP keeps that number per calling
  // thread.
  explicit BlasThread(const Libraries& libraries) {
    buffers().add_thread(libraries);
    if (libraries.set_num_threads != nullptr) libraries.set_num_threads(1);
  }
  ~BlasThread() { buffers().remove_thread(); }
  BlasThread(const BlasThread&) = delete;
  BlasThread& operator=(const BlasThread&) = delete;
};

}  // namespace

Status load_blas() {
  if (!libraries().ok()) return libraries().error();
  return {};
}

const Blas& blas() {
  const Result<Libraries>& loaded = libraries();
  NMM_CHECK(loaded.ok());
  thread_local const BlasThread thread(loaded.value());
  return loaded.value().routines;
}

}  // namespace neuronmm::compress
