#include "evaluator/service/api.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/base/log.h"
#include "evaluator/planner/planner.h"
#include "evaluator/service/evaluation_spec.h"

namespace coeval::evaluator {
namespace {

using http::ErrorResponse;
using http::Request;
using http::Respond;
using http::Response;
using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

constexpr std::size_t kMaxCampaignPaths = 1000;

template <class AnyJson>
Response Answer(const AnyJson& json, int status = 200) {
  return Response{status, json.dump(-1, ' ', false, AnyJson::error_handler_t::replace) + "\n"};
}

Result<Json> ReadBody(const Request& request) {
  Json json = Json::parse(request.body, nullptr, false);
  if (!json.is_object()) return Fail(ErrorCode::kInvalidArgument, "the body is no JSON object");
  return json;
}

Result<std::string> Text(const Json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_string()) {
    return Fail(ErrorCode::kInvalidArgument, std::string("'") + key + "' is missing or no text");
  }
  return found->get<std::string>();
}

Result<std::int64_t> Number(const Json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_number_integer()) {
    return Fail(ErrorCode::kInvalidArgument,
                std::string("'") + key + "' is missing or no whole number");
  }
  return found->get<std::int64_t>();
}

Result<std::vector<std::string>> Texts(const Json& json, const char* key) {
  const auto found = json.find(key);
  const bool fine =
      found != json.end() && found->is_array() && !found->empty() &&
      std::all_of(found->begin(), found->end(), [](const Json& one) { return one.is_string(); });
  if (!fine)
    return Fail(ErrorCode::kInvalidArgument, std::string("'") + key + "' must be a list of texts");
  return found->get<std::vector<std::string>>();
}

/// The handlers; one object so that they share the context and small helpers.
class Api {
 public:
  explicit Api(ApiContext& context) : context_(context) {}

  void Register(http::Server& server) {
    server.Route("GET", "/healthz", http::Access::kAnyone,
                 [this](const Request&, Respond respond) { respond(Health()); });
    server.Route("GET", "/metrics", http::Access::kAnyone,
                 [this](const Request&, Respond respond) { respond(Metrics()); });
    Reading(server, "/v1/status", [this](const Request&) { return Status(); });
    Reading(server, "/v1/results", [this](const Request& request) { return Results(request); });
    Reading(server, "/v1/jobs", [this](const Request&) { return Jobs(); });
    Reading(server, "/v1/suites", [this](const Request&) {
      return Answer(Json{{"suites", context_.suites.Names()}});
    });
    Owning(server, "/v1/cancel", [this](const Json& body) { return Cancel(body); });
    Owning(server, "/v1/work/lease", [this](const Json& body) { return Lease(body); });
    Owning(server, "/v1/work/renew", [this](const Json& body) { return Renew(body); });
    Owning(server, "/v1/work/finish", [this](const Json& body) { return Finish(body); });
    Owning(server, "/v1/work/return", [this](const Json& body) { return Return(body); });
    Owning(server, "/v1/staging", [this](const Json& body) { return Staging(body); });
    server.Route(
        "POST", "/v1/campaigns", http::Access::kKnown,
        [this](const Request& request, Respond respond) { Campaign(request, std::move(respond)); });
  }

 private:
  bool Owns(const http::Peer& peer) const {
    return peer.uid == 0 || peer.uid == context_.owner_uid;
  }
  bool MayRead(const http::Peer& peer) const {
    const auto& viewers = context_.config.viewers;
    return Owns(peer) || std::find(viewers.begin(), viewers.end(), peer.name) != viewers.end();
  }
  static Response Forbidden(const http::Peer& peer) {
    return ErrorResponse(
        {ErrorCode::kPermissionDenied,
         "user " + peer.name + " may not do that; this evaluator serves its owner"});
  }

  void Reading(http::Server& server, const char* path,
               std::function<Response(const Request&)> handler) {
    server.Route("GET", path, http::Access::kKnown,
                 [this, handler](const Request& request, Respond respond) {
                   respond(MayRead(*request.peer) ? handler(request) : Forbidden(*request.peer));
                 });
  }

