// What every subcommand shares: where the daemons are, and how answers and faults are printed.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "common/base/result.h"

namespace coeval::cli {

using Json = nlohmann::ordered_json;

// Exit codes of coeval(1).
constexpr int kOk = 0, kFailed = 1, kUsage = 2;

/// Options that every subcommand takes.
struct Common {
  std::string evaluator, coevald, munge_socket;
  bool json = false, noheader = false;
};

/// $COEVAL_EVALUATOR, else the socket in $XDG_RUNTIME_DIR/coeval or ~/.coeval.
std::string DefaultEvaluator();
/// $COEVALD_SOCKET as a target, else unix:/run/coeval/coevald.sock.
std::string DefaultCoevald();

/// One request. A daemon that cannot be reached is said with its target, how it is started and the
/// variable that names another.
Result<Json> AskEvaluator(const Common& common, const std::string& method, const std::string& path,
                          const std::string& body = "");
Result<Json> AskCoevald(const Common& common, const std::string& method, const std::string& path,
                        const std::string& body = "");

/// `coeval: <message>` on standard error; returns kFailed.
int Complain(const Error& error);
/// Pretty JSON on standard output; returns kOk.
int PrintJson(const Json& json);

/// Columns of the terminal, 0 when standard output is none.
std::size_t TerminalWidth();

std::string TextOr(const Json& json, const char* key, const std::string& fallback = "");
double NumberOr(const Json& json, const char* key, double fallback = 0);
bool IsNumber(const Json& json, const char* key);
/// `12s` for a number of seconds under `key`, `-` when it is null.
std::string DurationOr(const Json& json, const char* key);
std::string StepText(const Json& checkpoint);

}  // namespace coeval::cli
