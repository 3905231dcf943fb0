// What coevald did and why, one JSON object a line. A journal that is lost costs nothing but
// history: Slurm and the policy file hold all state.
#pragma once

#include <filesystem>
#include <string>

#include "common/base/result.h"
#include "common/base/units.h"

namespace coeval::scheduler {

/// Not thread-safe. Rotated once (`journal.jsonl.1`) at `limit`.
class Journal {
 public:
  explicit Journal(std::filesystem::path file, Bytes limit = Mebibytes(16))
      : file_(std::move(file)), limit_(limit) {}
  Result<> Append(const std::string& line);

 private:
  std::filesystem::path file_;
  Bytes limit_;
};

}  // namespace coeval::scheduler
