#pragma once
// The routines of OpenBLAS and LAPACK that the compression uses. The libraries are loaded when the
// first factorization begins and not at program start. Loading them reserves memory and starts
// threads, which other commands do not need. Loading fails if the libraries are not installed or
// the address space is too small.

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

// Loads the libraries unless they are loaded already. Fails if they are not installed, or if a
// limit of the address space (ulimit -v) leaves them too little.
Status load_blas();

// Returns the routines, and loads the libraries first if necessary. Aborts if they cannot be
// loaded, so a command calls load_blas() before.
const Blas& blas();

}  // namespace neuronmm::compress
