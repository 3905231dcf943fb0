// The evaluator's HTTP API (docs/api.md). Handlers run on the event loop.
#pragma once

#include <functional>
#include <string>

#include "common/http/server.h"
#include "evaluator/service/reconcile.h"

namespace coeval::evaluator {

/// What the handlers need; everything outlives the server.
struct ApiContext {
  const EvaluatorConfig& config;
  Ledger& ledger;
  SuiteFolder& suites;
  Reconciler& reconciler;
  const Clock& clock;
  std::uint32_t owner_uid = 0;
  /// Asks for a cycle soon, because something changed.
  std::function<void()> wake;
  /// Looks at checkpoints off the event loop, then calls back on it.
  std::function<void(std::vector<std::string> paths,
                     std::function<void(std::map<std::string, Result<SeenCheckpoint>>)> then)>
      inspect;
};

void AddRoutes(http::Server& server, ApiContext& context);

}  // namespace coeval::evaluator
