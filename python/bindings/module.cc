// neuronmm._native: what of the package neuronmm must be C++. The Python files beside it check
// arguments, and give results their names.

#include <nanobind/nanobind.h>

#include "failure.h"
#include "language_model.h"

NB_MODULE(_native, m) {
  namespace python = neuronmm::python;
  nanobind::exception<python::Failure>(m, "Error", PyExc_RuntimeError);
  python::bind_tokenizer(m);
  python::bind_language_model(m);
  python::bind_model_folders(m);
}
