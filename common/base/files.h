// Whole files and folders: durable writes and bounded reads.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "common/base/units.h"

namespace coeval {

/// The file's contents. A larger file than `limit` is kResourceExhausted.
Result<std::string> ReadFile(const std::filesystem::path& path, Bytes limit = Mebibytes(64));
/// The last `most` bytes of a file, from the start of a line, for error reports; empty if
/// unreadable.
std::string TailOfFile(const std::filesystem::path& path, std::size_t most = 2048);
/// Writes `path` so that a reader sees the old contents or the new and a power cut loses neither:
/// temporary file beside it, fsync, rename, fsync of the folder.
Result<> WriteFileAtomically(const std::filesystem::path& path, std::string_view contents);
/// Makes the folder and its parents. Existing is fine.
Result<> MakeFolder(const std::filesystem::path& path);

/// An advisory lock on a file, held as long as the object lives and released by the kernel when
/// its owner dies: it is never broken by age. Movable.
class FileLock {
 public:
  /// kFailedPrecondition when another process holds it.
  static Result<FileLock> TryAcquire(const std::filesystem::path& path);
  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&& other) noexcept;
  ~FileLock();

 private:
  explicit FileLock(int fd) : fd_(fd) {}
  int fd_ = -1;
};

}  // namespace coeval