  void Owning(http::Server& server, const char* path,
              std::function<Result<Response>(const Json&)> handler) {
    server.Route("POST", path, http::Access::kKnown,
                 [this, handler](const Request& request, Respond respond) {
                   if (!Owns(*request.peer)) return respond(Forbidden(*request.peer));
                   const auto body = ReadBody(request);
                   if (!body) return respond(ErrorResponse(body.error()));
                   auto response = handler(*body);
                   respond(response ? std::move(*response) : ErrorResponse(response.error()));
                 });
  }

  // --- health ---

  Response Health() const {
    const Gathered& seen = context_.reconciler.Current().gathered;
    const bool fine = seen.coevald_fault.empty() && seen.slurm_fault.empty();
    return Answer(Json{{"status", fine ? "ok" : "degraded"},
                       {"slurm", seen.slurm_fault.empty() ? "up" : "down"},
                       {"scheduler", seen.coevald_fault.empty() ? "connected" : "away"},
                       {"version", COEVAL_VERSION}});
  }

  Response Metrics() const {
    std::string text;
    const auto gauge = [&](const char* name, const char* help, double value) {
      text += std::string("# HELP ") + name + " " + help + "\n# TYPE " + name + " gauge\n" + name +
              " " + Json(value).dump() + "\n";
    };
    const Picture& picture = context_.reconciler.Current();
    const auto results = context_.ledger.CountResults();
    std::int64_t held = 0, pending = 0, leased = 0;
    for (const Held& one : picture.held) held += one.count;
    if (const auto outstanding = context_.ledger.OutstandingInference(context_.clock.Now())) {
      for (const Outstanding& one : *outstanding) {
        pending += one.pending;
        leased += one.leased;
      }
    }
    gauge("coeval_evaluator_results", "Scores in the ledger.",
          static_cast<double>(results.value_or(0)));
    gauge("coeval_evaluator_work_pending", "Pieces of inference that wait.",
          static_cast<double>(pending));
    gauge("coeval_evaluator_work_leased", "Pieces of inference that run.",
          static_cast<double>(leased));
    gauge("coeval_evaluator_work_held", "Pieces of work held back by a limit.",
          static_cast<double>(held));
    gauge("coeval_evaluator_gpus_offered", "GPUs that evaluation may take now.",
          picture.gathered.capacity.gpus);
    gauge("coeval_evaluator_scheduler_up", "1 when coevald answers.",
          picture.gathered.coevald_fault.empty() ? 1 : 0);
    gauge("coeval_evaluator_slurm_up", "1 when slurmctld answers.",
          picture.gathered.slurm_fault.empty() ? 1 : 0);
    AddFeedbackDelay(&text);
    return Response{200, text, "text/plain; version=0.0.4"};
  }

  // A Prometheus summary over the last thousand results.
  void AddFeedbackDelay(std::string* text) const {
    constexpr int kRecent = 1000;
    const auto delays = context_.ledger.RecentFeedbackDelays(kRecent);
    if (!delays || delays->empty()) return;
    const std::string name = "coeval_feedback_delay_seconds";
    *text += "# HELP " + name + " From checkpoint complete to score known, of recent results.\n";
    *text += "# TYPE " + name + " summary\n";
    double sum = 0;
    for (const double delay : *delays) sum += delay;
    for (const double quantile : {0.5, 0.9, 0.99}) {
      const auto last = static_cast<double>(delays->size() - 1);
      const auto at = static_cast<std::size_t>(quantile * last + 0.5);
      *text += name + "{quantile=\"" + Json(quantile).dump() + "\"} " + Json((*delays)[at]).dump() +
               "\n";
    }
    *text += name + "_sum " + Json(sum).dump() + "\n" + name + "_count " +
             std::to_string(delays->size()) + "\n";
  }

  // --- status ---

