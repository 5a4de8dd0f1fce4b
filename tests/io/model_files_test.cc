// Tests what of a model folder is copied into a new one: tokenizers, settings, templates and
// licences, and nothing that is executed or that lies elsewhere.

#include "io/model_files.h"

#include <map>
#include <set>

#include <nlohmann/json.hpp>
#include <sys/stat.h>

#include "config_text.h"
#include "io_test.h"

namespace neuronmm::io {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

class ModelFiles : public testing::Test {
 protected:
  // Returns the messages.
  std::vector<std::string> copy() const {
    const auto notes = copy_model_files(in_.path(), out_.path());
    EXPECT_TRUE(notes.ok()) << notes.error().message;
    return notes.ok() ? *notes : std::vector<std::string>();
  }
  std::set<std::string> copied() const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(out_.path()))
      names.insert(entry.path().filename().string());
    return names;
  }
  Json copied_json(const std::string& name) const { return Json::parse(get(out_ / name)); }

  const TemporaryFolder in_, out_;
};

TEST_F(ModelFiles, TokenizersSettingsAndLicencesAreCopied) {
  const std::map<std::string, std::string> files = {
      {"tokenizer.json", R"({"model": {"vocab": {"auto_map": 3}}})"},
      {"tokenizer_config.json", R"({"b": 1, "a": [NaN]})"},
      {"generation_config.json", "{\"eos_token_id\": [1, 2]}\n"},
      {"special_tokens_map.json", "{}"},
      {"added_tokens.json", R"({"<tool>": 7})"},
      {"vocab.json", R"({"a": 0})"},
      {"merges.txt", "#version: 0.2\na b\n"},
      {"vocab.txt", "a\nb\n"},
      {"tokenizer.model", "\x0A\x0E\x0A\x05<unk>\x15"},
      {"qwen.tiktoken", "IQ== 0\nIg== 1\n"},
      {"LICENSE", "MIT"},
      {"LICENSE-MODEL", "OpenRAIL"},
      {"USE_POLICY.md", "Be kind."},
      {"chat_template.jinja", "{{ messages }}"}};
  std::set<std::string> names = {"config.json"};
  for (const auto& [name, text] : files) {
    put(in_ / name, text);
    names.insert(name);
  }
  put(in_ / "config.json", "theirs");
  put(out_ / "config.json", "ours");
  EXPECT_EQ(copy(), std::vector<std::string>());
  EXPECT_EQ(copied(), names);
  for (const auto& [name, text] : files) EXPECT_EQ(get(out_ / name), text) << name;
  EXPECT_EQ(get(out_ / "config.json"), "ours");
}

TEST_F(ModelFiles, NoOtherFileIsCopied) {
  for (const std::string name : {"README.md",
                                 "notes.txt",
                                 "model.safetensors",
                                 "model.safetensors.index.json",
                                 "pytorch_model.bin",
                                 "consolidated.00.pth",
                                 "model.gguf",
                                 "tf_model.h5",
                                 ".gitattributes",
                                 ".env.json",
                                 "modeling_custom.py",
                                 "tokenization_custom.py",
                                 "setup.py",
                                 "run.sh",
                                 "libcustom.so",
                                 "evil.jinja",
                                 "handler.json",
                                 "modules.json",
                                 "preprocessor_config.json",
                                 "processor_config.json",
                                 "model_index.json",
                                 "adapter_config.json",
                                 "quantize_config.json",
                                 "LICENSE.py",
                                 "NOTICE.pkl",
                                 "vocab.py",
                                 "vocab.pkl",
                                 "tokenizer.pkl",
                                 "notes.ipynb"})
    put(in_ / name, "{}");
  for (const std::string folder : {"original", "custom_generate", "tokenizer.json"}) {
    fs::create_directory(in_ / folder);
    put(in_ / (folder + "/generate.py"), "print()");
  }
  const auto notes = copy();
  EXPECT_EQ(copied(), std::set<std::string>());
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_NE(notes[0].find("tokenizer.json: is not copied: it is not a regular file"),
            std::string::npos);
}

