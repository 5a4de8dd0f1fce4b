// Runs the programs in a folder of traps: files with the names of everything that a program, its
// libraries, Python or a shell could look for. The system tells which of these files are opened.
// None may be, apart from those that a kernel imports itself.

#include <algorithm>
#include <array>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/inotify.h>

#include "elf_file.h"
#include "parallel/several_processes.h"
#include "run_program.h"
#include "search_path.h"

namespace neuronmm::apps {
namespace {

namespace fs = std::filesystem;
using testing::IsEmpty;

const std::vector<std::string> kPrograms = {
    "bash",     "env",        "git",   "ld.so", "less",  "mpirun",
    "neuronmm", "nvidia-smi", "orted", "prted", "pyenv", "python",
    "python3",  "python3.11", "sh",    "ssh",   "uname"};
const std::vector<std::string> kFiles = {".cache/neuronmm/tilings.json",
                                         ".editrc",
                                         ".inputrc",
                                         ".neuronmm",
                                         ".neuronmmrc",
                                         ".openmpi/mca-params.conf",
                                         ".terminfo/d/dumb",
                                         "calibration.txt",
                                         "chat_template.jinja",
                                         "config.json",
                                         "generation_config.json",
                                         "hostfile",
                                         "kernel_trace",
                                         "mca-params.conf",
                                         "model.safetensors",
                                         "model.safetensors.index.json",
                                         "neuronmm.conf",
                                         "neuronmm.json",
                                         "nki/__init__.py",
                                         "nki/run.py",
                                         "openmpi-mca-params.conf",
                                         "openssl.cnf",
                                         "pmix-mca-params.conf",
                                         "python_packages/nki/run.py",
                                         "python311._pth",
                                         "pyvenv.cfg",
                                         "share/neuronmm/python/nki/run.py",
                                         "special_tokens_map.json",
                                         "tilings.json",
                                         "tokenizer.json",
                                         "tokenizer_config.json",
                                         "training.json"};
const std::vector<std::string> kModules = {
    "_distutils_hack", "jax", "matplotlib",    "ml_dtypes", "neuron_dtypes", "neuronxcc",
    "numpy",           "nki", "sitecustomize", "scipy",     "torch",         "usercustomize"};

// The words of a command's output.
std::vector<std::string> words_of(const std::string& command) {
  std::istringstream text(run_shell(command).output);
  return {std::istream_iterator<std::string>(text), {}};
}

// Returns the names of all libraries that a file loads, and that those load.
std::vector<std::string> library_names(const fs::path& file) {
  return words_of("ldd '" + file.string() +
                  "' | sed -n 's/^[[:space:]]*\\([^ /]*\\.so[^ ]*\\).*/\\1/p'");
}

class CurrentFolder : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    traps_ = folder_ / "traps";
    fs::create_directories(traps_ / "bin");
    for (const std::string& name : kPrograms) {
      for (const char* folder : {"", "bin/"}) add_program(folder + name);
    }
    for (const std::string& name : kFiles) add(name);
    for (const std::string& name : kModules) add(name + ".py");
    for (const auto& name :
         words_of("/usr/bin/python3 -c 'import sys; print(*sys.stdlib_module_names)' 2>&1"))
      add(name + ".py");
    std::vector<std::string> libraries = {"libopenblas.so.0", "liblapacke.so.3",
                                          "libnss_files.so.2"};
    for (const std::string& name : library_names(program_path())) libraries.push_back(name);
    for (const std::string& name : read_elf_file(program_path()).needed) libraries.push_back(name);
    for (const std::string& name : libraries) {
      for (const char* folder : {"", "bin/", "openmpi/"}) add(folder + name);
    }
    watch();
  }
  void TearDown() override {
    close(inotify_);
    ProgramTest::TearDown();
  }