  OrderedJson SuiteJson(const Progress& progress, std::uint32_t trials) const {
    OrderedJson json = {{"suite", progress.suite},         {"done", progress.done},
                        {"failed", progress.failed},       {"running", progress.running},
                        {"cancelled", progress.cancelled}, {"total", progress.total}};
    json["feedback_delay_s"] =
        progress.feedback_delay_s ? OrderedJson(*progress.feedback_delay_s) : OrderedJson();
    const bool open = progress.done + progress.failed + progress.cancelled < progress.total;
    json["finish_estimate_s"] =
        open ? OrderedJson(FinishInSeconds(progress.remaining_inference_s,
                                           progress.remaining_metric_s, trials))
             : OrderedJson();
    return json;
  }

  OrderedJson CheckpointJson(const FoundCheckpoint& found, const std::string& fingerprint,
                             bool vanished) const {
    OrderedJson json = {{"fingerprint", fingerprint}, {"path", found.path.string()}};
    json["step"] = found.step ? OrderedJson(*found.step) : OrderedJson();
    json["layout"] = found.layout;
    json["state"] = vanished ? "vanished" : found.complete ? "complete" : "waiting";
    json["waiting_for"] =
        found.waiting_for.empty() ? OrderedJson() : OrderedJson(found.waiting_for);
    json["complete_at"] = OrderedJson();
    json["suites"] = OrderedJson::array();
    return json;
  }

  // One owner's checkpoints: those in the ledger with their progress, and those that wait.
  OrderedJson CheckpointsJson(const std::string& owner, const std::vector<Progress>& all,
                              const std::vector<SeenCheckpoint>& seen,
                              const std::map<std::string, std::uint32_t>& trials) {
    std::map<std::string, OrderedJson> entered;  // By fingerprint.
    for (const Progress& progress : all) {
      if (progress.owner != owner) continue;
      auto [at, added] = entered.try_emplace(progress.fingerprint);
      if (added) {
        const auto row = context_.ledger.FindCheckpoint(progress.fingerprint);
        if (!row || !*row) continue;
        FoundCheckpoint found;
        found.path = (*row)->path;
        found.step = (*row)->step;
        found.layout = (*row)->layout;
        found.complete = true;
        std::error_code error;
        at->second = CheckpointJson(found, progress.fingerprint,
                                    !std::filesystem::exists(found.path, error));
        at->second["complete_at"] = ToEpochSeconds((*row)->complete_at);
      }
      const auto active = trials.find(progress.fingerprint);
      at->second["suites"].push_back(
          SuiteJson(progress, active == trials.end() ? 1 : active->second));
    }
    std::vector<OrderedJson> list;
    for (auto& [fingerprint, json] : entered) list.push_back(std::move(json));
    for (const SeenCheckpoint& one : seen) {
      if (!one.fingerprint.empty() && entered.contains(one.fingerprint)) continue;
      list.push_back(CheckpointJson(one.found, one.fingerprint, false));
    }
    std::stable_sort(list.begin(), list.end(), [](const OrderedJson& a, const OrderedJson& b) {
      const auto step = [](const OrderedJson& json) {
        return json["step"].is_number() ? json["step"].get<std::int64_t>() : -1;
      };
      return std::make_pair(step(a), a["path"].get<std::string>()) <
             std::make_pair(step(b), b["path"].get<std::string>());
    });
    return OrderedJson(list);
  }

