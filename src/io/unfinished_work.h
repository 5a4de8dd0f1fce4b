#pragma once
// The work that an interrupted run has left in the work folder of an output (staging_folder.h). A
// run with the same settings continues from it. It is deleted only if the user asks for that, so
// that a command with another setting costs nobody hours of work.

#include <filesystem>
#include <optional>
#include <string>

#include "base/result.h"

namespace neuronmm::io {

// The file of a work folder that holds the settings of the run as a JSON object.
inline constexpr const char* kWorkSettingsName = "settings.json";

// Returns whether the work folder holds any file except the settings. A folder that cannot be read
// counts as one that does.
bool has_unfinished_work(const std::filesystem::path& work);

// Returns a difference between the settings of the work folder and the JSON object `now`, such as
// "ratio 0.2 there, 0.3 here".
std::string settings_difference(const std::filesystem::path& work, const std::string& now);

// Returns the path of an input file that has changed since the settings were written, according to
// the identities in them (file_identity.h). No run can continue such work, so that nothing is lost
// if it is deleted. A file that is missing now may come back, and does not count.
std::optional<std::string> changed_input(const std::filesystem::path& work);

// Returns the error, of kind kExists, that the work folder belongs to a run with other settings.
// `difference` may be empty. The message says how both runs can be finished.
Error other_work_error(const std::filesystem::path& work, const std::string& difference);

}  // namespace neuronmm::io
