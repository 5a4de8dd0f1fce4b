// The program neuronmm. Each subcommand is defined in the file of the same name.

#include "base/notices.h"
#include "base/printable.h"
#include "commands.h"
#include "gguf/mounted_gguf.h"
#include "io/mounted_model.h"
#include "message.h"
#include "process.h"
#include "processes.h"

namespace {

// Prints what libraries have found out, once for all processes of a launcher.
void print_notice(const std::string& sentence) {
  if (!neuronmm::apps::world_communicator().is_first()) return;
  neuronmm::apps::print_message("note: {}\n", neuronmm::printable(sentence));
}

int run(int argc, char** argv) {
  neuronmm::set_notice_handler(print_notice);
  neuronmm::io::set_mount_opener(neuronmm::gguf::open_mounted);
  neuronmm::apps::Program program;
  program.set_process_hooks({neuronmm::apps::add_link_options, neuronmm::apps::run_on_processes});
  neuronmm::apps::add_compress(program);
  neuronmm::apps::add_finetune(program);
  neuronmm::apps::add_fit(program);
  neuronmm::apps::add_quantize(program);
  neuronmm::apps::add_generate(program);
  neuronmm::apps::add_chat(program);
  neuronmm::apps::add_serve(program);
  neuronmm::apps::add_perplexity(program);
  neuronmm::apps::add_eval(program);
  neuronmm::apps::add_export(program);
  neuronmm::apps::add_compare(program);
  neuronmm::apps::add_bench(program);
  neuronmm::apps::add_check(program);
  neuronmm::apps::add_inspect(program);
  neuronmm::apps::add_import(program);
  neuronmm::apps::add_synthesize(program);
  neuronmm::apps::add_demo(program);
  neuronmm::apps::add_tokenize(program);
  neuronmm::apps::add_kernels(program);
  neuronmm::apps::add_simulate(program);
  neuronmm::apps::add_nki(program);
  neuronmm::apps::add_tune(program);
  neuronmm::apps::add_emit(program);
  neuronmm::apps::add_paper(program);
  return program.run(argc, argv);
}

}  // namespace

int main(int argc, char** argv) {
  return neuronmm::apps::run_guarded([&] { return run(argc, argv); });
}