  OrderedJson RunsJson(const std::vector<Progress>& progress,
                       const std::map<std::string, std::uint32_t>& trials) {
    const Gathered& seen = context_.reconciler.Current().gathered;
    OrderedJson runs = OrderedJson::array();
    std::set<std::string> shown;
    for (const FollowedRun& run : seen.runs) {
      const auto checkpoints = seen.run_checkpoints.find(run.run);
      shown.insert("run:" + run.run);
      runs.push_back({{"run", run.run},
                      {"user", run.user},
                      {"state", run.state},
                      {"following", run.checkpoints},
                      {"suites", run.suites},
                      {"checkpoints", CheckpointsJson("run:" + run.run, progress,
                                                      checkpoints == seen.run_checkpoints.end()
                                                          ? std::vector<SeenCheckpoint>{}
                                                          : checkpoints->second,
                                                      trials)}});
    }
    // Runs that ended long ago are known by their results only.
    for (const Progress& one : progress) {
      if (!one.owner.starts_with("run:") || !shown.insert(one.owner).second) continue;
      runs.push_back({{"run", one.owner.substr(4)},
                      {"user", ""},
                      {"state", "ended"},
                      {"following", ""},
                      {"suites", OrderedJson::array()},
                      {"checkpoints", CheckpointsJson(one.owner, progress, {}, trials)}});
    }
    return runs;
  }

  OrderedJson CampaignsJson(const std::vector<Progress>& progress,
                            const std::map<std::string, std::uint32_t>& trials) {
    OrderedJson campaigns = OrderedJson::array();
    const auto rows = context_.ledger.Campaigns();
    if (!rows) return campaigns;
    const Gathered& seen = context_.reconciler.Current().gathered;
    for (const CampaignRow& row : *rows) {
      std::vector<SeenCheckpoint> waiting;
      for (const std::string& path : row.paths) {
        const auto found = seen.campaign_checkpoints.find(path);
        if (found != seen.campaign_checkpoints.end() && !found->second.found.complete)
          waiting.push_back(found->second);
      }
      const std::string id = std::to_string(row.id);
      campaigns.push_back(
          {{"campaign", "c-" + id},
           {"name", row.name},
           {"state", row.cancelled ? "cancelled" : "open"},
           {"suites", row.suites},
           {"created_at", ToEpochSeconds(row.created_at)},
           {"checkpoints", CheckpointsJson("campaign:" + id, progress, waiting, trials)}});
    }
    return campaigns;
  }

  OrderedJson JobJson(const JobRow& row) {
    OrderedJson json = {{"job_id", row.job_id},
                        {"kind", JobKindName(row.kind)},
                        {"state", row.state},
                        {"node", row.node}};
    std::string state = row.state == "ended"    ? row.outcome
                        : row.state == "intent" ? "SUBMITTING"
                                                : "PENDING",
                reason;
    if (const auto& jobs = context_.reconciler.Current().gathered.jobs;
        jobs && row.state != "ended") {
      for (const cluster::Job& job : *jobs) {
        if (slurm::KeyOf(job) != row.key) continue;
        state = cluster::JobStateName(job.state);
        reason = job.state_reason == "None" ? "" : job.state_reason;
      }
    }
    json["state"] = state;
    json["reason"] = reason;
    const auto checkpoint = context_.ledger.FindCheckpoint(row.fingerprint);
    json["checkpoint"] = checkpoint && *checkpoint ? (*checkpoint)->path : "";
    json["gpus"] = row.gpus;
    json["items_done"] = row.items_done;
    json["submitted_at"] = ToEpochSeconds(row.created_at);
    json["start_time"] =
        OrderedJson(row.start_at ? OrderedJson(ToEpochSeconds(*row.start_at)) : OrderedJson());
    json["end_time"] =
        OrderedJson(row.end_at ? OrderedJson(ToEpochSeconds(*row.end_at)) : OrderedJson());
    if (row.start_at) {
      const TimePoint end = row.end_at.value_or(context_.clock.Now());
      json["seconds"] = static_cast<double>((end - *row.start_at).count()) / 1000.0;
    } else {
      json["seconds"] = OrderedJson();
    }
    return json;
  }

  Result<OrderedJson> JobsJson(bool all) {
    const auto rows = context_.ledger.Jobs(all);
    if (!rows) return Fail(rows.error());
    OrderedJson jobs = OrderedJson::array();
    for (const JobRow& row : *rows) jobs.push_back(JobJson(row));
    return jobs;
  }

