#pragma once
// The routines of OpenBLAS and LAPACK that the compression uses. The libraries are loaded when the
// first factorization begins and not at program start. Loading them reserves memory and starts
// threads, which other commands do not need.
//
// `compress`, `quantize` and `fit` call load_blas() before they read a model, and so do the helper
// processes of a compression. linear_algebra.cc, gram.cc and the rounding of rows
// (rounding/row_rounding-inl.h) then take the routines from blas().

#include <cblas.h>
#include <lapacke.h>

#include "base/result.h"

namespace neuronmm::compress {

// The loaded routines. Each routine runs on the calling thread only. Code that works on several
// matrices at once starts its own threads, and results do not depend on how many threads there are.
struct Blas {
  decltype(&cblas_dgemm) dgemm = nullptr;
  decltype(&cblas_sgemm) sgemm = nullptr;
  decltype(&cblas_dsyrk) dsyrk = nullptr;
  decltype(&LAPACKE_dsyevd) dsyevd = nullptr;
  decltype(&LAPACKE_dgesdd) dgesdd = nullptr;
  decltype(&LAPACKE_dgeqrt) dgeqrt = nullptr;
  decltype(&LAPACKE_dgemqrt) dgemqrt = nullptr;
  decltype(&LAPACKE_dposv) dposv = nullptr;
  decltype(&LAPACKE_dpotrf) dpotrf = nullptr;
  decltype(&LAPACKE_dpotri) dpotri = nullptr;
  decltype(&LAPACKE_dgeqp3) dgeqp3 = nullptr;
  decltype(&cblas_dtrsm) dtrsm = nullptr;
};

// Loads the libraries unless they are loaded already. Fails if they are not installed, if a routine
// is missing in them, or if a limit of the address space (ulimit -v) leaves them too little. The
// message names the library or the limit. After a failure, all later calls fail in the same way.
// Several threads may call the function at the same time.
Status load_blas();

// Returns the routines, and loads the libraries first if necessary. If they cannot be loaded, the
// program ends (NMM_CHECK), so load_blas() must have succeeded before. The calling thread uses the
// routines until it ends. Throws std::bad_alloc if the address space is too small for one more
// thread.
const Blas& blas();

}  // namespace neuronmm::compress
