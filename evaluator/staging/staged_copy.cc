#include "evaluator/staging/staged_copy.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <vector>

#include "common/base/content_hash.h"
#include "evaluator/checkpoint/scan.h"

namespace coeval::evaluator {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kChunk = 4u << 20;

class Fd {
 public:
  explicit Fd(int fd) : fd_(fd) {}
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  ~Fd() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }
  int Close() {
    const int closed = ::close(fd_);
    fd_ = -1;
    return closed;
  }

 private:
  int fd_;
};

Error IoError(const std::string& what, const fs::path& path) {
  const int number = errno;
  const bool full = number == ENOSPC || number == EDQUOT || number == ENOMEM;
  return Error{full ? ErrorCode::kResourceExhausted : ErrorCode::kUnavailable,
               what + " " + path.string() + ": " + std::strerror(number)};
}

fs::path ManifestPath(const fs::path& root, const std::string& fingerprint) {
  return root / (fingerprint + ".ready");
}

// Reads a file in chunks and gives the hash of what it held.
Result<std::string> ForEachChunk(const fs::path& file,
                                 const std::function<Result<>(std::string_view)>& use) {
  const Fd in(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (in.get() < 0) return Fail(IoError("cannot read", file));
  ContentHash hash;
  std::vector<char> buffer(kChunk);
  while (true) {
    const ssize_t got = ::read(in.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Fail(IoError("cannot read", file));
    if (got == 0) return hash.Hex();
    const std::string_view chunk(buffer.data(), static_cast<std::size_t>(got));
    hash.Add(chunk);
    if (auto used = use(chunk); !used) return Fail(used.error());
  }
}

Result<> WriteAll(int fd, std::string_view data, const fs::path& path) {
  while (!data.empty()) {
    const ssize_t written = ::write(fd, data.data(), data.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return Fail(IoError("cannot write", path));
    data.remove_prefix(static_cast<std::size_t>(written));
  }
  return {};
}

// Copies one file and reads the copy back: the bytes on the node are the bytes of the source.
Result<> CopyFile(const fs::path& from, const fs::path& to, std::uint64_t wanted,
                  const std::function<Result<>(std::size_t)>& on_chunk) {
  std::error_code ignored;
  fs::create_directories(to.parent_path(), ignored);
  Fd out(::open(to.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (out.get() < 0) return Fail(IoError("cannot create", to));
  std::uint64_t size = 0;
  const auto source = ForEachChunk(from, [&](std::string_view chunk) -> Result<> {
    size += chunk.size();
    if (auto written = WriteAll(out.get(), chunk, to); !written) return written;
    return on_chunk(chunk.size());
  });
  if (!source) return Fail(source.error());
  if (out.Close() != 0) return Fail(IoError("cannot close", to));
  if (size != wanted) {
    return Fail(ErrorCode::kCorrupt, from.string() + " changed while it was copied");
  }
  const auto copy = ForEachChunk(to, [](std::string_view) -> Result<> { return {}; });
  if (!copy) return Fail(copy.error());
  if (*copy != *source)
    return Fail(ErrorCode::kCorrupt, to.string() + " does not read back as written");
  return {};
}

Result<> CheckRoom(const StageRequest& request, Bytes size) {
  struct statvfs room {};
  struct statfs kind {};
  if (::statvfs(request.root.c_str(), &room) != 0 || ::statfs(request.root.c_str(), &kind) != 0) {
    return Fail(IoError("cannot use the staging root", request.root));
  }
  const Bytes free{static_cast<std::uint64_t>(room.f_bavail) * room.f_frsize};
  if (free.value < size.value + request.reserve.value) {
    return Fail(ErrorCode::kResourceExhausted,
                request.root.string() + " has " + FormatBytes(free) + " free; the copy needs " +
                    FormatBytes(size) + " and " + FormatBytes(request.reserve) + " must stay free");
  }
  const bool in_memory = kind.f_type == TMPFS_MAGIC || kind.f_type == RAMFS_MAGIC;
  if (in_memory && request.memory_limit && *request.memory_limit < size) {
    return Fail(ErrorCode::kResourceExhausted,
                "the copy needs " + FormatBytes(size) + " of memory, the job has " +
                    FormatBytes(*request.memory_limit) + "; ask for more (staging.mem_extra)");
  }
  return {};
}

std::string ManifestText(const CheckpointFolder& folder, const std::string& owner) {
  nlohmann::json files = nlohmann::json::object();
  for (const auto& file : folder.files) files[file.name] = file.size;
  return nlohmann::json{{"owner", owner}, {"files", files}}.dump() + "\n";
}

void RemoveLeftovers(const StageRequest& request) {
  std::error_code error;
  const std::string prefix = ".partial-" + request.fingerprint + "-";
  std::vector<fs::path> leftovers;
  for (fs::directory_iterator at(request.root, error), end; !error && at != end;
       at.increment(error)) {
    if (at->path().filename().string().starts_with(prefix)) leftovers.push_back(at->path());
  }
  for (const fs::path& leftover : leftovers) fs::remove_all(leftover, error);
}

Result<> CopyAll(const StageRequest& request, const CheckpointFolder& folder,
                 const fs::path& partial, Bytes total, const OnCopied& on_copied) {
  Bytes done;
  for (const auto& file : folder.files) {
    auto copied = CopyFile(request.checkpoint / file.name, partial / file.name, file.size,
                           [&](std::size_t bytes) -> Result<> {
                             done.value += bytes;
                             if (on_copied(done, total)) return {};
                             return Fail(ErrorCode::kUnavailable, "stopped");
                           });
    if (!copied) return copied;
  }
  return {};
}

}  // namespace

fs::path StagedPath(const fs::path& root, const std::string& fingerprint) {
  return root / fingerprint;
}

std::optional<fs::path> FindStagedCopy(const fs::path& root, const std::string& fingerprint) {
  if (root.empty() || fingerprint.empty()) return std::nullopt;
  const auto text = ReadFile(ManifestPath(root, fingerprint));
  if (!text) return std::nullopt;
  const auto manifest = nlohmann::json::parse(*text, nullptr, false);
  if (!manifest.is_object() || !manifest.contains("files") || !manifest["files"].is_object()) {
    return std::nullopt;
  }
  const fs::path path = StagedPath(root, fingerprint);
  for (const auto& [name, size] : manifest["files"].items()) {
    std::error_code error;
    const auto actual = fs::file_size(path / name, error);
    if (error || !size.is_number_unsigned() || actual != size.get<std::uintmax_t>())
      return std::nullopt;
  }
  return path;
}

Result<StagedCopy> StagedCopy::Make(const StageRequest& request, const OnCopied& on_copied) {
  if (auto made = MakeFolder(request.root); !made) return Fail(made.error());
  auto lock = FileLock::TryAcquire(request.root / (request.fingerprint + ".lock"));
  if (!lock) return Fail(lock.error());
  RemoveLeftovers(request);
  const fs::path path = StagedPath(request.root, request.fingerprint);
  const auto folder = ReadCheckpointFolder(request.checkpoint);
  if (!folder) return Fail(folder.error());
  Bytes total;
  for (const auto& file : folder->files) total.value += file.size;
  if (FindStagedCopy(request.root, request.fingerprint)) {
    return StagedCopy(std::move(*lock), path, total);
  }
  std::error_code error;
  fs::remove_all(path, error);  // A dead holder's, without a manifest that fits.
  if (auto room = CheckRoom(request, total); !room) return Fail(room.error());

  const fs::path partial = request.root / (".partial-" + request.fingerprint + "-" + request.owner);
  auto copied = MakeFolder(partial);
  if (copied) copied = CopyAll(request, *folder, partial, total, on_copied);
  if (copied) {
    fs::rename(partial, path, error);
    if (error)
      copied = Fail(ErrorCode::kUnavailable,
                    "cannot rename to " + path.string() + ": " + error.message());
  }
  if (copied) {
    copied = WriteFileAtomically(ManifestPath(request.root, request.fingerprint),
                                 ManifestText(*folder, request.owner));
  }
  if (copied) return StagedCopy(std::move(*lock), path, total);
  fs::remove_all(partial, error);
  return Fail(copied.error());
}

void StagedCopy::Remove() {
  std::error_code ignored;
  fs::remove(path_.string() + ".ready", ignored);
  fs::remove_all(path_, ignored);
  fs::remove(path_.string() + ".lock", ignored);
}

}  // namespace coeval::evaluator