  Response Status() {
    const Picture& picture = context_.reconciler.Current();
    const Gathered& seen = picture.gathered;
    const auto progress = context_.ledger.ProgressOfAll();
    if (!progress) return ErrorResponse(progress.error());
    const auto rows = context_.ledger.Jobs(false);
    if (!rows) return ErrorResponse(rows.error());
    std::map<std::string, std::uint32_t> trials;
    std::uint32_t used = 0;
    for (const JobRow& row : *rows) {
      if (row.kind != JobKind::kTrial) continue;
      ++trials[row.fingerprint];
      used += row.gpus;
    }
    OrderedJson held = OrderedJson::array();
    for (const Held& one : picture.held) held.push_back({{"count", one.count}, {"why", one.why}});
    for (const auto& [path, why] : seen.campaign_faults)
      held.push_back({{"count", 1}, {"why", path + ": " + why}});
    const auto jobs = JobsJson(false);
    if (!jobs) return ErrorResponse(jobs.error());
    return Answer(OrderedJson{
        {"time", ToEpochSeconds(context_.clock.Now())},
        {"scheduler", seen.coevald_fault.empty() ? "connected" : "away: " + seen.coevald_fault},
        {"slurm", seen.slurm_fault.empty() ? "up" : "down: " + seen.slurm_fault},
        {"quota",
         {{"gpus", seen.capacity.gpus},
          {"used", used},
          {"source", seen.capacity.from_coevald ? "coevald" : "fallback"},
          {"reason", seen.capacity.reason}}},
        {"held", held},
        {"runs", RunsJson(*progress, trials)},
        {"campaigns", CampaignsJson(*progress, trials)},
        {"jobs", *jobs}});
  }

  Response Jobs() {
    const auto jobs = JobsJson(true);
    return jobs ? Answer(OrderedJson{{"jobs", *jobs}}) : ErrorResponse(jobs.error());
  }

  // --- results ---

  // `run=R`, `campaign=c-1` or nothing, as the ledger names owners.
  static std::string OwnerOf(const Request& request) {
    if (const auto run = request.query.find("run");
        run != request.query.end() && !run->second.empty()) {
      return run->second.starts_with("c-") ? "campaign:" + run->second.substr(2)
                                           : "run:" + run->second;
    }
    return "";
  }

  static Json StageJson(const std::optional<ResultRow::StageRow>& stage) {
    if (!stage) return Json();
    return Json{{"job_id", stage->job_id}, {"node", stage->node}, {"seconds", stage->seconds}};
  }

  Response Results(const Request& request) {
    const auto suite_at = request.query.find("suite");
    const std::string suite = suite_at == request.query.end() ? "" : suite_at->second;
    const std::string owner = OwnerOf(request);
    const auto rows = context_.ledger.Results(owner, suite);
    if (!rows) return ErrorResponse(rows.error());
    const auto failed = context_.ledger.Failures(owner, suite);
    if (!failed) return ErrorResponse(failed.error());
    OrderedJson results = OrderedJson::array(), failures = OrderedJson::array();
    for (const ResultRow& row : *rows) {
      OrderedJson json = {{"checkpoint", row.checkpoint}, {"fingerprint", row.fingerprint}};
      json["step"] = OrderedJson(row.step ? OrderedJson(*row.step) : OrderedJson());
      json["suite"] = row.suite;
      json["dataset"] = row.dataset;
      json["version"] = row.version;
      json["primary"] = row.primary;
      json["value"] = row.value;
      json["metrics"] = OrderedJson::parse(row.metrics_json, nullptr, false);
      json["items"] = row.items;
      json["feedback_delay_s"] = row.feedback_delay_s;
      json["known_at"] = ToEpochSeconds(row.known_at);
      json["inference"] = StageJson(row.inference);
      json["metric"] = StageJson(row.metric);
      json["settings"] = row.settings;
      results.push_back(std::move(json));
    }
    for (const FailureRow& row : *failed) {
      OrderedJson json = {{"checkpoint", row.checkpoint}, {"fingerprint", row.fingerprint}};
      json["step"] = OrderedJson(row.step ? OrderedJson(*row.step) : OrderedJson());
      json["suite"] = row.suite;
      json["dataset"] = row.dataset;
      json["stage"] = row.stage;
      json["attempts"] = row.attempts;
      json["error"] = row.error;
      json["log_tail"] = row.log_tail;
      json["predictions"] = row.predictions.empty() ? OrderedJson() : OrderedJson(row.predictions);
      failures.push_back(std::move(json));
    }
    const auto run = request.query.find("run");
    return Answer(OrderedJson{{"run", run == request.query.end() ? "" : run->second},
                              {"results", results},
                              {"failures", failures}});
  }

