#include "evaluator/checkpoint/scan.h"

#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <tuple>

namespace coeval::evaluator {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxCheckpoints = 10000;
constexpr std::size_t kMaxFiles = 100000;

TimePoint ChangeTime(const fs::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return TimePoint{};
  return TimePoint{Milliseconds{status.st_mtim.tv_sec * 1000 + status.st_mtim.tv_nsec / 1000000}};
}

bool IsLater(const timespec& a, const timespec& b) {
  return a.tv_sec != b.tv_sec ? a.tv_sec > b.tv_sec : a.tv_nsec > b.tv_nsec;
}

bool RenamedWhenWritten(const CheckpointFolder& folder) {
  struct stat self {};
  if (::stat(folder.path.c_str(), &self) != 0 || !IsLater(self.st_ctim, self.st_mtim)) return false;
  return std::none_of(folder.files.begin(), folder.files.end(), [&](const auto& file) {
    struct stat member {};
    return ::stat((folder.path / file.name).c_str(), &member) != 0 ||
           IsLater(member.st_mtim, self.st_ctim);
  });
}

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

std::optional<std::int64_t> StepOfName(const std::string& name) {
  std::size_t end = name.size();
  while (end > 0 && !IsDigit(name[end - 1])) --end;
  std::size_t begin = end;
  while (begin > 0 && IsDigit(name[begin - 1])) --begin;
  std::int64_t step = 0;
  const auto [at, error] = std::from_chars(name.data() + begin, name.data() + end, step);
  if (begin == end || error != std::errc{}) return std::nullopt;
  return step;
}

Result<CheckpointFolder> ReadCheckpointFolder(const fs::path& path) {
  CheckpointFolder folder;
  folder.path = path;
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    return Fail(ErrorCode::kNotFound, "there is no checkpoint folder at " + path.string());
  }
  fs::recursive_directory_iterator at(path, fs::directory_options::skip_permission_denied, error);
  for (; !error && at != fs::recursive_directory_iterator(); at.increment(error)) {
    if (at->path().filename().string().starts_with(".coeval")) continue;
    std::error_code vanished;
    if (!at->is_regular_file(vanished)) continue;
    const auto size = at->file_size(vanished);
    if (vanished) continue;
    folder.files.push_back({fs::relative(at->path(), path, vanished).string(), size});
    if (folder.files.size() > kMaxFiles) {
      return Fail(ErrorCode::kResourceExhausted,
                  path.string() + " has more than 100000 files; it is no checkpoint");
    }
  }
  if (error)
    return Fail(ErrorCode::kUnavailable, "cannot read " + path.string() + ": " + error.message());
  std::sort(folder.files.begin(), folder.files.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  folder.renamed_when_written = RenamedWhenWritten(folder);
  return folder;
}

Result<FoundCheckpoint> InspectCheckpoint(const fs::path& path) {
  const auto folder = ReadCheckpointFolder(path);
  if (!folder) return Fail(folder.error());
  FoundCheckpoint found;
  found.path = path;
  found.step = StepOfName(path.filename().string());
  found.changed = ChangeTime(path);
  for (const auto& file : folder->files) {
    found.changed = std::max(found.changed, ChangeTime(path / file.name));
    found.size.value += file.size;
  }
  found.waiting_for = "files of a known layout";
  for (const Layout& layout : Layouts()) {
    Verdict verdict = layout.judge(*folder);
    if (verdict.kind == Verdict::Kind::kNotMine) continue;
    found.layout = layout.name;
    found.complete = verdict.kind == Verdict::Kind::kComplete;
    found.waiting_for = std::move(verdict.waiting_for);
    break;
  }
  return found;
}

std::vector<FoundCheckpoint> ScanRun(const fs::path& folder) {
  std::vector<FoundCheckpoint> all;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    std::error_code vanished;
    const bool hidden = at->path().filename().string().starts_with('.');
    if (hidden || !at->is_directory(vanished) || all.size() >= kMaxCheckpoints) continue;
    auto found = InspectCheckpoint(at->path());
    if (found && (!found->layout.empty() || found->step)) all.push_back(std::move(*found));
  }
  std::sort(all.begin(), all.end(), [](const FoundCheckpoint& a, const FoundCheckpoint& b) {
    return std::tie(a.step, a.path) < std::tie(b.step, b.path);
  });
  return all;
}

}  // namespace coeval::evaluator
