// The functions that every template has: those of Jinja and those of transformers.

#include <array>
#include <ctime>
#include <utility>

#include "text/jinja/arguments.h"
#include "text/jinja/iterator.h"
#include "text/jinja/objects.h"

namespace neuronmm::text::jinja {
namespace {

constexpr uint64_t kMaxRange = 100'000;  // The limit is sandbox.MAX_RANGE of Jinja.

Result<Value> make_range(Runtime&, const Arguments& arguments) {
  NMM_ASSIGN(const BoundArguments bound, bind("range", arguments, {"", "", ""}, 1));
  NMM_ASSIGN(int64_t start, integer_argument("range", bound[0], 0));
  NMM_ASSIGN(int64_t stop, integer_argument("range", bound[1], 0));
  NMM_ASSIGN(const int64_t step, integer_argument("range", bound[2], 1));
  if (bound[1] == nullptr) stop = std::exchange(start, 0);
  if (step == 0) return fail("range() arg 3 must not be zero");
  // The distance of two 64-bit integers always fits an unsigned 64-bit integer.
  const bool empty = step > 0 ? start >= stop : start <= stop;
  const uint64_t distance = step > 0 ? static_cast<uint64_t>(stop) - static_cast<uint64_t>(start)
                                     : static_cast<uint64_t>(start) - static_cast<uint64_t>(stop);
  const uint64_t stride =
      step > 0 ? static_cast<uint64_t>(step) : uint64_t{0} - static_cast<uint64_t>(step);
  const uint64_t count = empty ? 0 : (distance - 1) / stride + 1;
  if (count > kMaxRange) return fail("range too big: more than {} items", kMaxRange);
  return Value(ObjectPtr(std::make_shared<Range>(start, stop, step, static_cast<size_t>(count))));
}

// Makes a dict of the entries of a dict or a list of pairs, followed by the named arguments.
Result<Value> make_dict(Runtime& runtime, const Arguments& arguments) {
  DictBuilder dict(runtime);
  if (arguments.positional.size() > 1) return fail("dict expected at most 1 argument");
  if (!arguments.positional.empty()) {
    const Value& source = arguments.positional.front();
    if (source.is_undefined()) return fail("{}", source.undefined_message());
    NMM_ASSIGN(const Values items,
               to_values(runtime, source.dict() == nullptr
                                      ? source
                                      : Value(ObjectPtr(std::make_shared<DictView>(
                                            source.dict_ptr(), DictView::Kind::kItems)))));
    for (const Value& item : items) {
      NMM_ASSIGN(const Values pair, to_values(runtime, item));
      if (pair.size() != 2) return fail("dict(): expected pairs, found {} values", pair.size());
      NMM_TRY(dict.set(pair[0], pair[1]));
    }
  }
  for (const auto& [name, value] : arguments.named) {
    NMM_ASSIGN(const Value key, make_text(runtime, name));
    NMM_TRY(dict.set(key, value));
  }
  return dict.take();
}

Result<Value> make_namespace(Runtime& runtime, const Arguments& arguments) {
  NMM_ASSIGN(const Value values, make_dict(runtime, arguments));
  const auto space = std::make_shared<Namespace>();
  NMM_TRY(runtime.budget.allocate(sizeof(Namespace)));
  for (const auto& [key, value] : values.dict()->entries) {
    if (key.text() == nullptr) continue;  // A template could not ask for this key.
    NMM_TRY(space->set(key.text()->bytes, value));
  }
  runtime.namespaces.push_back(space);
  return Value(ObjectPtr(space));
}

// Fails with the message with which the template's author rejects the conversation.
Result<Value> raise_exception(Runtime& runtime, const Arguments& arguments) {
  NMM_ASSIGN(const BoundArguments bound, bind("raise_exception", arguments, {"message"}, 1));
  NMM_ASSIGN(const TextPtr message, to_text(runtime, *bound[0]));
  return fail("{}", message->bytes.substr(0, 2000));
}

Result<Value> strftime_now(Runtime& runtime, const Arguments& arguments) {
  NMM_ASSIGN(const BoundArguments bound, bind("strftime_now", arguments, {"format"}, 1));
  NMM_ASSIGN(const Text* format, text_argument("strftime_now", bound[0]));
  if (format->bytes.empty()) return make_text(runtime, "");
  std::tm local{};
  localtime_r(&runtime.now, &local);
  std::array<char, 4096> buffer;
  const size_t size = std::strftime(buffer.data(), buffer.size(), format->bytes.c_str(), &local);
  if (size == 0)
    return fail("strftime_now(): expected a format of a date, found {:?}",
                format->bytes.substr(0, 100));
  return make_text(runtime, std::string_view(buffer.data(), size));
}

Result<Value> unsupported(Runtime&, const Arguments&) {
  return fail("expected a function that chat templates use, found another of Jinja's");
}

}  // namespace

Runtime::~Runtime() {
  for (const auto& space : namespaces) space->clear();
}

Result<std::optional<Value>> Namespace::attribute(Runtime&, std::string_view name) {
  const auto found = values_.find(name);
  return found == values_.end() ? std::nullopt : std::optional(found->second);
}

Status Namespace::set(std::string_view name, Value value) {
  if (name.starts_with('_'))
    return fail("expected an attribute that does not begin with an underscore, found '{}'", name);
  values_.insert_or_assign(std::string(name), std::move(value));
  return {};
}

Function find_global(std::string_view name) {
  static constexpr std::pair<std::string_view, Function> kGlobals[] = {
      {"range", make_range},          {"dict", make_dict},
      {"namespace", make_namespace},  {"raise_exception", raise_exception},
      {"strftime_now", strftime_now}, {"lipsum", unsupported},
      {"cycler", unsupported},        {"joiner", unsupported},
  };
  for (const auto& [known, function] : kGlobals) {
    if (known == name) return function;
  }
  return nullptr;
}

}  // namespace neuronmm::text::jinja
