// Finding checkpoints. Calls read the file system and block; keep them off the event loop.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/base/units.h"
#include "evaluator/checkpoint/layout.h"

namespace coeval::evaluator {

struct FoundCheckpoint {
  std::filesystem::path path;
  std::optional<std::int64_t> step;  // From the folder's name.
  std::string layout;                // Empty: no layout knows it (yet).
  bool complete = false;
  std::string waiting_for;  // Empty when complete.
  TimePoint changed;        // Newest change below it: when a complete one became so.
  Bytes size;
};

/// One folder as a checkpoint. kNotFound when there is nothing at the path.
Result<FoundCheckpoint> InspectCheckpoint(const std::filesystem::path& path);

/// Every checkpoint directly below a run's folder, by step, then name; at most 10,000. A folder
/// that does not exist yet holds none.
std::vector<FoundCheckpoint> ScanRun(const std::filesystem::path& folder);

/// The last number in `step_100`, `checkpoint-500`, `iter_0000100`, `global_step12.tmp`.
std::optional<std::int64_t> StepOfName(const std::string& name);

/// What tells one checkpoint's contents from another's: names, sizes and content (all of it up to
/// 64 MiB a file, evenly spread samples beyond), not the path. 32 hexadecimal digits.
Result<std::string> Fingerprint(const std::filesystem::path& path);

/// The files that belong to a checkpoint; `_SUCCESS` and our own `.coeval*` files do not.
Result<CheckpointFolder> ReadCheckpointFolder(const std::filesystem::path& path);

}  // namespace coeval::evaluator
