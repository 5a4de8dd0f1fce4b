#pragma once
// The routines of OpenBLAS and LAPACK that a factorization uses, from libraries that are loaded
// when the first factorization begins: their start-up reserves memory and starts threads, which
// every other command does without.

#include <cblas.h>
#include <lapacke.h>

#include "base/result.h"

namespace neuronmm::compress {

// Each runs on the calling thread alone: what works on several matrices at once brings its own
// threads, and a result does not depend on how many there are.
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

// Loads the libraries unless they are. Errors: not installed; an address space limit (ulimit -v)
// that leaves them too little.
Status load_blas();

// The routines. Loads the libraries if nobody did; that it cannot is then an error of ours.
const Blas& blas();

}  // namespace neuronmm::compress
