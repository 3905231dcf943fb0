#include "evaluator/service/capacity.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/cluster/tag.h"

namespace coeval::evaluator {
namespace {

using Json = nlohmann::json;

std::string TextOr(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

Error NotUnderstood(const char* what, const std::exception& fault) {
  return Error{ErrorCode::kCorrupt,
               std::string("coevald's ") + what + " is not understood: " + fault.what()};
}

}  // namespace

Result<std::vector<FollowedRun>> ReadRuns(const std::string& text) {
  try {
    std::vector<FollowedRun> runs;
    const Json answer =
        Json::parse(text);  // Named: a loop does not keep a temporary's parts alive.
    for (const Json& json : answer.at("runs")) {
      FollowedRun run;
      run.run = json.at("run");
      run.user = TextOr(json, "user");
      run.state = TextOr(json, "state");
      run.checkpoints = TextOr(json, "checkpoints");
      run.suites = json.value("suites", std::vector<std::string>{});
      const auto deadline = json.find("deadline_s");
      if (deadline != json.end() && deadline->is_number())
        run.deadline = Seconds{deadline->get<std::int64_t>()};
      runs.push_back(std::move(run));
    }
    return runs;
  } catch (const Json::exception& fault) {
    return Fail(NotUnderstood("list of runs", fault));
  }
}

Result<Capacity> ReadCapacity(const std::string& text) {
  try {
    const Json json = Json::parse(text);
    Capacity capacity;
    capacity.from_coevald = true;
    capacity.gpus = json.at("gpus");
    capacity.gpus_used = json.value("gpus_used", 0u);
    capacity.reason = TextOr(json, "reason");
    for (const Json& one : json.value("places", Json::array())) {
      Place place;
      place.node = one.at("node");
      place.partition = TextOr(one, "partition");
      place.source = TextOr(one, "source");
      place.gpus = one.value("gpus", 0u);
      place.cpus = one.value("cpus", 0u);
      place.mem_mb = one.value("mem_mb", std::uint64_t{0});
      capacity.places.push_back(std::move(place));
    }
    return capacity;
  } catch (const Json::exception& fault) {
    return Fail(NotUnderstood("offer of capacity", fault));
  }
}

std::vector<FollowedRun> RunsOfJobs(const std::vector<cluster::Job>& jobs, std::uint32_t uid) {
  std::vector<FollowedRun> runs;
  for (const cluster::Job& job : jobs) {
    if (job.uid != uid) continue;
    const auto tag = cluster::ParseTag(job.admin_comment);
    if (!tag || !*tag || (*tag)->run.empty() || (*tag)->checkpoints.empty()) continue;
    const auto same = std::find_if(runs.begin(), runs.end(),
                                   [&](const FollowedRun& run) { return run.run == (*tag)->run; });
    FollowedRun run{(*tag)->run,         job.user,       "ended",
                    (*tag)->checkpoints, (*tag)->suites, (*tag)->deadline};
    if (job.state == cluster::JobState::kRunning) run.state = "running";
    if (job.state == cluster::JobState::kPending) run.state = "pending";
    if (same == runs.end()) {
      runs.push_back(std::move(run));
    } else if (same->state != "running") {
      *same = std::move(run);  // The newest job of a run speaks for it.
    }
  }
  return runs;
}

}  // namespace coeval::evaluator