// A name of a tokenizer does not make a tokenizer of a pickle, an archive or a script.
TEST_F(ModelFiles, FilesOfOtherContentAreNamedAndNotCopied) {
  const std::map<std::string, std::string> files = {
      {"tokenizer.model", std::string("\x80\x04\x95.\0\0\0", 7)},
      {"other.model", "PK\x03\x04 an archive"},
      {"evil.model", "import os\nos.system('true')\n"},
      {"evil.tiktoken", "#!/bin/sh\ntrue\n"},
      {"merges.txt", std::string("a b\0c", 5)},
      {"LICENSE", "#!/bin/sh\n"},
      {"vocab.json", "\x80\x02}q."},
      {"tokenizer_config.json", "{\"auto_map\": "},
      {"generation_config.json", "print()"},
      {"chat_template.jinja",
       "\x7f"
       "ELF\x02\x01"}};
  for (const auto& [name, bytes] : files) put(in_ / name, bytes);
  EXPECT_EQ(copy().size(), files.size());
  EXPECT_EQ(copied(), std::set<std::string>());
}

TEST_F(ModelFiles, KeysThatNameCodeAreLeftOut) {
  put(in_ / "tokenizer_config.json", R"({
    "z": 1, "auto_map": {"AutoTokenizer": ["tokenization_evil.Evil", null]},
    "tokenizer_class": "Evil", "nested": [{"auto_map": "x.Y", "kept": 2}],
    "a\u0075to_map": ["escaped.Key", null], "trust_remote_code": true, "chat_template": "{{ 1 }}"})");
  put(in_ / "generation_config.json",
      R"({"eos_token_id": [1, 2], "custom_generate": "evil/repository", "top_k": 3})");
  put(in_ / "special_tokens_map.json", R"({"auto_map": {"AutoTokenizer": "x.Y"}})");
  put(in_ / "tokenizer.json", R"({"auto_map": "x.Y", "model": {"vocab": {"auto_map": 3}}})");
  const auto notes = copy();
  EXPECT_EQ(notes.size(), 4u) << "the repeated key makes tokenizer_config.json no JSON object";
  EXPECT_FALSE(copied().contains("tokenizer_config.json"));
  EXPECT_EQ(copied_json("generation_config.json"), Json({{"eos_token_id", {1, 2}}, {"top_k", 3}}));
  EXPECT_EQ(copied_json("special_tokens_map.json"), Json::object());
  EXPECT_EQ(copied_json("tokenizer.json"), Json::parse(R"({"model":{"vocab":{"auto_map":3}}})"));
}

TEST_F(ModelFiles, ATokenizerOfOwnCodeIsReadFromItsJson) {
  put(in_ / "tokenizer_config.json",
      R"({"z": NaN, "a\u0075to_map": {"AutoTokenizer": ["tokenization_evil.Evil", null]},
          "tokenizer_class": "Evil", "a": 1})");
  EXPECT_EQ(copy().size(), 1u);
  EXPECT_EQ(get(out_ / "tokenizer_config.json"),
            "{\n  \"z\": {\n    \"__float__\": \"NaN\"\n  },\n"
            "  \"tokenizer_class\": \"PreTrainedTokenizerFast\",\n  \"a\": 1\n}\n");
}

TEST_F(ModelFiles, LinksDoNotLeadOutOfTheFolder) {
  const TemporaryFolder elsewhere;
  put(elsewhere / "secret", R"({"password": "1234"})");
  put(in_ / "real.json", "{}");
  fs::create_symlink(elsewhere / "secret", in_ / "vocab.json");
  fs::create_symlink("../" + elsewhere.path().filename().string() + "/secret", in_ / "LICENSE");
  fs::create_symlink("real.json", in_ / "tokenizer.json");
  fs::create_symlink(in_ / "nowhere", in_ / "added_tokens.json");
  ASSERT_EQ(mkfifo((in_ / "merges.txt").c_str(), 0600), 0);
  fs::create_directory(elsewhere / "templates");
  put(elsewhere / "templates/a.jinja", "secret");
  fs::create_symlink(elsewhere / "templates", in_ / "additional_chat_templates");
  const auto notes = copy();
  EXPECT_EQ(copied(), std::set<std::string>{"tokenizer.json"});
  EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(out_ / "tokenizer.json")));
  EXPECT_EQ(notes.size(), 5u);
}

