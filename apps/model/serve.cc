// The command `neuronmm serve`: serves a model over HTTP to clients of OpenAI, Anthropic, Ollama
// and llama.cpp. It takes its address first, so that a port in use is an error at once, then loads
// the model, and says that it listens when requests can be answered. A signal lets running answers
// finish.

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <optional>
#include <thread>

#include <fmt/core.h>
#include <sys/resource.h>

#include "base/interrupt.h"
#include "base/parallel.h"
#include "byte_size.h"
#include "commands.h"
#include "io/generation_config.h"
#include "memory_reserve.h"
#include "message.h"
#include "model/draft_option.h"
#include "model/generate.h"
#include "model/hangup.h"
#include "model/model_rows.h"
#include "model/serve_flags.h"
#include "model/serve_memory.h"
#include "processes.h"
#include "serve/http/api_keys.h"
#include "version.h"

namespace neuronmm::apps {
namespace {

namespace fs = std::filesystem;
using SteadyClock = std::chrono::steady_clock;
// The interval at which loops look for a signal or for the end of the answers. Assumed: nobody
// notices so short a wait, and 50 looks a second cost nothing.
constexpr auto kPollInterval = std::chrono::milliseconds(20);

// Raises the soft limit of file descriptors to the hard limit. Every connection needs a descriptor,
// and shells often set the soft limit to 1024.
void raise_descriptor_limit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

// Everything that must live as long as the server.
struct Loaded {
  std::unique_ptr<ops::Backend> backend;
  std::unique_ptr<text::Tokenizer> tokenizer;
  std::unique_ptr<model::Transformer> transformer;
  LoadedDraft draft;
  std::unique_ptr<serve::Engine> engine;
};

std::string default_name(const std::string& folder) {
  std::error_code ignored;
  const fs::path path = fs::weakly_canonical(folder, ignored);
  return path.filename().empty() ? folder : path.filename().string();
}

// Returns how many tokens a prompt and its answer may have together. Prints a message if that is
// less than what the flags ask for.
Result<int64_t> context_tokens(const serve::EngineOptions& options, const char* memory_flag,
                               const model::Transformer& transformer) {
  const serve::SequenceCapacity capacity = serve::sequence_capacity(transformer, options);
  if (capacity.kv_cache == 0)
    return fail("--kv-cache-memory: expected at least {}, which {} tokens take, found {}",
                byte_size_text(serve::kv_block_bytes(transformer, options), SizeRounding::kUp),
                ops::kKvBlock, byte_size_text(options.kv_cache_bytes));
  const int64_t of_model = transformer.config().max_position_embeddings;
  if (options.context_tokens > of_model)
    print_message(
        "--context-length {}: the context is {} tokens, as the model's config.json says\n",
        options.context_tokens, of_model);
  if (capacity.kv_cache < capacity.context)
    print_message("{} {}: the context is {} tokens, not {}, since no more fit\n", memory_flag,
                  byte_size_text(options.kv_cache_bytes), capacity.kv_cache, capacity.context);
  return capacity.tokens();
}

Result<serve::ServedModel> served_model(const ServeFlags& flags, const serve::EngineOptions& engine,
                                        const Loaded& loaded) {
  const io::ModelConfig& config = loaded.transformer->config();
  serve::ServedModel model;
  model.names = flags.settings.served_model_names;
  if (model.names.empty()) model.names = {default_name(flags.settings.model_dir)};
  model.any_name = flags.settings.any_model_name;
  model.tokenizer = loaded.tokenizer.get();
  model.vocab_size = config.vocab_size;
  model.hidden_size = config.hidden_size;
  model.pooling = flags.settings.pooling;
  const char* const memory_flag =
      flags.settings.engine.kv_cache_bytes > 0 ? "--kv-cache-memory" : "memory of keys and values";
  NMM_ASSIGN(model.context_tokens, context_tokens(engine, memory_flag, *loaded.transformer));
  NMM_ASSIGN(model.generation, io::GenerationConfig::load(flags.settings.model_dir));
  model.stop_tokens = model::stop_tokens_of(model.generation, config, *loaded.tokenizer);
  model.system_fingerprint = fmt::format("neuronmm-{}", kVersion);
  model.created = std::chrono::duration_cast<std::chrono::seconds>(
                      std::chrono::system_clock::now().time_since_epoch())
                      .count();
  model.slots = engine.max_sequences;
  const io::Checkpoint& checkpoint = loaded.transformer->checkpoint();
  model.sizes = {.trained_context_tokens = config.max_position_embeddings,
                 .hidden_size = config.hidden_size,
                 .parameters = checkpoint.parameters(),
                 .bytes = checkpoint.size_bytes()};
  serve::describe_templates(model);
  return model;
}

// Returns the sampling settings that a request to /v1 gets if it sets none. They are those of the
// file, whatever do_sample says.
io::GenerationConfig request_defaults(const io::GenerationConfig& file) {
  io::GenerationConfig settings = file;
  settings.temperature = file.temperature.value_or(1.0);
  return settings;
}

// Returns the settings that the web page sends with a conversation, by the names of the fields of
// /v1/chat/completions. A value that changes nothing is left out.
nlohmann::ordered_json page_defaults(const io::GenerationConfig& file) {
  const auto settings =
      file.recommends_sampling() ? request_defaults(file) : file.for_conversation();
  nlohmann::ordered_json json = {{"temperature", *settings.temperature}};
  if (settings.top_p) json["top_p"] = *settings.top_p;
  if (settings.top_k) json["top_k"] = *settings.top_k;
  if (settings.min_p) json["min_p"] = *settings.min_p;
  if (settings.repetition_penalty) json["repetition_penalty"] = *settings.repetition_penalty;
  return json;
}

// Says how answers are sampled if nobody asks for anything else.
void print_sampling(const io::GenerationConfig& file) {
  if (file.recommends_sampling()) {
    print_message(
        "sampling: /v1 and the web page use the model's generation_config.json unless a request "
        "says otherwise: {}\n",
        page_defaults(file).dump());
    return;
  }
  print_message(
      "sampling: /v1 uses temperature 1 unless a request says otherwise, as OpenAI documents it; "
      "the web page asks for temperature {} and top_p {}, because the model recommends nothing\n",
      io::kConversationTemperature, io::kConversationTopP);
}

// Returns the JSON of GET /v1/model: what `inspect --json` prints, the device, the context length
// and the defaults of the web page.
Result<std::string> description(const ServeFlags& flags, const serve::ServedModel& model,
                                const model::Transformer& transformer) {
  const io::ModelConfig& config = transformer.config();
  NMM_ASSIGN(const auto layers, read_layers(transformer.checkpoint(), config));
  auto json = model_json(config, transformer.checkpoint(), layers);
  json["model"] = model.names.front();  // clients do not need to know the folder
  json["form"] = config.compression ? config.compression->form : "dense";
  json["context_length"] = model.context_tokens;
  json["dense_bytes"] = dense_bytes(config, transformer.checkpoint(), layers);
  json["device"] = flags.device.device;
  json["version"] = kVersion;
  json["defaults"] = page_defaults(model.generation);
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

// Loads the draft, if there is one, and tells the engine of it.
Status add_draft(const ServeFlags& flags, Loaded& loaded, serve::EngineOptions& engine) {
  NMM_ASSIGN(loaded.draft, load_draft(flags.draft, *loaded.transformer, loaded.tokenizer.get()));
  const int64_t wanted =
      std::min(engine.context_tokens, loaded.transformer->config().max_position_embeddings);
  NMM_TRY(
      check_draft_context(loaded.draft, *loaded.transformer, "--context-length asks for", wanted));
  engine.draft = {
      loaded.draft.transformer.get(), loaded.draft.lookup(),
      [option = flags.draft](const std::string& reason) { print_draft_failure(option, reason); }};
  return {};
}

Result<std::shared_ptr<serve::GenerationService>> load(const ServeFlags& flags,
                                                       const ServerMemory& memory, Loaded& loaded) {
  NMM_ASSIGN(auto tokenizer, text::Tokenizer::load(flags.settings.model_dir));
  loaded.tokenizer = std::make_unique<text::Tokenizer>(std::move(tokenizer));
  DeviceOptions device = flags.device;
  device.memory_bytes = memory.limit_bytes;
  NMM_ASSIGN(loaded.backend, make_backend(device));
  NMM_ASSIGN(auto transformer, model::Transformer::load(flags.settings.model_dir, *loaded.backend));
  loaded.transformer = std::make_unique<model::Transformer>(std::move(transformer));
  serve::EngineOptions engine = flags.settings.engine;
  NMM_TRY(add_draft(flags, loaded, engine));
  NMM_TRY(divide(memory, *loaded.transformer, engine));
  serve::ServiceParts parts;
  NMM_ASSIGN(parts.model, served_model(flags, engine, loaded));
  NMM_ASSIGN(parts.description_json, description(flags, parts.model, *loaded.transformer));
  print_message("{}\n", memory_statement(memory, *loaded.transformer, engine));
  loaded.engine = std::make_unique<serve::Engine>(*loaded.transformer, engine);
  parts.engine = loaded.engine.get();
  parts.metrics_prefix = flags.settings.metrics_prefix;
  parts.allow_priority = flags.settings.allow_priority;
  if (flags.device.simulated()) {
    parts.device = flags.device.device;
    parts.device_clock = [backend = loaded.backend.get()] { return backend->clock_seconds(); };
  }
  return std::make_shared<serve::GenerationService>(std::move(parts));
}

// Waits until all answers are sent, the time is over or a second signal comes. If a process of the
// run is lost, its answers end at once.
Result<int> drain(serve::Server& server, double timeout_s, const OrderlyShutdown& ending) {
  if (interrupted()) {
    print_message(
        "no new requests are taken; running answers have {} s, or until a second signal\n",
        timeout_s);
  }
  server.drain();
  const auto end = SteadyClock::now() + std::chrono::duration<double>(timeout_s);
  while (!server.drained()) {
    if (ending.must_stop_now()) {
      server.abort();
      return fail("answers that still ran were broken off by a second signal");
    }
    if (SteadyClock::now() >= end) {
      server.abort();
      return fail("answers that still ran after {} s were broken off (--shutdown-timeout)",
                  timeout_s);
    }
    std::this_thread::sleep_for(kPollInterval);
  }
  return 0;
}

// Opens the access log again after SIGHUP. If the terminal is closed, the server ends in order, as
// after SIGTERM.
void obey_hangup(serve::Server& server) {
  const Hangup hangup = take_hangup();
  if (hangup == Hangup::kReopenLog) server.reopen_access_log();
  if (hangup == Hangup::kTerminalClosed) std::raise(SIGTERM);
}

Result<serve::ServerOptions> server_options(const ServeFlags& flags) {
  serve::ServerOptions options = flags.settings.server;
  options.version = kVersion;
  if (!flags.settings.api_key_file.empty()) {
    NMM_ASSIGN(const auto keys, serve::read_api_keys(flags.settings.api_key_file));
    options.api_keys.insert(options.api_keys.end(), keys.begin(), keys.end());
  }
  return options;
}

Result<int> run_serve(const ServeFlags& flags) {
  raise_descriptor_limit();
  install_hangup_handler();
  // The declarations are in reverse order of destruction: first the server, then `loaded`, last
  // `ending`.
  std::optional<OrderlyShutdown> ending;
  Loaded loaded;
  NMM_ASSIGN(auto options, server_options(flags));
  NMM_ASSIGN(const auto server, serve::Server::start(std::move(options)));
  const ServerMemory memory =
      server_memory(flags.settings.memory_bytes, world_communicator().processes_of_host());
  enforce(memory, std::max(flags.device.threads, num_threads()));
  NMM_ASSIGN(const auto service, load(flags, memory, loaded));
  // A signal ends the process before this line. After it, a signal only asks for an orderly end.
  ending.emplace();
  server->serve(service);
  fmt::print("listening on {}\n", server->url());
  std::fflush(stdout);
  print_sampling(service->model().generation);
  if (service->model().tokenizer->config().chat_templates.empty())
    print_message(
        "the model has no chat template, so it only continues texts: use /v1/completions\n");
  print_message("{} is ready\n", service->model().names.front());
  while (!interrupted() && world_communicator().lost().empty()) {
    fill_memory_reserve();  // a request may have used it up
    std::this_thread::sleep_for(kPollInterval);
    obey_hangup(*server);
  }
  Result<int> code = drain(*server, flags.settings.shutdown_timeout_s, *ending);
  // The launcher may send its signal before this process knows which other process was lost.
  if (const std::string lost = world_communicator().lost(); !lost.empty()) return fail("{}", lost);
  return code;
}

}  // namespace

void add_serve(Program& program) {
  auto flags = std::make_shared<ServeFlags>();
  CLI::App* command = program.add(
      CommandGroup::kModels, "serve",
      "Serve a model over HTTP with OpenAI's, Anthropic's and Ollama's APIs",
      {"neuronmm serve MODEL_DIR", "neuronmm serve MODEL_DIR --port 8080 --kv-cache-memory 4GB"});
  add_serve_flags(command, *flags);
  program.set_run(
      command, [flags] { return run_serve(*flags); }, ProcessMode::kTensorParallel);
}

}  // namespace neuronmm::apps
