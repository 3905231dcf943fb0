#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "common/base/content_hash.h"
#include "evaluator/checkpoint/scan.h"

namespace coeval::evaluator {
namespace {

constexpr std::uint64_t kWholeUpTo = 64u << 20;
constexpr std::uint64_t kSamples = 64;
constexpr std::uint64_t kSampleSize = 256u << 10;

// Hashes [offset, offset + length) of a file; false when the file is shorter than that.
bool HashRange(int fd, std::uint64_t offset, std::uint64_t length, ContentHash* hash) {
  std::string buffer(std::min<std::uint64_t>(length, 1u << 20), '\0');
  while (length > 0) {
    const auto want = std::min<std::uint64_t>(length, buffer.size());
    const ssize_t got = ::pread(fd, buffer.data(), want, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    hash->Add({buffer.data(), static_cast<std::size_t>(got)});
    offset += static_cast<std::uint64_t>(got);
    length -= static_cast<std::uint64_t>(got);
  }
  return true;
}

// Small files whole; of large ones evenly spread samples, the first and the last bytes among them.
bool HashFile(int fd, std::uint64_t size, ContentHash* hash) {
  if (size <= kWholeUpTo) return HashRange(fd, 0, size, hash);
  const std::uint64_t stride = (size - kSampleSize) / (kSamples - 1);
  for (std::uint64_t i = 0; i < kSamples; ++i) {
    const std::uint64_t offset = i + 1 == kSamples ? size - kSampleSize : i * stride;
    if (!HashRange(fd, offset, kSampleSize, hash)) return false;
  }
  return true;
}

}  // namespace

Result<std::string> Fingerprint(const std::filesystem::path& path) {
  const auto folder = ReadCheckpointFolder(path);
  if (!folder) return Fail(folder.error());
  ContentHash hash;
  for (const auto& file : folder->files) {
    if (file.name == "_SUCCESS") continue;
    hash.Add(file.name + "\n" + std::to_string(file.size) + "\n");
    const int fd = ::open((path / file.name).c_str(), O_RDONLY | O_CLOEXEC);
    const bool read = fd >= 0 && HashFile(fd, file.size, &hash);
    const int failed = errno;
    if (fd >= 0) ::close(fd);
    if (!read) {
      return Fail(ErrorCode::kUnavailable,
                  "cannot read " + (path / file.name).string() + ": " + std::strerror(failed));
    }
  }
  return hash.Hex();
}

}  // namespace coeval::evaluator
