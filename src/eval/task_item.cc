#include "eval/task_item.h"

#include <algorithm>
#include <charconv>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "eval/hellaswag.h"
#include "eval/python_text.h"
#include "io/json_file.h"
#include "io/text_file.h"
#include "text/unicode/utf8.h"

namespace neuronmm::eval {
namespace {

using io::JsonFields;
using nlohmann::json;
using Strings = std::vector<std::string>;

// A question with its answers, before it is formatted as the harness does.
struct Question {
  std::string text;
  Strings choices;
  int64_t gold = 0;
};

// An absent field and a malformed field are different errors, because an absent one often means
// that the file is another one.
Result<Strings> string_array(const JsonFields& fields, const std::string& key) {
  const json* value = fields.find(key);
  if (value == nullptr) return fields.missing(key);
  const auto is_string = [](const json& element) { return element.is_string(); };
  if (!value->is_array() || !std::ranges::all_of(*value, is_string)) {
    return fields.wrong(key, "an array of strings");
  }
  return value->get<Strings>();
}

std::optional<int64_t> parse_integer(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return value;
}

// Reads a number, or a string of its digits, between `first` and first + count - 1. Returns it as
// an index from 0.
Result<int64_t> index_field(const JsonFields& fields, const std::string& key, int64_t first,
                            int64_t count) {
  const json* value = fields.find(key);
  if (value == nullptr) return fields.missing(key);
  const std::string digits = value->is_string() ? value->get<std::string>() : value->dump();
  const auto number = parse_integer(digits);
  if (!number || *number < first || *number >= first + count) {
    return fields.wrong(key, fmt::format("{} ... {}", first, first + count - 1));
  }
  return *number - first;
}

// Reads the choices as published, [{"text", "label"}, ...], or as Hugging Face exports them,
// {"text": [...], "label": [...]}.
Result<std::pair<Strings, Strings>> labelled_choices(const JsonFields& fields) {
  const json* value = fields.find("choices");
  if (value == nullptr) return fields.missing("choices");
  const std::string source = fields.source() + ": \"choices\"";
  Strings texts, labels;
  if (value->is_object()) {
    const JsonFields columns(*value, source);
    NMM_ASSIGN(texts, string_array(columns, "text"));
    NMM_ASSIGN(labels, string_array(columns, "label"));
    if (texts.size() != labels.size()) return columns.wrong("label", "as many as texts");
    return std::pair(texts, labels);
  }
  if (!value->is_array()) return fields.wrong("choices", "an array or an object");
  for (const json& choice : *value) {
    if (!choice.is_object()) return fields.wrong("choices", "an array of objects");
    const JsonFields row(choice, source);
    NMM_ASSIGN(texts.emplace_back(), row.required_string("text"));
    NMM_ASSIGN(labels.emplace_back(), row.required_string("label"));
  }
  return std::pair(texts, labels);
}

// Reads {"query", "choices", "gold"}, which another harness has formatted with `prefix` and
// `suffix` around the question.
Result<Question> preformatted(const JsonFields& fields, std::string_view prefix,
                              std::string_view suffix) {
  Question question;
  NMM_ASSIGN(question.text, fields.required_string("query"));
  NMM_ASSIGN(question.choices, string_array(fields, "choices"));
  NMM_ASSIGN(question.gold, index_field(fields, "gold", 0, std::ssize(question.choices)));
  std::string_view text = question.text;
  if (text.size() < prefix.size() + suffix.size() || !text.starts_with(prefix) ||
      !text.ends_with(suffix)) {
    return fields.wrong("query", fmt::format("{:?} before and {:?} after it", prefix, suffix));
  }
  text.remove_prefix(prefix.size());
  text.remove_suffix(suffix.size());
  question.text = std::string(text);
  return question;
}

// Reads {"question": {"stem", "choices"}, "answerKey"} as published. On Hugging Face the question
// is a string, "question" (ARC) or "question_stem" (OpenBookQA), next to "choices". A data folder
// may hold either form.
Result<Question> labelled_question(const json& object, const JsonFields& fields) {
  Question question;
  const json* nested = fields.find("question");
  const bool published = nested != nullptr && nested->is_object();
  const JsonFields inner(published ? *nested : object,
                         published ? fields.source() + ": \"question\"" : fields.source());
  const char* key = published ? "stem" : nested != nullptr ? "question" : "question_stem";
  NMM_ASSIGN(question.text, inner.required_string(key));
  NMM_ASSIGN(auto choices, labelled_choices(inner));
  NMM_ASSIGN(const std::string answer, fields.required_string("answerKey"));
  const auto& labels = choices.second;
  // Labels are letters or digits, depending on the question.
  const auto found = std::ranges::find(labels, lstrip(answer));
  if (found == labels.end()) {
    return fields.wrong("answerKey", fmt::format("one of {}", fmt::join(labels, ", ")));
  }
  question.gold = found - labels.begin();
  question.choices = std::move(choices.first);
  return question;
}

// Reads a PIQA item. Its label is the item's own field or a line of the labels file.
Result<Question> goal(const JsonFields& fields, std::optional<std::string_view> label) {
  Question question;
  NMM_ASSIGN(question.text, fields.required_string("goal"));
  for (const char* solution : {"sol1", "sol2"}) {
    NMM_ASSIGN(question.choices.emplace_back(), fields.required_string(solution));
  }
  if (!label) {
    NMM_ASSIGN(question.gold, index_field(fields, "label", 0, 2));
  } else if (*label == "0" || *label == "1") {
    question.gold = *label == "1" ? 1 : 0;
  } else {
    return fail("{}: its line in the labels file: expected 0 or 1, found \"{}\"", fields.source(),
                *label);
  }
  return question;
}

// Reads a HellaSwag item. The context is put together from three fields and cleaned of markup, as
// the harness does.
Result<Question> endings(const JsonFields& fields) {
  if (fields.find("query") != nullptr) return preformatted(fields, "", "");
  Question question;
  NMM_ASSIGN(const std::string activity, fields.required_string("activity_label"));
  NMM_ASSIGN(const std::string ctx_a, fields.required_string("ctx_a"));
  NMM_ASSIGN(const std::string ctx_b, fields.required_string("ctx_b"));
  question.text = hellaswag_context(activity, ctx_a, ctx_b);
  NMM_ASSIGN(question.choices, string_array(fields, "endings"));
  NMM_ASSIGN(question.gold, index_field(fields, "label", 0, std::ssize(question.choices)));
  for (std::string& ending : question.choices) ending = clean_hellaswag(ending);
  return question;
}

Result<Question> read_question(const Task& task, const json& object, const JsonFields& fields,
                               std::optional<std::string_view> label) {
  if (task.format == TaskFormat::kGoal) return goal(fields, label);
  if (task.format == TaskFormat::kEndings) return endings(fields);
  NMM_CHECK(task.format == TaskFormat::kQuestion);
  if (fields.find("query") != nullptr) return preformatted(fields, "Question: ", "\nAnswer:");
  return labelled_question(object, fields);
}

// Reads a WinoGrande item for partial scoring. The two contexts end in the two options. The rest of
// the sentence is the same for both and is the scored continuation.
Result<TaskItem> blank(const JsonFields& fields) {
  TaskItem item;
  NMM_ASSIGN(const std::string sentence, fields.required_string("sentence"));
  const size_t blank_position = sentence.find('_');
  if (blank_position == std::string::npos) return fields.wrong("sentence", "a blank (\"_\")");
  const std::string_view rest = strip(std::string_view(sentence).substr(blank_position + 1));
  for (const char* key : {"option1", "option2"}) {
    NMM_ASSIGN(const std::string option, fields.required_string(key));
    item.requests.push_back(
        {sentence.substr(0, blank_position) + option, fmt::format(" {}", rest)});
  }
  NMM_ASSIGN(item.gold, index_field(fields, "answer", 1, 2));
  return item;
}

// Returns all lines, including empty ones, because labels and messages go by line number.
std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.push_back(line);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lines;
}

}  // namespace

