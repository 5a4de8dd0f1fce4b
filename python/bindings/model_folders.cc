// Binds the functions that make model folders: compress, quantize and import_gguf.

#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include "base/parallel.h"
#include "compress/compress.h"
#include "compress/quantize.h"
#include "compress/quantize_settings.h"
#include "compress/settings.h"
#include "eval/folder_divergence.h"
#include "gguf/import.h"
#include "io/model_name.h"
#include "job.h"
#include "language_model.h"
#include "removed_options.h"

namespace neuronmm::python {
namespace {

namespace fs = std::filesystem;
using namespace nb::literals;

// The arguments of Python's compress() under the names of its keywords.
struct CompressFlags {
  fs::path model, output;
  double ratio = 0.0;
  std::optional<int64_t> block;
  std::optional<std::string> form, method, allocate, reconstruct;
  bool pad = false;
  std::optional<int> bits, group, lm_head_bits, embedding_bits;
  std::vector<fs::path> calibration;
  std::optional<int64_t> calibration_tokens, self_generated;
  std::optional<fs::path> statistics;
  bool measure = true, force = false;
};

// The name's value, if there is one.
template <typename Value>
Status read_name(const std::optional<std::string>& name, Result<Value> (*parse)(std::string_view),
                 std::optional<Value>& value) {
  if (!name) return {};
  NMM_ASSIGN(value, parse(*name));
  return {};
}

Result<compress::CompressRequest> settings_of(const CompressFlags& flags) {
  compress::CompressGiven given;
  given.model = io::find_model(flags.model.string());
  given.out = flags.output;
  given.ratio = flags.ratio;
  NMM_TRY(read_name(flags.form, compress::parse_form, given.form));
  NMM_TRY(read_name(flags.method, compress::parse_method, given.method));
  NMM_TRY(read_name(flags.allocate, compress::parse_allocate, given.allocate));
  NMM_TRY(read_name(flags.reconstruct, compress::parse_reconstruct, given.reconstruct));
  given.block = flags.block;
  given.pad = flags.pad;
  given.bits = flags.bits;
  given.group = flags.group;
  given.lm_head_bits = flags.lm_head_bits;
  given.embedding_bits = flags.embedding_bits;
  for (const fs::path& file : flags.calibration) given.calibration.push_back(file.string());
  given.calibration_tokens = flags.calibration_tokens;
  given.self_generated = flags.self_generated;
  given.statistics = flags.statistics.value_or("");
  given.force = flags.force;
  return compress::compress_settings(given, OptionNames::kKeywords);
}

Status read_texts(std::optional<compress::CalibrationText>& calibration) {
  if (!calibration) return {};
  for (compress::NamedText& text : calibration->texts) {
    NMM_ASSIGN(text.text, text_of_file(text.name));
  }
  return {};
}

Result<compress::CompressSummary> run_compress(const CompressFlags& flags,
                                               compress::CompressRequest request, bool shown) {
  Progress progress(shown ? stderr : nullptr);
  NMM_TRY(read_texts(request.calibration));
  const auto backend = make_backend();
  const compress::MeasureLoss measure =
      [&](const fs::path& compressed, const std::vector<std::vector<text::TokenId>>& sequences)
      -> Result<compress::MeasuredLoss> {
    NMM_ASSIGN(const auto summary,
               eval::folder_divergence(request.model, compressed, sequences, *backend, progress));
    return compress::MeasuredLoss{summary.tokens, summary.divergence.value,
                                  summary.dense_perplexity, summary.perplexity};
  };
  return compress::compress(request, *backend, progress, {},
                            flags.measure ? measure : compress::MeasureLoss());
}

nb::dict loss_dict(const compress::MeasuredLoss& loss) {
  nb::dict values;
  values["tokens"] = loss.tokens;
  values["held_out"] = loss.held_out;
  values["kl"] = loss.divergence;
  values["dense_perplexity"] = loss.dense_perplexity;
  values["perplexity"] = loss.perplexity;
  return values;
}

// Returns the size, or None if nothing was removed.
nb::object size_or_none(int64_t size) {
  return size == 0 ? nb::none() : nb::object(nb::int_(size));
}

nb::dict matrix_dict(const compress::MatrixPlan& matrix, double energy_lost) {
  const std::string_view name = compress::matrix_name(matrix.matrix);
  nb::dict values;
  values["layer"] = matrix.layer;
  values["matrix"] = nb::str(name.data(), name.size());
  values["in_features"] = matrix.in_features;
  values["rank"] = size_or_none(matrix.rank);
  values["out_features"] = matrix.out_features;
  values["kept_share"] = matrix.kept_share;
  values["bytes_before"] = matrix.bytes_before;
  values["bytes_after"] = matrix.bytes_after;
  values["energy_lost"] = energy_lost;
  return values;
}

nb::dict layer_dict(int64_t number, const compress::LayerReport& layer) {
  nb::dict values;
  values["layer"] = number;
  values["gate"] = size_or_none(layer.shape.gate);
  values["up"] = size_or_none(layer.shape.up);
  values["input"] = size_or_none(layer.shape.input);
  values["neurons"] = size_or_none(layer.shape.neurons);
  values["down"] = size_or_none(layer.shape.down);
  values["kept_share"] = layer.kept_share;
  values["largest_map"] = layer.largest_map;
  values["predicted_loss"] = layer.predicted_loss;
  return values;
}

nb::object reconstruction_dict(const std::optional<compress::ReconstructionSummary>& summary) {
  if (!summary) return nb::none();
  nb::list layers;
  for (const compress::LayerOutcome& layer : summary->layers) {
    nb::dict values;
    values["error_before"] = layer.before;
    values["error_after"] = layer.after;
    values["passes"] = layer.passes;
    values["skipped_steps"] = layer.skipped;
    values["seconds"] = layer.seconds;
    layers.append(values);
  }
  nb::dict values;
  values["tokens"] = summary->tokens;
  values["held_out_tokens"] = summary->held_out_tokens;
  values["most_passes"] = summary->passes;
  values["layers"] = layers;
  return values;
}

nb::dict summary_dict(const compress::CompressSummary& summary) {
  nb::dict values;
  const std::string_view form = compress::form_name(summary.plan.form);
  values["form"] = nb::str(form.data(), form.size());
  values["parameters_before"] = summary.parameters_before;
  values["parameters_after"] = summary.parameters_after;
  values["bytes_before"] = summary.bytes_before;
  values["bytes_after"] = summary.bytes_after;
  values["calibration_tokens"] = summary.calibration_tokens;
  values["measured"] = summary.loss ? nb::object(loss_dict(*summary.loss)) : nb::none();
  values["reconstruction"] = reconstruction_dict(summary.reconstruction);
  nb::list matrices, layers;
  for (const compress::LayerReport& layer : summary.layers)
    layers.append(layer_dict(static_cast<int64_t>(nb::len(layers)), layer));
  values["layers"] = layers;
  auto report =
      summary.matrices.begin();  // reports exist only for matrices with factors, in this order
  if (summary.layers.empty()) {
    for (const compress::MatrixPlan& matrix : summary.plan.matrices)
      matrices.append(matrix_dict(matrix, matrix.rank == 0 ? 0.0 : report++->energy_lost));
  }
  values["matrices"] = matrices;
  return values;
}

// Settings that cannot be meant are a ValueError.
template <typename Settings>
Settings settings_or_value_error(Result<Settings> settings) {
  if (!settings.ok()) throw nb::value_error(settings.error().message.c_str());
  return *std::move(settings);
}

nb::dict compress_model(CompressFlags flags, int threads, bool progress) {
  const compress::CompressRequest request = settings_or_value_error(settings_of(flags));
  return summary_dict(run_job(threads, [flags = std::move(flags), request, progress] {
    return run_compress(flags, request, progress);
  }));
}

// The arguments of Python's quantize() under the names of its keywords.
struct QuantizeFlags {
  fs::path model, output;
  std::optional<int> bits, group, lm_head_bits, embedding_bits;
  std::vector<fs::path> calibration;
  std::optional<int64_t> calibration_tokens;
  std::optional<fs::path> statistics;
  std::optional<std::string> rounding, reconstruct;
  std::optional<bool> smoothing;
  bool force = false;
};

Result<compress::QuantizeRequest> settings_of(const QuantizeFlags& flags) {
  compress::QuantizeGiven given;
  given.model = io::find_model(flags.model.string());
  given.out = flags.output;
  given.bits = flags.bits;
  given.group = flags.group;
  given.lm_head_bits = flags.lm_head_bits;
  given.embedding_bits = flags.embedding_bits;
  for (const fs::path& file : flags.calibration) given.calibration.push_back(file.string());
  given.calibration_tokens = flags.calibration_tokens;
  given.statistics = flags.statistics.value_or("");
  NMM_TRY(read_name(flags.rounding, compress::parse_rounding, given.rounding));
  NMM_TRY(read_name(flags.reconstruct, compress::parse_reconstruct, given.reconstruct));
  given.smooth = flags.smoothing;
  given.force = flags.force;
  return compress::quantize_settings(given, OptionNames::kKeywords);
}

nb::dict quantize_model(const QuantizeFlags& flags, int threads, bool progress) {
  const auto asked = settings_or_value_error(settings_of(flags));
  const auto summary = run_job(threads, [asked, progress]() -> Result<compress::QuantizeSummary> {
    Progress shown(progress ? stderr : nullptr);
    compress::QuantizeRequest request = asked;
    NMM_TRY(read_texts(request.calibration));
    const auto backend = make_backend();
    return compress::quantize(request, *backend, shown);
  });
  nb::dict values;
  values["parameters"] = summary.parameters;
  values["bytes_before"] = summary.bytes_before;
  values["bytes_after"] = summary.bytes_after;
  values["calibration_tokens"] = summary.calibration_tokens;
  values["reconstruction"] = reconstruction_dict(summary.reconstruction);
  return values;
}

nb::dict import_gguf(const fs::path& file, const fs::path& output, const std::string& dtype,
                     bool force, int threads, bool progress) {
  const DType to = dtype == "f32" ? DType::kF32 : dtype == "f16" ? DType::kF16 : DType::kBF16;
  const auto summary = run_job(threads, [file, output, to, force, progress] {
    Progress shown(progress ? stderr : nullptr);
    return gguf::import_model(file, output, to, force, shown);
  });
  nb::dict values;
  values["files"] = summary.files;
  values["architecture"] = summary.architecture;
  values["class_name"] = summary.class_name;
  values["parameters"] = summary.parameters;
  values["bytes_before"] = summary.bytes_before;
  values["bytes_after"] = summary.bytes_after;
  values["tokenizer"] = summary.tokenizer;
  values["notes"] = summary.notes;
  return values;
}

}  // namespace

void bind_model_folders(nb::module_& m) {
  nb::class_<CompressFlags>(m, "CompressFlags")
      .def(nb::init<>())
      .def_rw("model", &CompressFlags::model)
      .def_rw("output", &CompressFlags::output)
      .def_rw("ratio", &CompressFlags::ratio)
      .def_rw("block", &CompressFlags::block, nb::for_setter(nb::arg().none()))
      .def_rw("form", &CompressFlags::form, nb::for_setter(nb::arg().none()))
      .def_rw("method", &CompressFlags::method, nb::for_setter(nb::arg().none()))
      .def_rw("allocate", &CompressFlags::allocate, nb::for_setter(nb::arg().none()))
      .def_rw("reconstruct", &CompressFlags::reconstruct, nb::for_setter(nb::arg().none()))
      .def_rw("pad", &CompressFlags::pad)
      .def_rw("bits", &CompressFlags::bits, nb::for_setter(nb::arg().none()))
      .def_rw("group", &CompressFlags::group, nb::for_setter(nb::arg().none()))
      .def_rw("lm_head_bits", &CompressFlags::lm_head_bits, nb::for_setter(nb::arg().none()))
      .def_rw("embedding_bits", &CompressFlags::embedding_bits, nb::for_setter(nb::arg().none()))
      .def_rw("calibration", &CompressFlags::calibration)
      .def_rw("calibration_tokens", &CompressFlags::calibration_tokens,
              nb::for_setter(nb::arg().none()))
      .def_rw("self_generated", &CompressFlags::self_generated, nb::for_setter(nb::arg().none()))
      .def_rw("statistics", &CompressFlags::statistics, nb::for_setter(nb::arg().none()))
      .def_rw("measure", &CompressFlags::measure)
      .def_rw("force", &CompressFlags::force);
  m.def("compress", &compress_model, "flags"_a, "num_threads"_a, "progress"_a);
  nb::class_<QuantizeFlags>(m, "QuantizeFlags")
      .def(nb::init<>())
      .def_rw("model", &QuantizeFlags::model)
      .def_rw("output", &QuantizeFlags::output)
      .def_rw("bits", &QuantizeFlags::bits, nb::for_setter(nb::arg().none()))
      .def_rw("group", &QuantizeFlags::group, nb::for_setter(nb::arg().none()))
      .def_rw("lm_head_bits", &QuantizeFlags::lm_head_bits, nb::for_setter(nb::arg().none()))
      .def_rw("embedding_bits", &QuantizeFlags::embedding_bits, nb::for_setter(nb::arg().none()))
      .def_rw("calibration", &QuantizeFlags::calibration)
      .def_rw("calibration_tokens", &QuantizeFlags::calibration_tokens,
              nb::for_setter(nb::arg().none()))
      .def_rw("statistics", &QuantizeFlags::statistics, nb::for_setter(nb::arg().none()))
      .def_rw("rounding", &QuantizeFlags::rounding, nb::for_setter(nb::arg().none()))
      .def_rw("reconstruct", &QuantizeFlags::reconstruct, nb::for_setter(nb::arg().none()))
      .def_rw("smoothing", &QuantizeFlags::smoothing, nb::for_setter(nb::arg().none()))
      .def_rw("force", &QuantizeFlags::force);
  m.def("quantize", &quantize_model, "flags"_a, "num_threads"_a, "progress"_a);
  m.def("removed_option_message", &apps::removed_option_message, "command"_a, "arguments"_a);
  m.def("import_gguf", &import_gguf, "file"_a, "output"_a, "dtype"_a, "force"_a, "num_threads"_a,
        "progress"_a);
}

}  // namespace neuronmm::python
