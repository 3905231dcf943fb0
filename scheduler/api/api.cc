#include "scheduler/api/api.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace coeval::scheduler {
namespace {

using http::ErrorResponse;
using http::Request;
using http::Respond;
using http::Response;
using Json = nlohmann::ordered_json;

Response Answer(const Json& json) {
  return Response{200, json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n"};
}

Json OrNull(const std::optional<TimePoint>& time) {
  return time ? Json(ToEpochSeconds(*time)) : Json();
}
Json OrNull(const std::optional<Seconds>& duration) {
  return duration ? Json(duration->count()) : Json();
}
template <class Number>
Json OrNull(const std::optional<Number>& number) {
  return number ? Json(*number) : Json();
}

Json LendJson(const std::optional<cluster::Lend>& lend) {
  return lend ? Json{{"cpus", lend->cpus}, {"mem_mb", lend->mem_mb}} : Json();
}

Json RunJson(const Run& run) {
  Json jobs = Json::array();
  for (const RunJob& job : run.jobs) {
    jobs.push_back({{"job_id", job.display_id},
                    {"state", job.state},
                    {"role", cluster::RoleName(job.role)},
                    {"nodes", job.nodes},
                    {"start_time", OrNull(job.start_time)},
                    {"restart_cnt", job.restart_cnt}});
  }
  return {{"run", run.run},
          {"user", run.user},
          {"uid", run.uid},
          {"account", run.account},
          {"state", run.state},
          {"checkpoints", run.tag.checkpoints},
          {"suites", run.tag.suites},
          {"deadline_s", OrNull(run.tag.deadline)},
          {"lend", LendJson(run.tag.lend)},
          {"recover", OrNull(run.tag.recover)},
          {"jobs", jobs}};
}

Json PolicyJson(const Policy& policy) {
  Json match = Json::array(), roles = Json::object();
  for (const MatchRule& rule : policy.match) {
    match.push_back({{"name", rule.name},
                     {"partition", rule.partition},
                     {"qos", rule.qos},
                     {"account", rule.account},
                     {"user", rule.user},
                     {"role", cluster::RoleName(rule.role)}});
  }
  for (const auto& [role, one] : policy.roles) {
    roles[std::string(cluster::RoleName(role))] = {{"weight", one.weight},
                                                   {"deadline_s", OrNull(one.deadline)}};
  }
  return {{"policy", policy.name},
          {"cycle_interval_s", policy.cycle_interval.count()},
          {"match", match},
          {"roles", roles},
          {"urgency_weight", policy.urgency_weight},
          {"ageing", {{"per_hour", policy.ageing_per_hour}, {"max", policy.ageing_max}}},
          {"eval",
           {{"gpu_quota", OrNull(policy.eval_gpu_quota)},
            {"over_quota_weight", policy.over_quota_weight}}},
          {"lend", {{"enabled", policy.lend_enabled}, {"partition", policy.lend_partition}}},
          {"offer_lifetime_s", policy.offer_lifetime.count()},
          {"ended_run_keep_s", policy.ended_run_keep.count()},
          {"updates_per_cycle_max", policy.updates_per_cycle_max},
          {"operators", policy.operators}};
}

class Api {
 public:
  explicit Api(ApiContext& context) : context_(context), cycle_(context.cycle) {}

  Response Health() const {
    const bool fine = cycle_.SlurmUp() && cycle_.HasSnapshot();
    const double age =
        std::chrono::duration<double>(context_.clock.Now() - cycle_.Current().snapshot.time)
            .count();
    return Answer({{"status", fine ? "ok" : "degraded"},
                   {"slurm", cycle_.SlurmUp() ? "up" : "down"},
                   {"snapshot_age_s", cycle_.HasSnapshot() ? Json(age) : Json()},
                   {"version", COEVAL_VERSION},
                   {"policy", cycle_.CurrentPolicy().name}});
  }

  Response Metrics() const {
    const Counters& counts = cycle_.Counts();
    std::string text;
    const auto metric = [&](const std::string& name, const char* type, const char* help,
                            double value) {
      text += "# HELP " + name + " " + help + "\n# TYPE " + name + " " + type + "\n" + name + " " +
              Json(value).dump() + "\n";
    };
    const auto counter = [&](const char* name, const char* help, std::uint64_t value) {
      metric(name, "counter", help, static_cast<double>(value));
    };
    counter("coeval_scheduler_cycles_total", "Cycles, each with at most one load of each kind.",
            counts.cycles);
    counter("coeval_scheduler_loads_failed_total", "Cycles in which slurmctld did not answer.",
            counts.loads_failed);
    counter("coeval_scheduler_updates_total", "Jobs whose SiteFactor was changed.", counts.updates);
    counter("coeval_scheduler_updates_refused_total", "Changes that Slurm refused.",
            counts.updates_refused);
    counter("coeval_scheduler_policy_reloads_total", "Policies taken.", counts.policy_reloads);
    counter("coeval_scheduler_policy_refused_total", "Policy files refused.",
            counts.policy_refused);
    const State& state = cycle_.Current();
    metric("coeval_scheduler_slurm_up", "gauge", "1 when slurmctld answers.",
           cycle_.SlurmUp() ? 1 : 0);
    metric("coeval_scheduler_runs", "gauge", "Pretraining runs listed.",
           static_cast<double>(state.runs.size()));
    metric("coeval_scheduler_gpus_offered", "gauge", "GPUs that evaluation may take now.",
           state.offer.gpus);
    metric("coeval_scheduler_eval_gpus_used", "gauge", "GPUs of running evaluation.",
           state.offer.gpus_used);
    return Response{200, text, "text/plain; version=0.0.4"};
  }

  Response Runs(const Request& request) const {
    if (auto known = RequireSnapshot(); !known) return ErrorResponse(known.error());
    Json runs = Json::array();
    for (const Run& run : cycle_.Current().runs) {
      if (MaySee(*request.peer, run.uid)) runs.push_back(RunJson(run));
    }
    return Answer({{"runs", runs}});
  }

  Response Capacity() const {
    if (auto known = RequireSnapshot(); !known) return ErrorResponse(known.error());
    const State& state = cycle_.Current();
    // What a stale snapshot calls idle may be taken: nothing is offered on it.
    Json places = Json::array();
    if (cycle_.SlurmUp()) {
      for (const Place& place : state.offer.places) {
        places.push_back({{"node", place.node},
                          {"partition", place.partition},
                          {"gpus", place.gpus},
                          {"cpus", place.cpus},
                          {"mem_mb", place.mem_mb},
                          {"source", place.source},
                          {"run", place.run},
                          {"reason", place.reason}});
      }
    }
    return Answer({{"offer_id", "o-" + std::to_string(state.offers)},
                   {"time", ToEpochSeconds(state.snapshot.time)},
                   {"expires_at",
                    ToEpochSeconds(state.snapshot.time + cycle_.CurrentPolicy().offer_lifetime)},
                   {"gpu_quota", OrNull(state.offer.gpu_quota)},
                   {"gpus_used", state.offer.gpus_used},
                   {"gpus", cycle_.SlurmUp() ? state.offer.gpus : 0},
                   {"reason", cycle_.SlurmUp() ? state.offer.reason : "slurmctld does not answer"},
                   {"places", places}});
  }

  Response Explain(const Request& request) const {
    if (auto known = RequireSnapshot(); !known) return ErrorResponse(known.error());
    const std::string& id = request.params.at("id");
    const State& state = cycle_.Current();
    for (const cluster::Job& job : state.snapshot.jobs) {
      if (cluster::DisplayId(job) != id && std::to_string(job.id.value) != id) continue;
      if (!MaySee(*request.peer, job.uid)) {
        return ErrorResponse({ErrorCode::kPermissionDenied, "job " + id + " is not yours"});
      }
      return Answer(ExplainJson(job, state.plan));
    }
    return ErrorResponse(
        {ErrorCode::kNotFound, "Slurm lists no job " + id + "; it may have ended a while ago"});
  }

  Response ShowPolicy() const {
    return Answer({{"name", cycle_.CurrentPolicy().name},
                   {"file", cycle_.PolicyFile()},
                   {"loaded_at", ToEpochSeconds(cycle_.PolicyLoadedAt())},
                   {"policy", PolicyJson(cycle_.CurrentPolicy())}});
  }

  Response Reload(const Request& request) {
    if (!IsOperator(*request.peer)) {
      return ErrorResponse({ErrorCode::kPermissionDenied,
                            "user " + request.peer->name + " is no operator of this policy"});
    }
    if (auto loaded = cycle_.ReloadPolicy(context_.clock.Now()); !loaded)
      return ErrorResponse(loaded.error());
    context_.wake();
    return ShowPolicy();
  }

 private:
  bool IsOperator(const http::Peer& peer) const {
    const auto& operators = cycle_.CurrentPolicy().operators;
    return peer.uid == 0 || peer.uid == context_.own_uid ||
           std::find(operators.begin(), operators.end(), peer.name) != operators.end();
  }
  bool MaySee(const http::Peer& peer, std::uint32_t uid) const {
    return peer.uid == uid || IsOperator(peer);
  }

  Result<> RequireSnapshot() const {
    if (cycle_.HasSnapshot()) return {};
    return Fail(
        ErrorCode::kUnavailable,
        "coevald has not heard from slurmctld yet: " +
            (cycle_.SlurmFault().empty() ? "its first cycle is under way" : cycle_.SlurmFault()));
  }

  static Json ExplainJson(const cluster::Job& job, const Plan& plan) {
    const auto view = std::find_if(plan.jobs.begin(), plan.jobs.end(),
                                   [&](const JobView& one) { return one.id == job.id; });
    Json json = {{"job_id", cluster::DisplayId(job)},
                 {"name", job.name},
                 {"user", job.user},
                 {"state", cluster::JobStateName(job.state)}};
    if (view == plan.jobs.end()) {
      const bool over = cluster::IsFinished(job.state);
      json["class"] = {{"role", "none"},
                       {"by", over ? "it has ended" : "no tag and no rule of the policy"}};
      json["priority"] = job.priority;
      json["site_factor"] = {{"value", job.site_factor}, {"parts", Json::array()}};
      json["waits_for"] = "";
      json["action"] = "none";
      json["reasons"] = Json::array(
          {over ? "the job has ended" : "coeval never touches jobs that it does not classify"});
      return json;
    }
    const bool pending = job.state == cluster::JobState::kPending;
    json["class"] = {{"role", cluster::RoleName(view->classification.role)},
                     {"by", view->classification.by}};
    json["priority"] = job.priority;
    Json parts = Json::array();
    if (pending) {
      for (const FactorPart& part : view->parts)
        parts.push_back({{"name", part.name}, {"value", part.value}, {"why", part.why}});
    }
    json["site_factor"] = {{"value", pending ? view->site_factor : job.site_factor},
                           {"parts", parts}};
    json["waits_for"] = view->waits_for;
    json["action"] =
        pending && view->site_factor != job.site_factor ? "its SiteFactor is being set" : "none";
    json["reasons"] = Json::array();
    if (!pending) json["reasons"].push_back("it runs; only waiting jobs are steered");
    return json;
  }

  ApiContext& context_;
  Cycle& cycle_;
};

}  // namespace

void AddRoutes(http::Server& server, ApiContext& context) {
  auto api = std::make_shared<Api>(context);
  using http::Access;
  server.Route("GET", "/healthz", Access::kAnyone,
               [api](const Request&, Respond respond) { respond(api->Health()); });
  server.Route("GET", "/metrics", Access::kAnyone,
               [api](const Request&, Respond respond) { respond(api->Metrics()); });
  server.Route("GET", "/v1/runs", Access::kKnown,
               [api](const Request& request, Respond respond) { respond(api->Runs(request)); });
  server.Route("GET", "/v1/capacity", Access::kKnown,
               [api](const Request&, Respond respond) { respond(api->Capacity()); });
  server.Route("GET", "/v1/jobs/{id}/explain", Access::kKnown,
               [api](const Request& request, Respond respond) { respond(api->Explain(request)); });
  server.Route("GET", "/v1/policy", Access::kKnown,
               [api](const Request&, Respond respond) { respond(api->ShowPolicy()); });
  server.Route("POST", "/v1/policy/reload", Access::kKnown,
               [api](const Request& request, Respond respond) { respond(api->Reload(request)); });
}

}  // namespace coeval::scheduler
