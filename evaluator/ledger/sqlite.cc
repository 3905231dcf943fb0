#include "evaluator/ledger/sqlite.h"

namespace coeval::evaluator {

Error SqliteError(sqlite3* db, int code, const std::string& what) {
  const int kind = code & 0xff;
  const ErrorCode mapped = kind == SQLITE_FULL || kind == SQLITE_IOERR
                               ? ErrorCode::kResourceExhausted
                           : kind == SQLITE_CORRUPT || kind == SQLITE_NOTADB ? ErrorCode::kCorrupt
                           : kind == SQLITE_BUSY || kind == SQLITE_LOCKED ? ErrorCode::kUnavailable
                           : kind == SQLITE_CANTOPEN || kind == SQLITE_PERM ||
                                   kind == SQLITE_READONLY || kind == SQLITE_AUTH
                               ? ErrorCode::kPermissionDenied
                               : ErrorCode::kInternal;
  const char* why = db != nullptr ? sqlite3_errmsg(db) : sqlite3_errstr(code);
  return Error{mapped, what + ": " + why};
}

Statement::~Statement() { sqlite3_finalize(statement_); }

void Statement::Prepare(std::string_view sql) {
  code_ = sqlite3_prepare_v2(db_, sql.data(), static_cast<int>(sql.size()), &statement_, nullptr);
}

bool Statement::Step() {
  if (code_ != SQLITE_OK && code_ != SQLITE_ROW) return false;
  code_ = sqlite3_step(statement_);
  return code_ == SQLITE_ROW;
}

Result<> Statement::Run() {
  while (Step()) {
  }
  return Status();
}

Result<> Statement::Status() const {
  if (code_ == SQLITE_OK || code_ == SQLITE_ROW || code_ == SQLITE_DONE) return {};
  return Fail(SqliteError(db_, code_, "the ledger"));
}

std::int64_t Statement::Int(int column) const { return sqlite3_column_int64(statement_, column); }
double Statement::Double(int column) const { return sqlite3_column_double(statement_, column); }
bool Statement::IsNull(int column) const {
  return sqlite3_column_type(statement_, column) == SQLITE_NULL;
}

std::string Statement::Text(int column) const {
  const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
  const int size = sqlite3_column_bytes(statement_, column);
  return text != nullptr ? std::string(text, static_cast<std::size_t>(size)) : std::string();
}

std::optional<double> Statement::OptionalDouble(int column) const {
  if (IsNull(column)) return std::nullopt;
  return Double(column);
}

std::optional<std::int64_t> Statement::OptionalInt(int column) const {
  if (IsNull(column)) return std::nullopt;
  return Int(column);
}

void Statement::Bind(int index, std::int64_t value) {
  if (code_ == SQLITE_OK) code_ = sqlite3_bind_int64(statement_, index, value);
}
void Statement::Bind(int index, double value) {
  if (code_ == SQLITE_OK) code_ = sqlite3_bind_double(statement_, index, value);
}
void Statement::Bind(int index, const std::string& value) {
  if (code_ != SQLITE_OK) return;
  code_ = sqlite3_bind_text(statement_, index, value.data(), static_cast<int>(value.size()),
                            SQLITE_TRANSIENT);
}
void Statement::Bind(int index, const std::optional<double>& value) {
  if (value) return Bind(index, *value);
  if (code_ == SQLITE_OK) code_ = sqlite3_bind_null(statement_, index);
}
void Statement::Bind(int index, const std::optional<std::int64_t>& value) {
  if (value) return Bind(index, *value);
  if (code_ == SQLITE_OK) code_ = sqlite3_bind_null(statement_, index);
}

Transaction::Transaction(sqlite3* db) : db_(db) {
  begun_ = Statement(db_, "BEGIN IMMEDIATE").Run();
  open_ = begun_.has_value();
}

Transaction::~Transaction() {
  if (open_) sqlite3_exec(db_, "ROLLBACK", nullptr, nullptr, nullptr);
}

Result<> Transaction::Commit() {
  Result<> done = Statement(db_, "COMMIT").Run();
  if (done) open_ = false;
  return done;
}

}  // namespace coeval::evaluator
