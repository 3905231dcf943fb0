#include "plugin/llm_options.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

const struct LlmOptionText kLlmOptionTexts[kLlmOptionCount] = {
    {"llm-role", "COEVAL_ROLE", "role",
     "[coeval] workload type: pretrain, sft, mllm, eval, metric, precursor, debug or other"},
    {"llm-run", "COEVAL_RUN", "name",
     "[coeval] the run it belongs to, across restarts; 1-64 of A-Za-z0-9._-"},
    {"llm-checkpoints", "COEVAL_CHECKPOINTS", "folder",
     "[coeval] absolute folder where this run's checkpoints appear"},
    {"llm-suite", "COEVAL_SUITE", "names",
     "[coeval] suites to run on every checkpoint: name[,name...]"},
    {"llm-lend", "COEVAL_LEND", "cpus=N,mem=SIZE",
     "[coeval] what each node of this job leaves for evaluation"},
    {"llm-checkpoint", "COEVAL_CHECKPOINT", "path", "[coeval] what an eval job evaluates"},
    {"llm-deadline", "COEVAL_DEADLINE", "time",
     "[coeval] wanted feedback delay, in any form that --time takes"},
    {"llm-recover", "COEVAL_RECOVER", "off|on|N", "[coeval] restart budget of a pretrain job"},
};

enum {
  kNameMax = 64,
  kPathMax = 4095,
  kSuitesMax = 1024,
  kLendCpusMax = 65535,
  kRecoverMax = 1000,
  /* Digits of a number that is sure to fit an int64_t after multiplication by a day. */
  kDigitsMax = 9,
  kQuotedMax = 120,
};

/* How a check reports: the part of the message after "option=value: ". */
struct Fault {
  char text[256];
};

static bool Fail(struct Fault* fault, const char* format, ...)
    __attribute__((format(printf, 2, 3)));

static bool Fail(struct Fault* fault, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(fault->text, sizeof fault->text, format, arguments);
  va_end(arguments);
  return false;
}

static bool IsDigit(char c) { return c >= '0' && c <= '9'; }

static bool IsNameCharacter(char c) {
  return IsDigit(c) || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '.' || c == '_' ||
         c == '-';
}

/* `.` and `..` are names of folders to everything that makes a folder for a run or a suite. */
static bool IsName(const char* text, size_t length) {
  if (length == 0 || length > kNameMax) return false;
  if (text[0] == '.' && (length == 1 || (length == 2 && text[1] == '.'))) return false;
  for (size_t i = 0; i < length; ++i) {
    if (!IsNameCharacter(text[i])) return false;
  }
  return true;
}

/* Reads digits at *at, at most kDigitsMax of them, and moves *at behind them. */
static bool TakeNumber(const char** at, int64_t* number) {
  const char* start = *at;
  *number = 0;
  while (IsDigit(**at) && *at - start < kDigitsMax) *number = *number * 10 + (*(*at)++ - '0');
  return *at > start && !IsDigit(**at);
}

static const char kTrainingRoles[] = "pretrain, sft or mllm";

static bool IsTraining(const char* role) {
  return strcmp(role, "pretrain") == 0 || strcmp(role, "sft") == 0 || strcmp(role, "mllm") == 0;
}

static bool IsEvaluation(const char* role) {
  return strcmp(role, "eval") == 0 || strcmp(role, "metric") == 0 || strcmp(role, "precursor") == 0;
}

static bool CheckRole(const char* text, struct Fault* fault) {
  if (IsTraining(text) || IsEvaluation(text) || strcmp(text, "debug") == 0 ||
      strcmp(text, "other") == 0)
    return true;
  return Fail(fault,
              "no such role; use pretrain, sft, mllm, eval, metric, precursor, debug or other");
}

static bool CheckRun(const char* text, struct Fault* fault) {
  if (IsName(text, strlen(text))) return true;
  return Fail(fault, "no run name; use 1 to %d of A-Z a-z 0-9 . _ -", kNameMax);
}

/* The value travels in one line of JSON and is shown on terminals. */
static bool IsPrintable(const char* text) {
  for (; *text; ++text) {
    if ((unsigned char)*text < ' ' || *text == 0x7f) return false;
  }
  return true;
}

