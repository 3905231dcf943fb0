// The little of SQLite's C interface that the ledger needs, with errors as values.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/result.h"

namespace coeval::evaluator {

/// One prepared statement, used once: bind with `?` numbers from 1 in the order of the arguments.
/// A fault is kept and given by Status(), so that reading code stays straight.
class Statement {
 public:
  template <class... Values>
  Statement(sqlite3* db, std::string_view sql, const Values&... values) : db_(db) {
    Prepare(sql);
    int index = 0;
    (Bind(++index, values), ...);
  }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;
  ~Statement();

  /// True while there is a row.
  bool Step();
  /// For statements without rows.
  Result<> Run();
  Result<> Status() const;

  std::int64_t Int(int column) const;
  double Double(int column) const;
  std::string Text(int column) const;
  bool IsNull(int column) const;
  std::optional<double> OptionalDouble(int column) const;
  std::optional<std::int64_t> OptionalInt(int column) const;

 private:
  void Prepare(std::string_view sql);
  void Bind(int index, std::int64_t value);
  void Bind(int index, int value) { Bind(index, std::int64_t{value}); }
  void Bind(int index, std::uint32_t value) { Bind(index, std::int64_t{value}); }
  void Bind(int index, double value);
  void Bind(int index, const std::string& value);
  void Bind(int index, const char* value) { Bind(index, std::string(value)); }
  void Bind(int index, const std::optional<double>& value);
  void Bind(int index, const std::optional<std::int64_t>& value);

  sqlite3* db_;
  sqlite3_stmt* statement_ = nullptr;
  int code_ = SQLITE_OK;
};

/// What the connection's last fault means: a full disk passes with time, damage does not.
Error SqliteError(sqlite3* db, int code, const std::string& what);

/// Rolled back unless committed. `BEGIN IMMEDIATE`, so that a conflict shows at the start.
class Transaction {
 public:
  explicit Transaction(sqlite3* db);
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  ~Transaction();
  Result<> Status() const { return begun_; }
  Result<> Commit();

 private:
  sqlite3* db_;
  Result<> begun_;
  bool open_ = false;
};

}  // namespace coeval::evaluator
