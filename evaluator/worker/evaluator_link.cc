#include "evaluator/worker/evaluator_link.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "common/base/files.h"

namespace coeval::evaluator {
namespace {

constexpr Milliseconds kFirstWait{200};
constexpr Milliseconds kLongestWait{5000};
constexpr Milliseconds kNap{100};
constexpr Milliseconds kCallTime{10000};

bool MayPass(ErrorCode code) {
  return code == ErrorCode::kUnavailable || code == ErrorCode::kUnknownOutcome ||
         code == ErrorCode::kResourceExhausted || code == ErrorCode::kInternal;
}

}  // namespace

Result<> EvaluatorLink::Connect() {
  auto text = ReadFile(address_file_, Bytes{4096});
  if (!text) {
    return Fail(ErrorCode::kUnavailable, "the evaluator's address: " + text.error().message);
  }
  while (!text->empty() && text->back() == '\n') text->pop_back();
  if (client_ != nullptr && *text == address_) return {};
  address_ = *text;
  client_ = std::make_unique<http::Client>(http::ClientOptions{address_, munge_socket_, kCallTime});
  return {};
}

Result<std::string> EvaluatorLink::Post(const std::string& path, const std::string& body) {
  if (client_ == nullptr) {
    if (auto connected = Connect(); !connected) return Fail(connected.error());
  }
  auto answer = client_->CallForBody("POST", path, body);
  if (!answer && MayPass(answer.error().code)) {
    // It may be back under another address; a failure to read that is this call's failure anyway.
    static_cast<void>(Connect().has_value());
  }
  return answer;
}

Result<std::string> EvaluatorLink::PostUntil(const std::string& path, const std::string& body,
                                             Milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  Milliseconds wait = kFirstWait;
  while (true) {
    auto answer = Post(path, body);
    if (answer || !MayPass(answer.error().code)) return answer;
    if (std::chrono::steady_clock::now() + wait > deadline) return answer;
    // In short naps: a worker that is told to go must not keep its GPUs for an absent evaluator.
    for (Milliseconds slept{0}; slept < wait && !stop_; slept += kNap) {
      std::this_thread::sleep_for(kNap);
    }
    if (stop_) return answer;
    wait = std::min(wait * 2, kLongestWait);
  }
}

Result<LeaseAnswer> EvaluatorLink::AskForWork(const WorkerIdentity& who, Milliseconds patience) {
  const nlohmann::json body = {{"stage", who.stage},
                               {"job_id", who.job_id},
                               {"node", who.node},
                               {"worker", who.worker},
                               {"fingerprint", who.fingerprint}};
  auto answer = PostUntil("/v1/work/lease", body.dump(), patience);
  if (!answer) return Fail(answer.error());
  return ReadLeaseAnswer(*answer);
}

Result<> EvaluatorLink::Renew(std::int64_t item_id, std::int64_t token) {
  const nlohmann::json body = {{"item_id", item_id}, {"token", token}};
  auto answer = Post("/v1/work/renew", body.dump());
  if (!answer) return Fail(answer.error());
  return {};
}

Result<> EvaluatorLink::Deliver(const Report& report, Milliseconds patience) {
  auto answer = PostUntil("/v1/work/finish", ReportJson(report), patience);
  if (!answer) return Fail(answer.error());
  return {};
}

Result<> EvaluatorLink::GiveBack(std::int64_t item_id, std::int64_t token,
                                 const std::string& reason) {
  const nlohmann::json body = {{"item_id", item_id}, {"token", token}, {"reason", reason}};
  auto answer = Post("/v1/work/return", body.dump());
  if (!answer) return Fail(answer.error());
  return {};
}

}  // namespace coeval::evaluator
