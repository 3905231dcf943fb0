// A checkpoint's copy in node-local memory or disk, so that a node reads it from remote storage
// once.
//
// Below the staging root a copy of fingerprint F is the folder `F` and the manifest `F.ready`,
// which is written last: without it, or when sizes differ, the copy does not count. The precursor
// job that made it stays as its holder, with the copy's memory in its own allocation, and removes
// it at the end; the lock `F.lock` is the kernel's word that the holder lives and is never broken
// by age.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "common/base/files.h"
#include "common/base/result.h"
#include "common/base/units.h"

namespace coeval::evaluator {

struct StageRequest {
  std::filesystem::path checkpoint, root;
  std::string fingerprint;
  std::string owner;                  // `<job id>`; part of the partial copy's name.
  Bytes reserve;                      // Stays free on the root's file system.
  std::optional<Bytes> memory_limit;  // The job's own; counts where the root is a tmpfs.
};

/// Called after each chunk with what is copied so far; false stops the copy.
using OnCopied = std::function<bool(Bytes done, Bytes total)>;

/// A whole copy and the right to remove it. Movable; removing is explicit, so that a crash leaves a
/// copy that the next holder recognises.
class StagedCopy {
 public:
  /// Copies, verifies every byte by checksum, and publishes. A whole copy of a dead holder is taken
  /// over; its partial ones are removed. kFailedPrecondition: a live holder has it already.
  /// kResourceExhausted: not enough room, with the numbers; nothing was written.
  static Result<StagedCopy> Make(const StageRequest& request, const OnCopied& on_copied);

  const std::filesystem::path& Path() const { return path_; }
  Bytes Size() const { return size_; }
  /// Withdraws the manifest first, then the files.
  void Remove();

 private:
  StagedCopy(FileLock lock, std::filesystem::path path, Bytes size)
      : lock_(std::move(lock)), path_(std::move(path)), size_(size) {}
  FileLock lock_;
  std::filesystem::path path_;
  Bytes size_;
};

/// The copy's folder when it is there and whole.
std::optional<std::filesystem::path> FindStagedCopy(const std::filesystem::path& root,
                                                    const std::string& fingerprint);
/// Where it would be.
std::filesystem::path StagedPath(const std::filesystem::path& root, const std::string& fingerprint);

}  // namespace coeval::evaluator
