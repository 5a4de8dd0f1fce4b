// The extension module neuronmm._native: the parts of the package that must be C++. The package's
// Python files check arguments and give names to results.

#include <nanobind/nanobind.h>

#include "failure.h"
#include "gguf/mounted_gguf.h"
#include "io/mounted_model.h"
#include "language_model.h"

NB_MODULE(_native, m) {
  namespace python = neuronmm::python;
  neuronmm::io::set_mount_opener(neuronmm::gguf::open_mounted);
  nanobind::exception<python::Failure>(m, "Error", PyExc_RuntimeError);
  python::bind_tokenizer(m);
  python::bind_language_model(m);
  python::bind_model_folders(m);
}