// The folder of a revision holds links to the contents of all revisions.
TEST_F(ModelFiles, TheCacheOfHuggingFaceIsFollowed) {
  const fs::path repository = in_ / "models--a--b", snapshot = repository / "snapshots/0123";
  fs::create_directories(snapshot);
  fs::create_directories(repository / "blobs");
  put(repository / "blobs/abc", R"({"a": 1})");
  put(repository / "secret", "{}");
  fs::create_symlink("../../blobs/abc", snapshot / "tokenizer.json");
  fs::create_symlink("../../secret", snapshot / "vocab.json");
  const auto notes = copy_model_files(snapshot, out_.path());
  ASSERT_TRUE(notes.ok());
  EXPECT_EQ(notes->size(), 1u);
  EXPECT_EQ(copied(), std::set<std::string>{"tokenizer.json"});
  EXPECT_EQ(get(out_ / "tokenizer.json"), R"({"a": 1})");
}

TEST_F(ModelFiles, AdditionalTemplatesGoIntoTheConfig) {
  fs::create_directory(in_ / "additional_chat_templates");
  put(in_ / "additional_chat_templates/rag.jinja", "five");
  put(in_ / "additional_chat_templates/evil.py", "print()");
  put(in_ / "chat_template.jinja", "four");
  put(in_ / "tokenizer_config.json", R"({"chat_template": "one", "bos_token": "<s>"})");
  EXPECT_EQ(copy(), std::vector<std::string>());
  EXPECT_EQ(copied(), std::set<std::string>{"tokenizer_config.json"});
  EXPECT_EQ(copied_json("tokenizer_config.json"), Json::parse(R"({"bos_token": "<s>",
                            "chat_template": [{"name": "default", "template": "four"},
                                              {"name": "rag", "template": "five"}]})"));
}

TEST_F(ModelFiles, AConfigNamesNoFolderOfTheMachine) {
  const auto read = [&](const std::string& text) {
    put(in_ / "config.json", text);
    return read_public_config(in_ / "config.json").value();
  };
  for (const std::string path :
       {"/home/me/Dense-1B", "/Dense-1B/", "~/models/Dense-1B", "C:\\\\models\\\\Dense-1B"}) {
    const std::string text = read(R"({"b": 1, "_name_or_path": ")" + path + R"(", "a": 2})");
    EXPECT_EQ(text, "{\n  \"b\": 1,\n  \"_name_or_path\": \"Dense-1B\",\n  \"a\": 2\n}\n");
  }
  EXPECT_EQ(read(R"({"text": {"_name_or_path": "/a/b"}})"),
            "{\n  \"text\": {\n    \"_name_or_path\": \"b\"\n  }\n}\n");
  // Everything else stays as it was written.
  for (const std::string text :
       {R"({"_name_or_path":"someone/Dense-1B"})", R"({"path": "/a"})", "no JSON", "[1]"}) {
    EXPECT_EQ(read(text), text);
  }
  EXPECT_TRUE(fails_with(read_public_config(in_ / "absent.json"), {"absent.json"}));
}

TEST_F(ModelFiles, AConfigNamesNoCode) {
  const auto read = [&](const std::string& text) {
    put(in_ / "config.json", text);
    return Json::parse(read_public_config(in_ / "config.json").value());
  };
  EXPECT_EQ(read(R"({"auto_map": {"AutoConfig": "evil.C"}, "a": 1, "custom_pipelines": {"x": {}},
                     "text_config": {"auto_map": {"AutoModel": "evil.M"}, "b": 2},
                     "_attn_implementation": "evil/kernels", "attn_implementation": "sdpa"})"),
            Json::parse(R"({"a": 1, "text_config": {"b": 2}, "attn_implementation": "sdpa"})"));
  // A repeated key does not hide another one.
  EXPECT_EQ(read(R"({"a": 1, "a": 1, "auto_map": {"AutoConfig": "evil.C"}})"), Json({{"a", 1}}));
  EXPECT_EQ(read(R"({"a": NaN})"), Json::parse(R"({"a": {"__float__": "NaN"}})"));
}

TEST_F(ModelFiles, CopyErrorsAreReported) {
  EXPECT_TRUE(fails_with(copy_model_files(in_ / "absent", in_.path()), {"absent", "No such file"}));
  put(in_ / "tokenizer.json", "{}");
  EXPECT_TRUE(
      fails_with(copy_model_files(in_.path(), in_ / "absent"), {"tokenizer.json", "written"}));
}

}  // namespace
}  // namespace neuronmm::io