  // --- people's wishes ---

  Result<CampaignRow> ReadCampaign(const Request& request) {
    const auto body = ReadBody(request);
    if (!body) return Fail(body.error());
    CampaignRow row;
    row.name = body->value("name", "");
    auto suites = Texts(*body, "suites");
    if (!suites) return Fail(suites.error());
    auto paths = Texts(*body, "checkpoints");
    if (!paths) return Fail(paths.error());
    if (paths->size() > kMaxCampaignPaths)
      return Fail(ErrorCode::kInvalidArgument,
                  "more than 1000 checkpoints; submit several campaigns");
    for (const std::string& suite : *suites) {
      if (context_.suites.Find(suite) == nullptr) return Fail(context_.suites.Unknown(suite));
    }
    for (std::string& path : *paths) {
      if (!std::filesystem::path(path).is_absolute()) {
        return Fail(ErrorCode::kInvalidArgument, "checkpoint path '" + path + "' is not absolute");
      }
      path = std::filesystem::path(path).lexically_normal().string();
      if (path.size() > 1 && path.back() == '/') path.pop_back();
    }
    row.suites = std::move(*suites);
    row.paths = std::move(*paths);
    return row;
  }

  void Campaign(const Request& request, Respond respond) {
    if (!Owns(*request.peer)) return respond(Forbidden(*request.peer));
    auto row = ReadCampaign(request);
    if (!row) return respond(ErrorResponse(row.error()));
    const auto paths = row->paths;
    context_.inspect(paths, [this, respond, campaign = std::move(*row)](
                                std::map<std::string, Result<SeenCheckpoint>> seen) {
      auto answer = EnterCampaign(campaign, seen);
      respond(answer ? std::move(*answer) : ErrorResponse(answer.error()));
    });
  }

  Result<Response> EnterCampaign(CampaignRow campaign,
                                 const std::map<std::string, Result<SeenCheckpoint>>& seen) {
    for (const auto& [path, one] : seen) {
      if (!one) return Fail(one.error());  // Nothing there: say so before anything is entered.
    }
    // The checkpoints were looked at without holding anything up; a suite may be gone since.
    for (const std::string& suite : campaign.suites) {
      if (context_.suites.Find(suite) == nullptr) return Fail(context_.suites.Unknown(suite));
    }
    const TimePoint now = context_.clock.Now();
    campaign.created_at = now;
    const auto id = context_.ledger.InsertCampaign(campaign);
    if (!id) return Fail(id.error());
    campaign.id = *id;
    std::int64_t items = 0, fresh = 0;
    for (const std::string& suite : campaign.suites) {
      items += static_cast<std::int64_t>(context_.suites.Find(suite)->datasets.size() *
                                         campaign.paths.size());
    }
    OrderedJson checkpoints = OrderedJson::array();
    for (const auto& [path, one] : seen) {
      checkpoints.push_back(CheckpointJson(one->found, one->fingerprint, false));
      if (!one->found.complete) continue;
      const auto added = context_.reconciler.EnterCampaign(campaign, *one, true, now);
      if (!added) return Fail(added.error());
      fresh += *added;
    }
    context_.wake();
    return Answer(OrderedJson{{"campaign", "c-" + std::to_string(*id)},
                              {"items", items},
                              {"new", fresh},
                              {"checkpoints", checkpoints}},
                  201);
  }

