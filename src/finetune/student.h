#pragma once
// The models of a fine-tuning: the one that is trained, with its optimizer and, for weights of few
// bits, its grids, and the teacher.

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "compress/output/tensor_writer.h"
#include "finetune/recipe.h"
#include "io/quantization.h"
#include "training/kept_grid.h"
#include "training/model_training.h"
#include "training/optimizer.h"
#include "training/written_values.h"

namespace neuronmm::finetune {

using Rounding = std::optional<io::Quantization>;

struct StudentOptions {
  std::filesystem::path model;
  // The model before compression, whose predictions are learned. Empty: the text is learned.
  std::filesystem::path teacher;
  int64_t lora_rank = 0;  // 0: matrices, norms and biases of all layers are trained
  uint64_t seed = 0;      // of adapters
  // The formats of the weights that are trained for. Those of a rounded folder are its own.
  Rounding rounding = {};
  training::Precision precision = training::Precision::kFp32;
  int64_t activation_bytes = 0;  // of ModelTraining
};

class Student {
 public:
  // Loads both models, the teacher first. Errors: those of training::Model::open.
  static Result<std::unique_ptr<Student>> load(const StudentOptions& options);

  training::Model<float>& model() { return *model_; }
  training::ModelTraining<float>& training() { return *training_; }
  training::Optimizer<float>& optimizer() { return *optimizer_; }
  // Makes the trained tensors compute with what a folder will hold, for as long as the object
  // lives.
  training::WrittenValues<float> as_written();
  const std::map<std::string, training::KeptGrid>& grids() const { return grids_; }

  // Returns the trained tensors that a folder holds, with their values as they are when they are
  // written. The object must outlive them.
  std::map<std::string, compress::TensorSource> trained_sources() const;
  // Returns the parameters that have adapters.
  std::vector<const training::Parameter<float>*> adapted() const { return adapted_; }

 private:
  explicit Student(const StudentOptions& options) : options_(options) {}
  Status load_teacher();
  Status find_grids();
  void add_adapters();

  StudentOptions options_;
  std::unique_ptr<training::Model<float>> model_, teacher_;
  std::map<std::string, training::KeptGrid> grids_;
  std::vector<const training::Parameter<float>*> adapted_;
  std::unique_ptr<training::ModelTraining<float>> training_;
  std::unique_ptr<training::Optimizer<float>> optimizer_;
};

bool is_of_layer(std::string_view name);
// Returns whether a tensor of this name is trained without adapters: every matrix, norm, sink and
// bias of a layer. Routers of mixtures stay as they are (docs/design/training.md).
bool is_trained(std::string_view name);
// Returns whether an adapter of PEFT may change the tensor: a matrix of a layer, or in a mixture of
// experts one of attention. The published classes hold all experts of a layer in one parameter.
bool may_adapt(std::string_view name, const io::ModelConfig& config);

}  // namespace neuronmm::finetune
