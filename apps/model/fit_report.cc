#include "model/fit_report.h"

#include <algorithm>
#include <map>

#include <nlohmann/json.hpp>

#include "io/quantization.h"
#include "model/quality_text.h"
#include "plot/page.h"
#include "plot/scatter_chart.h"
#include "plot/svg.h"

namespace neuronmm::apps {
namespace {

using fit::Choice;
using fit::FitResult;
using Json = nlohmann::ordered_json;

constexpr const char* kPartNames[fit::kParts] = {"q, k", "v", "o", "gate, up", "down"};

double megabytes(double bytes) { return bytes / 1e6; }

std::string format_name(size_t format) {
  return format == fit::kAsIs ? "as it is" : io::format_text(fit::kCandidates[format]);
}

// Returns the sizes of an MLP as text, such as "neurons 1024, input 448" or "whole".
std::string shape_text(const io::MlpShape& shape) {
  std::string text;
  const auto add = [&](int64_t size, const char* name) {
    if (size > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, size);
  };
  add(shape.neurons, "neurons");
  add(shape.input, "input");
  add(shape.gate, "gate");
  add(shape.up, "up");
  add(shape.down, "output");
  return text.empty() ? "whole" : text;
}

// Returns how many matrices of the model have each format.
std::string formats_text(const Choice& choice) {
  std::map<size_t, int64_t> count;
  for (const auto& formats : choice.formats) {
    for (size_t part = 0; part < fit::kParts; ++part) {
      count[formats[part]] += std::ssize(fit::modules_of(static_cast<fit::Part>(part)));
    }
  }
  std::string text;
  for (const auto& [format, matrices] : count) {
    text += fmt::format("{} {}, ", matrices, format_name(format));
  }
  text += "LM head " + format_name(choice.head);
  return choice.table == fit::kAsIs ? text
                                    : text + ", embedding table " + format_name(choice.table);
}

int64_t narrowed_layers(const Choice& choice) {
  return std::ranges::count_if(choice.shapes,
                               [](const io::MlpShape& shape) { return shape != io::MlpShape{}; });
}

double gap(const Choice& choice, fit::Quantity least) {
  const double found = choice.predicted[least];
  return found > 0.0 ? (found - choice.bound) / found : 0.0;
}

fit::Quantity least_of(const fit::FitRequest& request) {
  return request.budget.divergence ? fit::kBytes : fit::kLoss;
}

Json quantities_json(const fit::Quantities& quantities) {
  return {{"kl", quantities[fit::kLoss]},
          {"bytes", quantities[fit::kBytes]},
          {"decode_s", quantities[fit::kDecode]},
          {"prefill_s", quantities[fit::kPrefill]}};
}

Json candidates_json(const std::vector<fit::Candidate>& candidates) {
  Json list = Json::array();
  for (const fit::Candidate& candidate : candidates) {
    Json entry = quantities_json(candidate.predicted);
    entry["name"] = candidate.name;
    list.push_back(std::move(entry));
  }
  return list;
}

Json layers_json(const Choice& choice) {
  Json layers = Json::array();
  for (size_t layer = 0; layer < choice.shapes.size(); ++layer) {
    const io::MlpShape& shape = choice.shapes[layer];
    Json entry = {{"neurons", number_or_null(shape.neurons)},
                  {"input", number_or_null(shape.input)},
                  {"gate", number_or_null(shape.gate)},
                  {"up", number_or_null(shape.up)},
                  {"output", number_or_null(shape.down)}};
    for (size_t part = 0; part < fit::kParts; ++part) {
      for (const std::string& module : fit::modules_of(static_cast<fit::Part>(part))) {
        entry["formats"][module] = format_name(choice.formats[layer][part]);
      }
    }
    layers.push_back(std::move(entry));
  }
  return layers;
}

ScatterChart front_chart(const FitResult& result, const std::vector<fit::Candidate>& front,
                         fit::Quantity x, double scale, const char* x_name) {
  ScatterChart chart{.title = fmt::format("KL against {}", x_name),
                     .x_name = x_name,
                     .y_name = "KL, nats per token"};
  const auto add = [&](const std::string& name, const char* colour, const fit::Quantities& at) {
    chart.points.push_back({name, colour, scale * at[x], at[fit::kLoss]});
  };
  for (const fit::Candidate& found : front) {
    chart.line.push_back(
        {found.name, "#0f82c8", scale * found.predicted[x], found.predicted[fit::kLoss]});
  }
  constexpr const char* kSingles[] = {"#e08e0b", "#00a078", "#cc79a7", "#d55e00",
                                      "#56b4e9", "#b8a900", "#8c8c8c", "#5a636e"};
  for (size_t i = 0; i < result.uniform_models.size(); ++i) {
    add(result.uniform_models[i].name, kSingles[i % std::size(kSingles)],
        result.uniform_models[i].predicted);
  }
  if (result.measured) {
    fit::Quantities at = {};
    at[fit::kLoss] = result.measured->divergence.value;
    at[fit::kBytes] = static_cast<double>(result.measured->bytes);
    at[fit::kDecode] = result.measured->model.decode;
    at[fit::kPrefill] = result.measured->model.prefill;
    add("this model, measured", "#a02020", at);
  } else {
    add("this model, predicted", "#a02020", result.choice.predicted);
  }
  return chart;
}

std::string layer_rows(const Choice& choice) {
  std::string rows = "<tr><th>layer</th><th>MLP</th>";
  for (const char* name : kPartNames) rows += fmt::format("<th>{}</th>", name);
  rows += "</tr>\n";
  for (size_t layer = 0; layer < choice.shapes.size(); ++layer) {
    rows += fmt::format("<tr><th>{}</th><td>{}</td>", layer, shape_text(choice.shapes[layer]));
    for (const size_t format : choice.formats[layer]) {
      rows += fmt::format("<td>{}</td>", format_name(format));
    }
    rows += "</tr>\n";
  }
  return rows;
}

// Returns HTML with a paragraph for each line of the text.
std::string paragraphs(const std::string& text) {
  std::string html;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    html += html_element("p", text.substr(begin, end - begin)) + "\n";
    begin = end + 1;
  }
  return html;
}

std::string measured_text(const FitResult& result) {
  const fit::Quantities& predicted = result.choice.predicted;
  const fit::Measured& measured = *result.measured;
  return fmt::format(
      "measured on {} tokens that nothing was decided on: KL {} nats per token (predicted {:.4f}), "
      "perplexity {:.3f} (the original {:.3f})\n"
      "{:.1f} MB (predicted {:.1f}); decode {:.2f} times as fast (predicted {:.2f}), prefill "
      "{:.2f} (predicted {:.2f})\n",
      measured.tokens, divergence_text(measured.divergence), predicted[fit::kLoss],
      measured.perplexity, measured.dense_perplexity,
      megabytes(static_cast<double>(measured.bytes)), megabytes(predicted[fit::kBytes]),
      measured.dense.decode / measured.model.decode,
      result.dense[fit::kDecode] / predicted[fit::kDecode],
      measured.dense.prefill / measured.model.prefill,
      result.dense[fit::kPrefill] / predicted[fit::kPrefill]);
}

std::string chosen_text(const fit::FitRequest& request, const FitResult& result) {
  const Choice& choice = result.choice;
  return fmt::format(
      "matrices: {}\nMLPs: {} of {} narrowed\n"
      "predicted: KL {:.4f}, {:.1f} MB (the original {:.1f}), decode {:.2f} times as fast, prefill "
      "{:.2f}; no choice is better by more than {:.2f} %\n",
      formats_text(choice), narrowed_layers(choice), choice.shapes.size(),
      choice.predicted[fit::kLoss], megabytes(choice.predicted[fit::kBytes]),
      megabytes(result.dense[fit::kBytes]),
      result.dense[fit::kDecode] / choice.predicted[fit::kDecode],
      result.dense[fit::kPrefill] / choice.predicted[fit::kPrefill],
      100.0 * gap(choice, least_of(request)));
}

}  // namespace

