#include "common/cluster/snapshot.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

namespace coeval::cluster {
namespace {

constexpr std::size_t kMaxHosts = 100000;

constexpr std::array<std::pair<JobState, std::string_view>, 13> kStateNames = {{
    {JobState::kPending, "PENDING"},
    {JobState::kRunning, "RUNNING"},
    {JobState::kSuspended, "SUSPENDED"},
    {JobState::kCompleted, "COMPLETED"},
    {JobState::kCancelled, "CANCELLED"},
    {JobState::kFailed, "FAILED"},
    {JobState::kTimeout, "TIMEOUT"},
    {JobState::kNodeFail, "NODE_FAIL"},
    {JobState::kPreempted, "PREEMPTED"},
    {JobState::kBootFail, "BOOT_FAIL"},
    {JobState::kDeadline, "DEADLINE"},
    {JobState::kOutOfMemory, "OUT_OF_MEMORY"},
    {JobState::kUnknown, "UNKNOWN"},
}};

// Splits at commas that are outside brackets.
std::vector<std::string_view> SplitOutsideBrackets(std::string_view text) {
  std::vector<std::string_view> parts;
  std::size_t start = 0;
  int depth = 0;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    const char c = i < text.size() ? text[i] : ',';
    if (c == '[') ++depth;
    if (c == ']') --depth;
    if (i == text.size() || (c == ',' && depth == 0)) {
      if (i > start) parts.push_back(text.substr(start, i - start));
      start = i + 1;
    }
  }
  return parts;
}

bool ParseUnsigned(std::string_view text, std::uint64_t* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc{} && end == text.data() + text.size();
}

// The numbers of `1-3,7` or `001-003`, with their zero padding.
std::vector<std::string> ExpandRanges(std::string_view ranges) {
  std::vector<std::string> numbers;
  for (const std::string_view range : SplitOutsideBrackets(ranges)) {
    const auto dash = range.find('-');
    const std::string_view low_text = range.substr(0, dash);
    std::uint64_t low = 0, high = 0;
    if (!ParseUnsigned(low_text, &low)) continue;
    high = low;
    if (dash != std::string_view::npos && !ParseUnsigned(range.substr(dash + 1), &high)) continue;
    for (std::uint64_t n = low; n <= high && numbers.size() < kMaxHosts; ++n) {
      std::string digits = std::to_string(n);
      if (digits.size() < low_text.size()) digits.insert(0, low_text.size() - digits.size(), '0');
      numbers.push_back(std::move(digits));
    }
  }
  return numbers;
}

// Expands the first bracket and goes on with what follows it.
void ExpandOne(const std::string& prefix, std::string_view rest, std::vector<std::string>* names) {
  if (names->size() >= kMaxHosts) return;
  const auto open = rest.find('[');
  const auto close = rest.find(']', open);
  if (open == std::string_view::npos || close == std::string_view::npos) {
    names->push_back(prefix + std::string(rest));
    return;
  }
  const std::string before = prefix + std::string(rest.substr(0, open));
  for (const std::string& number : ExpandRanges(rest.substr(open + 1, close - open - 1))) {
    ExpandOne(before + number, rest.substr(close + 1), names);
  }
}

template <class Range, class Key>
auto FindBy(const Range& range, Key key) -> decltype(range.data()) {
  const auto found = std::find_if(range.begin(), range.end(), key);
  return found == range.end() ? nullptr : &*found;
}

}  // namespace

std::string_view JobStateName(JobState state) {
  for (const auto& [known, name] : kStateNames) {
    if (known == state) return name;
  }
  return "UNKNOWN";
}

JobState ParseJobState(std::string_view name) {
  name = name.substr(0, name.find_first_of(" +"));  // `CANCELLED by 1000`, `CANCELLED+`
  for (const auto& [state, known] : kStateNames) {
    if (known == name) return state;
  }
  return JobState::kUnknown;
}

bool IsFinished(JobState state) {
  switch (state) {
    case JobState::kPending:
    case JobState::kRunning:
    case JobState::kSuspended:
    case JobState::kUnknown:
      return false;
    default:
      return true;
  }
}

std::string DisplayId(const Job& job) {
  if (!job.array_task_id) return std::to_string(job.id.value);
  return std::to_string(job.array_job_id.value) + "_" + std::to_string(*job.array_task_id);
}

bool IsUsable(const Node& node) {
  return !node.drained && !node.down && !node.maint && !node.not_responding;
}

const Job* FindJob(const Snapshot& snapshot, JobId id) {
  return FindBy(snapshot.jobs, [id](const Job& job) { return job.id == id; });
}

const Node* FindNode(const Snapshot& snapshot, std::string_view name) {
  return FindBy(snapshot.nodes, [name](const Node& node) { return node.name == name; });
}

const Partition* FindPartition(const Snapshot& snapshot, std::string_view name) {
  return FindBy(snapshot.partitions, [name](const Partition& part) { return part.name == name; });
}

std::vector<std::string> ExpandHostlist(std::string_view hostlist) {
  std::vector<std::string> names;
  for (const std::string_view part : SplitOutsideBrackets(hostlist)) ExpandOne("", part, &names);
  return names;
}

}  // namespace coeval::cluster
