// coevald's HTTP API (docs/api.md). Handlers run on the event loop.
#pragma once

#include <cstdint>
#include <functional>

#include "common/http/server.h"
#include "scheduler/daemon/cycle.h"

namespace coeval::scheduler {

struct ApiContext {
  Cycle& cycle;
  const Clock& clock;
  std::uint32_t own_uid = 0;
  std::function<void()> wake;  // Asks for a cycle soon.
};

/// The context must outlive the server.
void AddRoutes(http::Server& server, ApiContext& context);

}  // namespace coeval::scheduler