static bool CheckPath(const char* text, struct Fault* fault) {
  if (*text == '\0') return Fail(fault, "no path; name the checkpoint");
  if (strlen(text) > kPathMax)
    return Fail(fault, "longer than %d bytes; use a shorter path", kPathMax);
  if (!IsPrintable(text)) return Fail(fault, "has control characters; rename the folder");
  return true;
}

static bool CheckFolder(const char* text, struct Fault* fault) {
  if (*text != '/') return Fail(fault, "not absolute; write the whole path, from /");
  return CheckPath(text, fault);
}

static bool CheckSuites(const char* text, struct Fault* fault) {
  if (strlen(text) > kSuitesMax)
    return Fail(fault, "longer than %d bytes; name fewer suites", kSuitesMax);
  for (const char* start = text;; ++start) {
    const size_t length = strcspn(start, ",");
    if (!IsName(start, length))
      return Fail(fault,
                  "'%.*s' is no suite name; use name[,name...] of 1 to %d of A-Z a-z 0-9 . _ -",
                  (int)(length < kNameMax ? length : kNameMax), start, kNameMax);
    start += length;
    if (*start == '\0') return true;
  }
}

/* Slurm's size forms: digits with an optional fraction, then K, M, G or T, also as KB or KiB;
 * without one of these the number is in MiB. */
static bool TakeSize(const char** at, double* mebibytes) {
  int64_t whole = 0;
  if (!TakeNumber(at, &whole)) return false;
  double number = (double)whole;
  if (**at == '.') {
    ++*at;
    if (!IsDigit(**at)) return false;
    for (double place = 0.1; IsDigit(**at); place /= 10) number += place * (*(*at)++ - '0');
  }
  static const char kUnits[] = "kmgtKMGT";
  const char* unit = **at != '\0' ? strchr(kUnits, **at) : NULL;
  *mebibytes = number;
  if (unit == NULL) return true;
  ++*at;
  if (**at == 'i' && ((*at)[1] == 'B' || (*at)[1] == 'b')) ++*at;
  if (**at == 'B' || **at == 'b') ++*at;
  static const double kMebibytes[] = {1.0 / 1024, 1, 1024, 1024.0 * 1024};
  *mebibytes *= kMebibytes[(unit - kUnits) % 4];
  return true;
}

/* Takes "cpus=N" or "mem=SIZE"; each may be given once. */
static bool TakeLentPart(const char** at, int64_t* cpus, double* mebibytes) {
  if (strncmp(*at, "cpus=", 5) == 0 && *cpus < 0) {
    *at += 5;
    return TakeNumber(at, cpus);
  }
  if (strncmp(*at, "mem=", 4) == 0 && *mebibytes < 0) {
    *at += 4;
    return TakeSize(at, mebibytes);
  }
  return false;
}

static bool CheckLend(const char* text, struct Fault* fault) {
  static const char kForm[] = "write cpus=N,mem=SIZE, such as cpus=16,mem=200G";
  int64_t cpus = -1;
  double mebibytes = -1;
  const char* at = text;
  const bool parsed = TakeLentPart(&at, &cpus, &mebibytes) && *at++ == ',' &&
                      TakeLentPart(&at, &cpus, &mebibytes) && *at == '\0';
  if (!parsed) return Fail(fault, "cannot be read; %s", kForm);
  if (cpus < 1 || cpus > kLendCpusMax)
    return Fail(fault, "cpus is %lld, must be 1..%d; %s", (long long)cpus, kLendCpusMax, kForm);
  if (mebibytes <= 0 || mebibytes > 1e9)
    return Fail(fault, "mem must be more than 0 and below 1000T; %s", kForm);
  return true;
}

static bool IsNoLimit(const char* text) {
  static const char* const kWords[] = {"unlimited", "infinite"};
  for (size_t i = 0; i < 2; ++i) {
    size_t k = 0;
    while (text[k] && (text[k] | 0x20) == kWords[i][k]) ++k;
    if (text[k] == '\0' && kWords[i][k] == '\0') return true;
  }
  return false;
}

