/* The --llm-* options: their names, the values they take, and which of them go together.
 *
 * Pure: no environment, no output, no Slurm. Nothing here keeps a pointer that it is given. Safe to
 * call from any thread. plugin/coeval_job_submit.lua has the same rules for what reaches slurmctld;
 * tests/plugin/ runs both over one table of cases.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum LlmOption {
  kLlmRole,
  kLlmRun,
  kLlmCheckpoints,
  kLlmSuite,
  kLlmLend,
  kLlmCheckpoint,
  kLlmDeadline,
  kLlmRecover,
  kLlmOptionCount,
};

struct LlmOptionText {
  const char* name;     /* Without the leading dashes. */
  const char* variable; /* The environment variable that says the same. */
  const char* argument; /* One word for the help text. */
  const char* usage;
};

extern const struct LlmOptionText kLlmOptionTexts[kLlmOptionCount];

/* One value and where it was given, for messages. */
struct LlmValue {
  const char* text; /* NULL: not given. */
  bool from_environment;
};

/* A message always fits: values are cut when quoted. */
enum { kLlmMessageSize = 512 };

/* Checks every given value, then their combination. False: `message` is one line that names the
 * option or variable, the value and the remedy. */
bool LlmCheck(const struct LlmValue values[kLlmOptionCount], char message[kLlmMessageSize]);

#ifdef __cplusplus
}
#endif