void print_fit(const ReportWriter& writer, const fit::FitRequest& request,
               const FitResult& result) {
  writer.print("{}", chosen_text(request, result));
  if (result.corrected) {
    writer.print("chosen again after a first model was measured, with the prediction corrected\n");
  }
  if (result.measured) {
    writer.print("{}written to {}\n", measured_text(result), request.out.string());
  }
  writer.print("what it knows of the model is kept; for another budget add --sensitivities {}\n",
               request.sensitivities.string());
}

Json fit_json(const fit::FitRequest& request, const FitResult& result) {
  Json json = {{"model", request.model.string()},
               {"output", request.plan_only ? Json() : Json(request.out.string())},
               {"sensitivities", request.sensitivities.string()},
               {"dense", quantities_json(result.dense)},
               {"predicted", quantities_json(result.choice.predicted)},
               {"bound", result.choice.bound},
               {"corrected", result.corrected},
               {"lm_head", format_name(result.choice.head)},
               {"layers", layers_json(result.choice)},
               {"single", candidates_json(result.uniform_models)},
               {"front_of_bytes", candidates_json(result.front)},
               {"front_of_prefill", candidates_json(result.fast_front)}};
  if (const auto& measured = result.measured) {
    json["measured"] = {{"tokens", measured->tokens},
                        {"kl", measured->divergence.value},
                        {"kl_standard_error", measured->divergence.standard_error},
                        {"dense_perplexity", measured->dense_perplexity},
                        {"perplexity", measured->perplexity},
                        {"bytes", measured->bytes},
                        {"dense_decode_s", measured->dense.decode},
                        {"decode_s", measured->model.decode},
                        {"dense_prefill_s", measured->dense.prefill},
                        {"prefill_s", measured->model.prefill}};
  }
  return json;
}

std::string fit_page(const fit::FitRequest& request, const FitResult& result) {
  std::string html = page_head("neuronmm fit");
  html += paragraphs(request.model.string()) + paragraphs(chosen_text(request, result));
  if (result.measured) html += paragraphs(measured_text(result));
  html +=
      "<h2>What there is to choose from</h2>\n<p>All but the measured model are predictions. "
      "Found: the best of everything at that cost.</p>\n<div class=\"plots\">\n" +
      scatter_figure(front_chart(result, result.front, fit::kBytes, 1e-6, "size, MB")) +
      scatter_figure(
          front_chart(result, result.fast_front, fit::kPrefill, 1e3, "prefill of a prompt, ms")) +
      "</div>\n<h2>Layers</h2>\n<div class=\"wide\">\n<table>\n" + layer_rows(result.choice) +
      "</table>\n</div>\n";
  return html;
}

}  // namespace neuronmm::apps