  Result<Response> Cancel(const Json& body) {
    const TimePoint now = context_.clock.Now();
    std::string owner;
    int jobs = 0;
    if (body.contains("job_id")) {
      const auto id = Text(body, "job_id");
      if (!id) return Fail(id.error());
      const auto rows = context_.ledger.Jobs(false);
      if (!rows) return Fail(rows.error());
      const bool ours = std::any_of(rows->begin(), rows->end(),
                                    [&](const JobRow& row) { return row.job_id == *id; });
      if (!ours)
        return Fail(ErrorCode::kNotFound, "job " + *id + " is no running job of this evaluator");
      context_.reconciler.CancelJob(*id);
      jobs = 1;
    } else if (body.contains("run")) {
      const auto run = Text(body, "run");
      if (!run) return Fail(run.error());
      owner = "run:" + *run;
      if (auto known = IsKnown(owner); !known) return Fail(known.error());
      if (auto done = context_.ledger.CancelRun(*run, now); !done) return Fail(done.error());
    } else {
      const auto campaign = Text(body, "campaign");
      if (!campaign) return Fail(campaign.error());
      const auto row = FindCampaign(*campaign);
      if (!row) return Fail(row.error());
      owner = "campaign:" + std::to_string(*row);
      if (auto done = context_.ledger.CancelCampaign(*row); !done) return Fail(done.error());
    }
    int items = 0;
    if (!owner.empty()) {
      const auto cancelled = context_.ledger.Cancel(owner, now);
      if (!cancelled) return Fail(cancelled.error());
      items = *cancelled;
    }
    context_.wake();
    return Answer(Json{{"cancelled_items", items}, {"cancelled_jobs", jobs}});
  }

  Result<> IsKnown(const std::string& owner) {
    for (const FollowedRun& run : context_.reconciler.Current().gathered.runs) {
      if ("run:" + run.run == owner) return {};
    }
    const auto progress = context_.ledger.ProgressOfAll();
    if (!progress) return Fail(progress.error());
    for (const Progress& one : *progress) {
      if (one.owner == owner) return {};
    }
    return Fail(ErrorCode::kNotFound, "there is no " + owner.substr(0, owner.find(':')) + " '" +
                                          owner.substr(owner.find(':') + 1) + "'");
  }

  Result<std::int64_t> FindCampaign(const std::string& name) {
    const auto rows = context_.ledger.Campaigns();
    if (!rows) return Fail(rows.error());
    for (const CampaignRow& row : *rows) {
      if ("c-" + std::to_string(row.id) == name) return row.id;
    }
    return Fail(ErrorCode::kNotFound, "there is no campaign '" + name + "'");
  }

  // --- workers ---

  Result<Response> Lease(const Json& body) {
    const auto stage_name = Text(body, "stage");
    if (!stage_name) return Fail(stage_name.error());
    const auto stage = ParseWorkStage(*stage_name);
    if (!stage)
      return Fail(ErrorCode::kInvalidArgument,
                  "stage is '" + *stage_name + "'; must be inference or metric");
    const auto leased = context_.ledger.Lease(
        *stage, body.value("fingerprint", ""), body.value("job_id", ""), body.value("node", ""),
        body.value("worker", ""), context_.config.lease, context_.clock.Now());
    if (!leased) return Fail(leased.error());
    if (*leased) {
      LeaseContext lease{context_.config.work_dir / "items", context_.config.lease};
      return Response{200, LeaseJson(**leased, lease)};
    }
    // A trial holds GPUs: it leaves when there is nothing to do. A metric job may wait for more.
    const bool done = *stage == WorkStage::kInference;
    return Answer(Json{{"lease", nullptr}, {"retry_after_s", 0.5}, {"done", done}});
  }

  static Result<std::pair<std::int64_t, std::int64_t>> ItemAndToken(const Json& body) {
    const auto item = Number(body, "item_id");
    if (!item) return Fail(item.error());
    const auto token = Number(body, "token");
    if (!token) return Fail(token.error());
    return std::make_pair(*item, *token);
  }