/* MM, MM:SS, HH:MM:SS, D-HH, D-HH:MM, D-HH:MM:SS and UNLIMITED, as sbatch(1) says under --time. */
static bool CheckTime(const char* text, struct Fault* fault) {
  if (IsNoLimit(text)) return true;
  const char* at = text;
  int64_t number = 0;
  bool good = TakeNumber(&at, &number);
  if (good && *at == '-') {
    ++at;
    good = TakeNumber(&at, &number);
  }
  for (int colons = 0; good && *at == ':'; ++colons) {
    ++at;
    good = colons < 2 && TakeNumber(&at, &number);
  }
  if (good && *at == '\0') return true;
  return Fail(fault,
              "no Slurm time; write MM, MM:SS, HH:MM:SS, D-HH, D-HH:MM, D-HH:MM:SS or UNLIMITED");
}

static bool CheckRecover(const char* text, struct Fault* fault) {
  if (strcmp(text, "off") == 0 || strcmp(text, "on") == 0) return true;
  const char* at = text;
  int64_t count = 0;
  if (TakeNumber(&at, &count) && *at == '\0' && count <= kRecoverMax) return true;
  return Fail(fault, "no restart budget; use off, on or a count of 0 to %d", kRecoverMax);
}

typedef bool (*ValueCheck)(const char* text, struct Fault* fault);

static const ValueCheck kChecks[kLlmOptionCount] = {
    CheckRole, CheckRun, CheckFolder, CheckSuites, CheckLend, CheckPath, CheckTime, CheckRecover,
};

static void CompoundMessage(const struct LlmValue* values, int option, const struct Fault* fault,
                            char message[kLlmMessageSize]) {
  const struct LlmOptionText* text = &kLlmOptionTexts[option];
  char quoted[kQuotedMax + 1];
  snprintf(quoted, sizeof quoted, "%s", values[option].text);
  /* A message is one line whatever was given. */
  for (char* c = quoted; *c; ++c) {
    if ((unsigned char)*c < ' ' || *c == 0x7f) *c = '?';
  }
  snprintf(message, kLlmMessageSize, "%s%s=%s: %s", values[option].from_environment ? "" : "--",
           values[option].from_environment ? text->variable : text->name, quoted, fault->text);
}

/* The first option that does not go with the others, or kLlmOptionCount. */
static int FindMisfit(const struct LlmValue* values, struct Fault* fault) {
  const char* role = values[kLlmRole].text;
  const bool training = role && IsTraining(role);
  const bool evaluation = role && IsEvaluation(role);
  static const enum LlmOption kOfTraining[] = {kLlmLend, kLlmCheckpoints, kLlmRecover};
  for (size_t i = 0; i < sizeof kOfTraining / sizeof *kOfTraining; ++i) {
    if (values[kOfTraining[i]].text && role && !training) {
      Fail(fault, "not possible with role %s; use it with role %s, or leave it out", role,
           kTrainingRoles);
      return (int)kOfTraining[i];
    }
  }
  if (values[kLlmCheckpoint].text && training) {
    Fail(fault,
         "not possible with role %s, which writes checkpoints; use --llm-checkpoints, or role eval",
         role);
    return kLlmCheckpoint;
  }
  if (values[kLlmCheckpoints].text && !values[kLlmRun].text) {
    Fail(fault, "its run has no name; add --llm-run=NAME");
    return kLlmCheckpoints;
  }
  if (values[kLlmSuite].text && !evaluation && !values[kLlmCheckpoints].text &&
      !values[kLlmCheckpoint].text) {
    Fail(fault, "no checkpoints to run it on; add --llm-checkpoints=FOLDER");
    return kLlmSuite;
  }
  return kLlmOptionCount;
}

bool LlmCheck(const struct LlmValue values[kLlmOptionCount], char message[kLlmMessageSize]) {
  struct Fault fault = {""};
  int option = 0;
  while (option < kLlmOptionCount &&
         (values[option].text == NULL || kChecks[option](values[option].text, &fault)))
    ++option;
  if (option == kLlmOptionCount) option = FindMisfit(values, &fault);
  if (option == kLlmOptionCount) return true;
  CompoundMessage(values, option, &fault, message);
  return false;
}
