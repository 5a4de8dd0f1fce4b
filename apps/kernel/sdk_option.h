#pragma once
// The option --sdk of the commands that write or run kernels, so that it has the same name and
// default in each of them.

#include <string>

#include <CLI/CLI.hpp>

#include "help.h"
#include "trainium/nki/release.h"

namespace neuronmm::apps {

// Adds --sdk. An empty text is the newest release that has the device.
inline CLI::Option* add_sdk_option(CLI::App* command, std::string& sdk) {
  return command->add_option("--sdk", sdk, "Follow this release of the Neuron SDK")
      ->check(CLI::IsMember(nki::release_names()))
      ->type_name("RELEASE")
      ->default_str(std::string(nki::kNewestRelease.sdk) + ", trn1 " +
                    std::string(nki::newest_release("trn1").sdk))
      ->group(kSpeed);
}

}  // namespace neuronmm::apps