  void add(const std::string& name) {
    fs::create_directories((traps_ / name).parent_path());
    std::ofstream(traps_ / name) << "this is a trap\n";
  }
  void add_program(const std::string& name) {
    std::ofstream(traps_ / name) << "#!/bin/sh\nexit 0\n";
    fs::permissions(traps_ / name, fs::perms::owner_all);
  }

  void watch() {
    inotify_ = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    ASSERT_GE(inotify_, 0);
    ASSERT_GE(inotify_add_watch(inotify_, traps_.c_str(), IN_OPEN), 0);
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(traps_)) {
      if (entry.is_directory()) inotify_add_watch(inotify_, entry.path().c_str(), IN_OPEN);
    }
    sprung();
  }

  // Returns the names of the files that were opened since the last call.
  std::set<std::string> sprung() const {
    std::set<std::string> names;
    alignas(inotify_event) std::array<char, 65536> buffer;
    ssize_t size = 0;
    while ((size = ::read(inotify_, buffer.data(), buffer.size())) > 0) {
      for (ssize_t at = 0; at < size;) {
        const auto* event = reinterpret_cast<const inotify_event*>(buffer.data() + at);
        if ((event->mask & IN_Q_OVERFLOW) != 0) names.insert("too many events");
        if ((event->mask & IN_ISDIR) == 0 && event->len > 0) names.insert(event->name);
        at += static_cast<ssize_t>(sizeof(inotify_event)) + event->len;
      }
    }
    return names;
  }

  // Runs a line in the folder, with variables that lead to it.
  Outcome run_here(const std::string& line) const {
    return run_shell(
        "cd '" + traps_.string() +
        "' && export PATH=:.:bin:/usr/bin:/bin: PYTHONPATH=:.:bin: XDG_CACHE_HOME=. && "
        "unset HOME && { " +
        line + "; } 2>&1 </dev/null");
  }
  Outcome run_program_here(const std::string& arguments) const {
    return run_here("'" + program_path().string() + "' " + arguments);
  }

  fs::path traps_;
  int inotify_ = -1;
};

TEST_F(CurrentFolder, TheTrapsWork) {
  run_shell("cat '" + (traps_ / "json.py").string() + "'");
  EXPECT_THAT(sprung(), testing::ElementsAre("json.py"));
  run_here("git");
  EXPECT_THAT(sprung(), testing::Contains("git"));
  run_here("LD_LIBRARY_PATH=: '" + program_path().string() + "' --version");
  EXPECT_FALSE(sprung().empty());
  run_here("PYTHONPATH= /usr/bin/python3 -c 'import numpy' || true");
  EXPECT_THAT(sprung(), testing::Contains("numpy.py"));
}

TEST_F(CurrentFolder, NoCommandTakesAnythingFromItToStart) {
  expect(run_program_here("--version"), 0, {"neuronmm"});
  const auto commands =
      words_of("'" + program_path().string() +
               "' describe bash-completion | sed -n 's/^    \\([a-z]*\\)) words.*/\\1/p'");
  ASSERT_GT(commands.size(), 20u);
  for (const std::string& command : commands) expect(run_program_here(command + " --help"), 0, {});
  EXPECT_THAT(sprung(), IsEmpty());
}

TEST_F(CurrentFolder, ModelsAndLibrariesComeFromTheirFolders) {
  const std::string small = path("small"), model = "'" + kOneLayer + "' ";
  expect(run_program_here("inspect " + model), 0, {});
  expect(run_program_here("generate " + model + "Once --max-new-tokens 2"), 0, {});
  // OpenBLAS and LAPACK are loaded by their names.
  expect(run_program_here("compress " + model +
                          "--ratio 0.8 --form uv --method svd --no-measure -o " + small),
         0, {});
  // The template of the current folder is none of the model's.
  expect(run_program_here("chat " + model), 1, {"the model has no chat template"});
  EXPECT_THAT(sprung(), IsEmpty());
}

