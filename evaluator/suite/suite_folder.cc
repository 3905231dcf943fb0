#include "evaluator/suite/suite_folder.h"

#include <set>

namespace coeval::evaluator {

namespace fs = std::filesystem;

Result<std::vector<Error>> SuiteFolder::Refresh() {
  std::error_code error;
  std::set<fs::path> files;
  for (fs::directory_iterator at(folder_, error), end; !error && at != end; at.increment(error)) {
    if (at->path().extension() == ".yaml") files.insert(at->path());
  }
  if (error) {
    return Fail(ErrorCode::kNotFound,
                "cannot read the suite folder " + folder_.string() + ": " + error.message());
  }
  std::erase_if(entries_, [&](const auto& entry) { return !files.contains(entry.first); });

  std::vector<Error> faults;
  for (const fs::path& file : files) {
    Entry& entry = entries_[file];
    const auto changed = fs::last_write_time(file, error);
    const auto size = fs::file_size(file, error);
    if (entry.changed == changed && entry.size == size) continue;
    entry.changed = changed;
    entry.size = size;
    auto suite = LoadSuite(file);
    if (suite) {
      entry.suite = std::move(*suite);
    } else {
      faults.push_back(suite.error());
    }
  }
  return faults;
}

const Suite* SuiteFolder::Find(const std::string& name) const {
  for (const auto& [file, entry] : entries_) {
    if (entry.suite && entry.suite->name == name) return &*entry.suite;
  }
  return nullptr;
}

std::vector<std::string> SuiteFolder::Names() const {
  std::set<std::string> names;
  for (const auto& [file, entry] : entries_) {
    if (entry.suite) names.insert(entry.suite->name);
  }
  return {names.begin(), names.end()};
}

Error SuiteFolder::Unknown(const std::string& name) const {
  std::string known;
  for (const std::string& other : Names()) known += (known.empty() ? "" : ", ") + other;
  return Error{ErrorCode::kNotFound, "unknown suite '" + name +
                                         "'; known: " + (known.empty() ? "none" : known) + " (in " +
                                         folder_.string() + ")"};
}

}  // namespace coeval::evaluator
