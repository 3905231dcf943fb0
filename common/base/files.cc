#include "common/base/files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

namespace coeval {
namespace {

namespace fs = std::filesystem;

Error OsError(const std::string& what, const fs::path& path) {
  const int number = errno;
  const ErrorCode code = number == ENOENT                       ? ErrorCode::kNotFound
                         : number == EACCES || number == EPERM  ? ErrorCode::kPermissionDenied
                         : number == ENOSPC || number == EDQUOT ? ErrorCode::kResourceExhausted
                                                                : ErrorCode::kUnavailable;
  return Error{code, what + " " + path.string() + ": " + std::strerror(number)};
}

Result<> WriteAll(int fd, std::string_view data, const fs::path& path) {
  while (!data.empty()) {
    const ssize_t written = ::write(fd, data.data(), data.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return Fail(OsError("cannot write", path));
    data.remove_prefix(static_cast<std::size_t>(written));
  }
  return {};
}

void SyncFolder(const fs::path& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  ::fsync(fd);  // Best effort: some file systems cannot sync a folder.
  ::close(fd);
}

Result<> WriteDurably(const fs::path& path, std::string_view contents) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return Fail(OsError("cannot create", path));
  Result<> written = WriteAll(fd, contents, path);
  if (written && ::fsync(fd) != 0) written = Fail(OsError("cannot sync", path));
  if (::close(fd) != 0 && written) written = Fail(OsError("cannot close", path));
  return written;
}

}  // namespace

Result<std::string> ReadFile(const fs::path& path, Bytes limit) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return Fail(OsError("cannot read", path));
  std::string contents;
  char buffer[65536];
  Result<std::string> result;
  while (true) {
    const ssize_t got = ::read(fd, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) result = Fail(OsError("cannot read", path));
    if (got <= 0) break;
    contents.append(buffer, static_cast<std::size_t>(got));
    if (contents.size() > limit.value) {
      result = Fail(ErrorCode::kResourceExhausted,
                    path.string() + " is larger than " + FormatBytes(limit));
      break;
    }
  }
  ::close(fd);
  if (result) result = std::move(contents);
  return result;
}

std::string TailOfFile(const fs::path& path, std::size_t most) {
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  if (!in) return {};
  const auto size = static_cast<std::size_t>(std::max<std::streamoff>(in.tellg(), 0));
  const std::size_t take = std::min(size, most);
  in.seekg(static_cast<std::streamoff>(size - take));
  std::string tail(take, '\0');
  in.read(tail.data(), static_cast<std::streamsize>(take));
  tail.resize(static_cast<std::size_t>(std::max<std::streamsize>(in.gcount(), 0)));
  if (take < size) {
    if (const auto newline = tail.find('\n'); newline + 1 < tail.size()) tail.erase(0, newline + 1);
  }
  return tail;
}

Result<> WriteFileAtomically(const fs::path& path, std::string_view contents) {
  const fs::path temporary = path.string() + ".tmp." + std::to_string(::getpid());
  Result<> written = WriteDurably(temporary, contents);
  if (written && ::rename(temporary.c_str(), path.c_str()) != 0) {
    written = Fail(OsError("cannot rename to", path));
  }
  if (!written) {
    ::unlink(temporary.c_str());
    return written;
  }
  SyncFolder(path.parent_path().empty() ? fs::path(".") : path.parent_path());
  return {};
}

Result<> MakeFolder(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (!error && fs::is_directory(path)) return {};
  const std::string why = error ? error.message() : "a file is in the way";
  return Fail(ErrorCode::kUnavailable, "cannot make the folder " + path.string() + ": " + why);
}

Result<FileLock> FileLock::TryAcquire(const fs::path& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) return Fail(OsError("cannot open the lock file", path));
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    const bool held = errno == EWOULDBLOCK;
    Error error = OsError("cannot lock", path);
    ::close(fd);
    if (!held) return Fail(std::move(error));
    return Fail(ErrorCode::kFailedPrecondition, path.string() + " is locked by another process");
  }
  return FileLock(fd);
}

FileLock::FileLock(FileLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

FileLock& FileLock::operator=(FileLock&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

FileLock::~FileLock() {
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace coeval
