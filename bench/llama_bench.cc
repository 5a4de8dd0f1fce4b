#include "llama_bench.h"

#include <array>
#include <cstdio>

#include <nlohmann/json.hpp>

#include "io/json_file.h"

namespace neuronmm::bench {
namespace {

// Returns the argument in single quotes for a POSIX shell.
std::string quoted(const std::string& argument) {
  std::string text = "'";
  for (const char c : argument) text += c == '\'' ? "'\\''" : std::string(1, c);
  return text + "'";
}

Result<std::string> output_of(const std::string& command) {
  FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return fail("{}: cannot be started", command);
  std::string output;
  std::array<char, 4096> buffer;
  for (size_t count = 0; (count = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) {
    output.append(buffer.data(), count);
  }
  if (pclose(pipe) != 0) return fail("{}: failed; run it to see why", command);
  return output;
}

}  // namespace

Result<TokensPerSecond> parse_llama_bench(std::string_view output, const std::string& source) {
  NMM_ASSIGN(const nlohmann::json tests, io::parse_json(output, source));
  if (!tests.is_array()) return fail("{}: expected an array of tests", source);
  TokensPerSecond speed;
  for (const nlohmann::json& test : tests) {
    if (!test.is_object()) return fail("{}: expected tests that are objects", source);
    const io::JsonFields fields(test, source);
    NMM_ASSIGN(const auto prompt, fields.integer("n_prompt"));
    NMM_ASSIGN(const auto generated, fields.integer("n_gen"));
    NMM_ASSIGN(const auto tokens_per_s, fields.number("avg_ts"));
    if (!prompt || !generated || !tokens_per_s) return fields.missing("n_prompt, n_gen or avg_ts");
    if (*prompt > 0 && *generated == 0) speed.prefill = *tokens_per_s;
    if (*prompt == 0 && *generated > 0) speed.decode = *tokens_per_s;
  }
  if (speed.prefill <= 0 || speed.decode <= 0) {
    return fail("{}: expected a prefill and a decode test", source);
  }
  return speed;
}

Result<TokensPerSecond> LlamaBench::run(const std::string& gguf) const {
  const std::string command =
      fmt::format("{} -m {} -t {} -p {} -n {} -r 1 -o json 2>/dev/null", quoted(program),
                  quoted(gguf), threads, prompt_tokens, new_tokens);
  NMM_ASSIGN(const std::string output, output_of(command));
  return parse_llama_bench(output, command);
}

}  // namespace neuronmm::bench