  Result<Response> Renew(const Json& body) {
    const auto lease = ItemAndToken(body);
    if (!lease) return Fail(lease.error());
    const auto expires = context_.ledger.Renew(lease->first, lease->second, context_.config.lease,
                                               context_.clock.Now());
    if (!expires) return Fail(expires.error());
    return Answer(Json{{"expires_at", ToEpochSeconds(*expires)}});
  }

  static Result<std::optional<Score>> ReadScore(const Json& body) {
    const auto found = body.find("result");
    if (found == body.end() || found->is_null()) return std::optional<Score>{};
    const bool fine = found->is_object() && found->contains("value") &&
                      (*found)["value"].is_number() && found->contains("metrics") &&
                      (*found)["metrics"].is_object();
    if (!fine) return Fail(ErrorCode::kInvalidArgument, "the result has no value or no metrics");
    return std::optional<Score>{Score{found->value("primary", ""), found->at("value"),
                                      found->at("metrics").dump(),
                                      found->value("items", std::int64_t{0})}};
  }

  Result<Response> Finish(const Json& body) {
    const auto lease = ItemAndToken(body);
    if (!lease) return Fail(lease.error());
    const auto outcome = Text(body, "outcome");
    if (!outcome) return Fail(outcome.error());
    FinishedWork finished;
    finished.work = lease->first;
    finished.token = lease->second;
    finished.outcome = *outcome == "done"        ? WorkOutcome::kDone
                       : *outcome == "elsewhere" ? WorkOutcome::kElsewhere
                                                 : WorkOutcome::kFailed;
    finished.seconds = body.value("seconds", 0.0);
    finished.out = body.value("out", "");
    finished.error = body.value("error", "");
    finished.log_tail = body.value("log_tail", "");
    auto score = ReadScore(body);
    if (!score) return Fail(score.error());
    finished.score = std::move(*score);
    if (auto done = context_.ledger.Finish(finished, context_.config.retries, context_.clock.Now());
        !done)
      return Fail(done.error());
    if (finished.outcome != WorkOutcome::kDone) {
      log::Warn("work failed",
                {{"item", std::to_string(finished.work)}, {"error", finished.error}});
    }
    context_.wake();
    return Answer(Json{{"taken", true}});
  }

  Result<Response> Return(const Json& body) {
    const auto lease = ItemAndToken(body);
    if (!lease) return Fail(lease.error());
    FinishedWork finished;
    finished.work = lease->first;
    finished.token = lease->second;
    finished.outcome = WorkOutcome::kReturned;
    if (auto done = context_.ledger.Finish(finished, context_.config.retries, context_.clock.Now());
        !done)
      return Fail(done.error());
    context_.wake();
    return Answer(Json{{"taken", true}});
  }

  Result<Response> Staging(const Json& body) {
    const auto node = Text(body, "node"), fingerprint = Text(body, "fingerprint"),
               state = Text(body, "state");
    if (!node) return Fail(node.error());
    if (!fingerprint) return Fail(fingerprint.error());
    if (!state) return Fail(state.error());
    if (*state == "failed") {
      log::Warn("staging failed; trials on that node read the checkpoint itself",
                {{"node", *node}, {"error", body.value("error", "")}});
    }
    return Answer(Json{{"keep", context_.reconciler.NoteStaging(*node, *fingerprint, *state)}});
  }

  ApiContext& context_;
};

}  // namespace

void AddRoutes(http::Server& server, ApiContext& context) {
  // The routes keep it alive; it lives as long as they do.
  auto api = std::make_shared<Api>(context);
  api->Register(server);
  server.Route("GET", "/v1/version", http::Access::kAnyone, [api](const Request&, Respond respond) {
    respond(Answer(Json{{"version", COEVAL_VERSION}}));
  });
}

}  // namespace coeval::evaluator
