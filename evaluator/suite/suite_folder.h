// All suites of a site: every `*.yaml` in one folder.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "evaluator/suite/suite.h"

namespace coeval::evaluator {

/// Not thread-safe.
class SuiteFolder {
 public:
  explicit SuiteFolder(std::filesystem::path folder) : folder_(std::move(folder)) {}

  /// Reads what is new or changed. A bad file is reported and its last good reading stays; a file
  /// that is gone goes. kNotFound when the folder itself cannot be read.
  Result<std::vector<Error>> Refresh();
  /// nullptr when there is none of that name.
  const Suite* Find(const std::string& name) const;
  std::vector<std::string> Names() const;
  /// `unknown suite 'x'; known: a, b`
  Error Unknown(const std::string& name) const;

 private:
  struct Entry {
    std::filesystem::file_time_type changed;
    std::uintmax_t size = 0;
    std::optional<Suite> suite;
  };
  std::filesystem::path folder_;
  std::map<std::filesystem::path, Entry> entries_;
};

}  // namespace coeval::evaluator
