// The ledger's tables and how a database is brought to them.
#pragma once

#include "evaluator/ledger/sqlite.h"

namespace coeval::evaluator {

/// Makes or checks the tables; kFailedPrecondition for a ledger that a newer coeval wrote.
Result<> PrepareSchema(sqlite3* db);

}  // namespace coeval::evaluator