TEST_F(CurrentFolder, ArgumentsThatAreEmptyDoNotMeanIt) {
  for (const char* command :
       {"inspect ''", "generate '' Once", "tokenize '' a", "serve '' --port 0", "import '' -o x",
        "check '' --reference a", "bench ''"})
    expect(run_program_here(command), 2, {"expected a value, found an empty one"});
  EXPECT_THAT(sprung(), IsEmpty());
}

// XDG_CACHE_HOME is relative, and such a folder counts as none.
TEST_F(CurrentFolder, TuningsAreNotKeptInIt) {
  expect(run_program_here("simulate xuv --shape 128,128,128,128 --tiling auto"), 0, {});
  EXPECT_THAT(sprung(), IsEmpty());
}

TEST_F(CurrentFolder, ProcessesOfALauncherTakeNothingFromIt) {
  if (const std::string why = parallel::why_no_mpirun(); !why.empty()) GTEST_SKIP() << why;
  const Outcome outcome = run_shell("cd '" + traps_.string() + "' && " + parallel::mpirun(2) +
                                    " '" + program_path().string() + "' generate '" + kOneLayer +
                                    "' Once --max-new-tokens 2 2>&1 </dev/null");
  expect(outcome, 0, {});
  EXPECT_THAT(sprung(), IsEmpty());
}

class KernelFolder : public CurrentFolder {
 protected:
  void SetUp() override {
    CurrentFolder::SetUp();
    if (run_shell("/usr/bin/python3 -P -c 'import numpy' 2>&1").exit_code != 0)
      GTEST_SKIP() << "no /usr/bin/python3 of version 3.11 or newer with NumPy: "
                      "tools/install_dependencies.sh test";
  }
  // Writes a kernel that copies its argument.
  std::string kernel(const fs::path& folder, const std::string& imports) const {
    fs::create_directories(folder);
    std::ofstream(folder / "kernel.py")
        << imports << "\nimport nki.language as nl\n\ndef kernel(x):\n"
        << "    y = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)\n    nl.store(y, "
           "nl.load(x))\n"
        << "    return y\n";
    return (folder / "kernel.py").string();
  }
  static std::string arguments() { return ":kernel --arg 'x=fp32[8,8]' --ref x"; }
};

TEST_F(KernelFolder, PythonTakesNothingFromTheCurrentFolder) {
  const std::string elsewhere = kernel(folder_ / "kernels", "import numpy, json, numpy.testing");
  expect(run_program_here("nki " + elsewhere + arguments()), 0, {"2 instructions"});
  EXPECT_THAT(sprung(), IsEmpty());
}

// Installed modules come first, and then the modules next to the kernel.
TEST_F(KernelFolder, AKernelMayImportItsOwnModulesFromIt) {
  add("helper.py");
  std::ofstream(traps_ / "helper.py") << "import json, other_helper\n";
  std::ofstream(traps_ / "other_helper.py") << "import numpy\n";
  kernel(traps_, "import numpy, json, helper");
  sprung();
  expect(run_program_here("nki kernel.py" + arguments()), 0, {"2 instructions"});
  EXPECT_THAT(sprung(), testing::UnorderedElementsAre("kernel.py", "helper.py", "other_helper.py"));
}

TEST(SearchPath, OnlyAbsoluteFoldersAreSearched) {
  const SearchPath path = split_search_path(":/a::b:./c:/d/:.:");
  EXPECT_THAT(path.absolute, testing::ElementsAre("/a", "/d/"));
  EXPECT_THAT(path.relative, testing::ElementsAre("b", "./c", "."));
  EXPECT_THAT(split_search_path("").absolute, IsEmpty());
  EXPECT_EQ(find_program("sh", "bin:/usr/bin:/bin"), "/usr/bin/sh");
  EXPECT_EQ(find_program("sh", ".:bin:"), "");
  EXPECT_EQ(find_program("no such program", "/usr/bin"), "");
}

}  // namespace
}  // namespace neuronmm::apps