Result<TaskItem> parse_item(const Task& task, std::string_view json,
                            std::optional<std::string_view> label, const std::string& source) {
  NMM_ASSIGN(const nlohmann::json object, io::parse_json_object(json, source));
  const JsonFields fields(object, source);
  if (task.format == TaskFormat::kBlank) return blank(fields);
  NMM_ASSIGN(const Question question, read_question(task, object, fields, label));
  if (question.choices.size() < 2) {
    return fail("{}: expected at least 2 choices, found {}", source, question.choices.size());
  }
  TaskItem item;
  item.gold = question.gold;
  // A choice is scored as the continuation of its context, with one space before it.
  const std::string context =
      fmt::format("{}{}{}", task.prompt_prefix, question.text, task.prompt_suffix);
  for (const std::string& choice : question.choices) {
    item.requests.push_back({context, fmt::format(" {}", choice)});
    item.choice_lengths.push_back(text::count_code_points(choice));
  }
  return item;
}

Result<std::vector<TaskItem>> read_items(const Task& task, const TaskFiles& files, int64_t limit) {
  NMM_ASSIGN(const std::string text, io::read_text_file(files.items, io::kMaxTextBytes));
  const std::vector<std::string_view> lines = lines_of(text);
  std::string labels_text;
  std::vector<std::string_view> labels;
  if (!files.labels.empty()) {
    NMM_ASSIGN(labels_text, io::read_text_file(files.labels, io::kMaxTextBytes));
    labels = lines_of(labels_text);
    if (labels.size() != lines.size()) {
      return fail("{}: expected {} labels, one for each line of {}, found {}",
                  files.labels.string(), lines.size(), files.items.string(), labels.size());
    }
  }
  std::vector<TaskItem> items;
  for (size_t i = 0; i < lines.size() && (limit == 0 || std::ssize(items) < limit); ++i) {
    if (strip(lines[i]).empty()) continue;
    const std::string source = fmt::format("{}:{}", files.items.string(), i + 1);
    const auto label = labels.empty() ? std::nullopt : std::optional(strip(labels[i]));
    NMM_ASSIGN(items.emplace_back(), parse_item(task, lines[i], label, source));
    items.back().line = static_cast<int64_t>(i + 1);
  }
  if (items.empty()) return fail("{}: expected items, found none", files.items.string());
  return items;
}

}  // namespace neuronmm::eval
