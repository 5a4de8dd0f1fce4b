#pragma once
// Reads what the linker wrote into a program or a shared library: which libraries it loads, where
// the loader looks for them, and which protections it has. The tests of hardening and of the
// current folder use it. Only files of 64 bits are read.

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <elf.h>
#include <gtest/gtest.h>

#include "io/mapped_file.h"

namespace neuronmm::apps {

struct ElfFile {
  bool position_independent = false;
  bool is_program = false;  // false for a shared library
  bool relocations_are_read_only = false, binds_now = false;
  bool has_stack_header = false, stack_is_executable = false;
  std::vector<std::string> needed;    // names of libraries
  std::vector<std::string> run_path;  // folders; an empty one means the current folder
  std::set<std::string> imports;      // names of functions and variables of other files
};

// Returns the values at an offset of the file.
template <typename Value>
std::vector<Value> elf_values(std::span<const std::byte> file, uint64_t offset, uint64_t count) {
  if (offset > file.size() || count > (file.size() - offset) / sizeof(Value)) {
    ADD_FAILURE() << "expected " << count << " values at " << offset << " of " << file.size();
    return {};
  }
  std::vector<Value> values(count);
  std::memcpy(values.data(), file.data() + offset, count * sizeof(Value));
  return values;
}

// Splits at every colon, so that an empty folder at either end is kept.
inline std::vector<std::string> split_run_path(const std::string& list) {
  std::vector<std::string> folders(1);
  for (const char c : list) {
    if (c == ':') {
      folders.emplace_back();
    } else {
      folders.back() += c;
    }
  }
  return folders;
}

inline void read_dynamic_entry(const Elf64_Dyn& entry, const char* strings, ElfFile& elf) {
  const uint64_t value = entry.d_un.d_val;
  if (entry.d_tag == DT_NEEDED) elf.needed.emplace_back(strings + value);
  if (entry.d_tag == DT_RUNPATH || entry.d_tag == DT_RPATH) {
    for (const std::string& folder : split_run_path(strings + value))
      elf.run_path.push_back(folder);
  }
  if (entry.d_tag == DT_BIND_NOW) elf.binds_now = true;
  if (entry.d_tag == DT_FLAGS && (value & DF_BIND_NOW) != 0) elf.binds_now = true;
  if (entry.d_tag == DT_FLAGS_1 && (value & DF_1_NOW) != 0) elf.binds_now = true;
  if (entry.d_tag == DT_FLAGS_1 && (value & DF_1_PIE) != 0) elf.is_program = true;
}

inline ElfFile read_elf_file(const std::filesystem::path& path) {
  ElfFile elf;
  const auto mapped = io::MappedFile::open(path);
  if (!mapped.ok()) {
    ADD_FAILURE() << mapped.error().message;
    return elf;
  }
  const std::span<const std::byte> file = (*mapped)->bytes();
  const auto headers = elf_values<Elf64_Ehdr>(file, 0, 1);
  if (headers.empty() || std::memcmp(headers[0].e_ident, ELFMAG, SELFMAG) != 0) {
    ADD_FAILURE() << path << ": expected an ELF file";
    return elf;
  }
  const Elf64_Ehdr& header = headers[0];
  elf.position_independent = header.e_type == ET_DYN;
  elf.is_program = header.e_type == ET_EXEC;
  for (const auto& part : elf_values<Elf64_Phdr>(file, header.e_phoff, header.e_phnum)) {
    elf.relocations_are_read_only |= part.p_type == PT_GNU_RELRO;
    elf.has_stack_header |= part.p_type == PT_GNU_STACK;
    elf.stack_is_executable |= part.p_type == PT_GNU_STACK && (part.p_flags & PF_X) != 0;
  }
  const auto sections = elf_values<Elf64_Shdr>(file, header.e_shoff, header.e_shnum);
  for (const Elf64_Shdr& section : sections) {
    if (section.sh_type != SHT_DYNAMIC && section.sh_type != SHT_DYNSYM) continue;
    const char* const strings =
        reinterpret_cast<const char*>(file.data()) + sections.at(section.sh_link).sh_offset;
    const uint64_t count = section.sh_size / section.sh_entsize;
    if (section.sh_type == SHT_DYNAMIC) {
      for (const auto& entry : elf_values<Elf64_Dyn>(file, section.sh_offset, count))
        read_dynamic_entry(entry, strings, elf);
    } else {
      for (const auto& symbol : elf_values<Elf64_Sym>(file, section.sh_offset, count)) {
        if (symbol.st_shndx == SHN_UNDEF) elf.imports.emplace(strings + symbol.st_name);
      }
    }
  }
  return elf;
}

}  // namespace neuronmm::apps
