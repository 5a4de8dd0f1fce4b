#include "finetune/student.h"

#include "compress/rounding/stored_format.h"

namespace neuronmm::finetune {
namespace {

using Parameter = training::Parameter<float>;

}  // namespace

bool is_of_layer(std::string_view name) { return name.find("layers.") != std::string_view::npos; }

bool is_trained(std::string_view name) {
  return is_of_layer(name) && !training::is_of_router(name);
}

bool may_adapt(std::string_view name, const io::ModelConfig& config) {
  if (!is_of_layer(name) || !name.ends_with("_proj.weight")) return false;
  if (config.experts) return name.find(".self_attn.") != std::string_view::npos;
  return !name.ends_with("_pivot_proj.weight");
}

Result<std::unique_ptr<Student>> Student::load(const StudentOptions& options) {
  std::unique_ptr<Student> student(new Student(options));
  if (!options.teacher.empty()) NMM_TRY(student->load_teacher());
  NMM_ASSIGN(student->model_,
             training::Model<float>::open(
                 options.model, options.precision, training::Residence::kLoaded,
                 options.rounding ? training::Weights::kAny : training::Weights::kFloats));
  training::Model<float>& model = *student->model_;
  if (options.rounding) NMM_TRY(student->find_grids());
  const bool adapters = options.lora_rank > 0;
  model.train([adapters](std::string_view name) { return !adapters && is_trained(name); });
  if (adapters) student->add_adapters();
  training::drop_pooled_memory();
  student->training_ = std::make_unique<training::ModelTraining<float>>(
      model, student->teacher_.get(), options.activation_bytes);
  student->optimizer_ = std::make_unique<training::Optimizer<float>>(
      training::trained_parameters<float>(model), training::AdamSettings());
  return student;
}

// Each layer is frozen before the next one is read, so that little of the teacher is in fp32 at a
// time.
Status Student::load_teacher() {
  NMM_ASSIGN(teacher_, training::Model<float>::open(options_.teacher, options_.precision,
                                                    training::Residence::kOneByOne));
  for (int64_t i = 0; i < teacher_->num_layers(); ++i) {
    NMM_TRY(teacher_->read_layer(i));
    teacher_->freeze();
  }
  return {};
}

Status Student::find_grids() {
  training::Model<float>& model = *model_;
  Status found;
  model.for_each_parameter([&](const Parameter& parameter) {
    if (!found.ok() || parameter.rows <= 1) return;
    auto grid =
        training::find_grid(parameter, model.checkpoint(), model.config(), *options_.rounding);
    if (!grid.ok()) {
      found = grid.error();
    } else if (*grid) {
      grids_[parameter.name] = **std::move(grid);
    }
  });
  NMM_TRY(found);
  model.round([this](const Parameter& parameter)
                  -> std::function<training::Rows<float>(const training::Rows<float>&)> {
    const auto grid = grids_.find(parameter.name);
    if (grid == grids_.end()) return {};
    return [&grid = grid->second](const training::Rows<float>& values) {
      return grid.rounded(values);
    };
  });
  return {};
}

void Student::add_adapters() {
  std::vector<Parameter*> matrices;
  model_->for_each_parameter([&](Parameter& parameter) {
    if (may_adapt(parameter.name, model_->config())) matrices.push_back(&parameter);
  });
  uint64_t seed = options_.seed << 20;  // there are fewer matrices than this
  for (Parameter* const matrix : matrices) {
    training::add_adapter(*matrix, options_.lora_rank, kAdapterScale, seed++);
    matrix->adapter->a.train();
    matrix->adapter->b.train();
    adapted_.push_back(matrix);
  }
}

// Rounded weights compute with what is written in any case, and adapters are written in fp32.
training::WrittenValues<float> Student::as_written() {
  const auto& stored = model_->checkpoint().tensors();
  return {training::trained_parameters<float>(*model_),
          [&](const Parameter& parameter) -> std::optional<DType> {
            const auto tensor = stored.find(parameter.name);
            if (tensor == stored.end() || grids_.contains(parameter.name)) return std::nullopt;
            return written_dtype(tensor->second.dtype);
          }};
}

std::map<std::string, compress::TensorSource> Student::trained_sources() const {
  std::map<std::string, compress::TensorSource> sources;
  const auto& stored = model_->checkpoint().tensors();
  model_->for_each_parameter([&](const Parameter& parameter) {
    const auto tensor = stored.find(parameter.name);
    if (!parameter.trained() || tensor == stored.end()) return;
    compress::TensorSource& source = sources[parameter.name];
    source.spec = {
        parameter.name, written_dtype(tensor->second.dtype),
        parameter.rows > 1 ? Shape{parameter.rows, parameter.columns} : tensor->second.shape};
    if (const auto grid = grids_.find(parameter.name); grid != grids_.end()) {
      source.rounding = options_.rounding->format_of(parameter.name);
      source.stored = [&parameter, &of = grid->second] { return of.round(parameter.value); };
      return;
    }
    source.visit = [&parameter,
                    spec = source.spec](const compress::TensorSource::Use& use) -> Status {
      const std::span<const float> values(parameter.value.data(),
                                          static_cast<size_t>(parameter.size()));
      NMM_TRY(compress::check_range(spec.name, values, spec.dtype));
      std::vector<std::byte> bytes;
      append_rounded(spec.dtype, values.data(), std::ssize(values), bytes);
      return use({spec.dtype, spec.shape, bytes.data()});
    };
  });
  return sources;
}

}  // namespace neuronmm::finetune
