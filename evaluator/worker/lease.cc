#include "evaluator/worker/lease.h"

#include <nlohmann/json.hpp>

namespace coeval::evaluator {
namespace {

using Json = nlohmann::json;

Lease ReadLease(const Json& json) {
  Lease lease;
  lease.item_id = json.at("item_id");
  lease.token = json.at("token");
  lease.stage = json.at("stage");
  lease.checkpoint = json.at("checkpoint");
  lease.fingerprint = json.at("fingerprint");
  lease.dataset = json.at("dataset");
  lease.version = json.value("version", "");
  lease.run = json.value("run", "");
  lease.suite = json.value("suite", "");
  lease.out = json.at("out");
  lease.adapter = json.value("adapter", "command");
  lease.argv = json.at("argv").get<std::vector<std::string>>();
  lease.env = json.value("env", std::map<std::string, std::string>{});
  lease.prelude = json.value("prelude", std::vector<std::string>{});
  lease.args = json.value("args", std::vector<std::string>{});
  lease.predictions = json.value("predictions", std::vector<std::string>{});
  lease.result_reader = json.value("result_reader", "");
  lease.step = json.value("step", std::int64_t{-1});
  lease.shard = json.value("shard", std::int64_t{0});
  lease.shards = json.value("shards", std::int64_t{1});
  lease.first_item = json.value("first_item", std::int64_t{0});
  lease.last_item = json.value("last_item", std::int64_t{0});
  lease.items = json.value("items", std::int64_t{0});
  lease.seed = json.value("seed", std::int64_t{0});
  lease.time_limit = Seconds{json.value("time_limit_s", std::int64_t{3600})};
  lease.lease_time = Seconds{json.value("lease_s", std::int64_t{30})};
  return lease;
}

}  // namespace

Result<LeaseAnswer> ReadLeaseAnswer(const std::string& text) {
  try {
    const Json json = Json::parse(text);
    LeaseAnswer answer;
    if (json.contains("lease") && json["lease"].is_object()) {
      answer.lease = ReadLease(json["lease"]);
      return answer;
    }
    answer.none.done = json.value("done", false);
    const double seconds = json.value("retry_after_s", 1.0);
    answer.none.retry_after = Milliseconds{static_cast<std::int64_t>(seconds * 1000)};
    return answer;
  } catch (const Json::exception& fault) {
    return Fail(ErrorCode::kCorrupt,
                std::string("the evaluator's lease is not understood: ") + fault.what());
  }
}

std::string ReportJson(const Report& report) {
  Json json = {{"item_id", report.item_id},  {"token", report.token}, {"outcome", report.outcome},
               {"seconds", report.seconds},  {"out", report.out},     {"error", report.error},
               {"log_tail", report.log_tail}};
  json["result"] =
      report.result_json.empty() ? Json() : Json::parse(report.result_json, nullptr, false);
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace coeval::evaluator
