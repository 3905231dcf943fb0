/* Slurm calls the three hooks below; what a value may be is in llm_options.c.
 *
 * sbatch, salloc and srun parse the options, and this plugin refuses a submission whose values make
 * no sense. On compute nodes it only completes the environment, and never reports a fault: a
 * non-zero return there would drain the node. slurmd and the prolog have no use for it.
 */
#include <slurm/spank.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugin/llm_options.h"

SPANK_PLUGIN(coeval, 1)

/* How Slurm itself passes a used option on to slurmctld, with `_` for `-` in the option's name. */
#define OPTION_VARIABLE_PREFIX "_SLURM_SPANK_OPTION_coeval_"

/* Says which of our variables a job has from its own submission. A job submitted from inside a
 * training job would otherwise inherit that one's role. */
static const char kInherited[] = "COEVAL_INHERITED";
/* ASCII's unit separator: no value has it, and a variable of several lines upsets some launchers.
 */
#define SEPARATOR "\037"

enum { kVariableMax = 96, kValueMax = 4096 };

/* What the command line or an #SBATCH line said; the last one wins, as with Slurm's own options.
 * The array is the one thing that outlives a hook, as Slurm gives option callbacks no place of
 * their own. */
static char* given[kLlmOptionCount];

static int KeepValue(int option, const char* text, int remote) {
  if (remote || option < 0 || option >= kLlmOptionCount || text == NULL) return ESPANK_SUCCESS;
  free(given[option]);
  given[option] = strdup(text);
  return ESPANK_SUCCESS;
}

static struct spank_option MakeOption(int option) {
  const struct LlmOptionText* text = &kLlmOptionTexts[option];
  return (struct spank_option){
      .name = (char*)text->name,
      .arginfo = (char*)text->argument,
      .usage = (char*)text->usage,
      .has_arg = 1,
      .val = option,
      .cb = KeepValue,
  };
}

static void OptionVariable(int option, char variable[kVariableMax]) {
  snprintf(variable, kVariableMax, OPTION_VARIABLE_PREFIX "%s", kLlmOptionTexts[option].name);
  for (char* c = variable; *c; ++c) {
    if (*c == '-') *c = '_';
  }
}

/* Slurm hands the options of a batch job to its script as SLURM_SPANK_*, and an sbatch in there
 * would take them for its own. */
static void ForgetOptionsOfEnclosingJob(void) {
  for (int i = 0; i < kLlmOptionCount; ++i) {
    char variable[kVariableMax], inherited[kVariableMax + sizeof "SLURM_SPANK_"];
    OptionVariable(i, variable);
    snprintf(inherited, sizeof inherited, "SLURM_SPANK_%s", variable);
    unsetenv(inherited);
  }
}

static void RegisterOptions(spank_t spank) {
  for (int i = 0; i < kLlmOptionCount; ++i) {
    struct spank_option option = MakeOption(i);
    if (spank_option_register(spank, &option) != ESPANK_SUCCESS)
      slurm_debug("coeval: option --%s could not be registered", option.name);
  }
}

/* True if `NAME=value` is one of the entries of COEVAL_INHERITED. */
static bool IsInherited(const char* inherited, const char* name, const char* value) {
  const size_t name_length = strlen(name), value_length = strlen(value);
  for (const char* entry = inherited; entry && *entry; entry += strspn(entry, SEPARATOR)) {
    const size_t length = strcspn(entry, SEPARATOR);
    if (length == name_length + 1 + value_length && strncmp(entry, name, name_length) == 0 &&
        entry[name_length] == '=' && strncmp(entry + name_length + 1, value, value_length) == 0)
      return true;
    entry += length;
  }
  return false;
}

/* Command line, else environment; an empty variable is as good as none. */
static void CollectValues(struct LlmValue values[kLlmOptionCount]) {
  const char* inherited = getenv(kInherited);
  for (int i = 0; i < kLlmOptionCount; ++i) {
    const char* name = kLlmOptionTexts[i].variable;
    const char* variable = getenv(name);
    if (variable && (*variable == '\0' || IsInherited(inherited, name, variable))) variable = NULL;
    values[i].from_environment = given[i] == NULL && variable != NULL;
    values[i].text = given[i] ? given[i] : variable;
  }
}

/* Passes a value on in the two ways that Slurm offers here: job_desc.spank_job_env for job_submit,
 * and our own environment, which becomes the job's. */
static void PassOn(spank_t spank, int option, const char* text) {
  const struct LlmOptionText* names = &kLlmOptionTexts[option];
  if (text == NULL) {
    unsetenv(names->variable);
    return;
  }
  char variable[kVariableMax];
  OptionVariable(option, variable);
  if (spank_job_control_setenv(spank, variable, text, 1) != ESPANK_SUCCESS)
    slurm_error("coeval: %s cannot be passed on; this job runs as if it had not been given",
                names->name);
  setenv(names->variable, text, 1);
}

static void PassOnAll(spank_t spank, const struct LlmValue values[kLlmOptionCount]) {
  char entries[kLlmOptionCount * (kValueMax + kVariableMax)];
  size_t used = 0;
  for (int i = 0; i < kLlmOptionCount; ++i) {
    /* The value may be the variable that setenv replaces. */
    char* text = values[i].text ? strdup(values[i].text) : NULL;
    if (text)
      used += (size_t)snprintf(entries + used, sizeof entries - used, "%s=%s" SEPARATOR,
                               kLlmOptionTexts[i].variable, text);
    PassOn(spank, i, text);
    free(text);
  }
  if (used > 0)
    setenv(kInherited, entries, 1);
  else
    unsetenv(kInherited);
}

int slurm_spank_init(spank_t spank, int argc, char* argv[]) {
  (void)argc;
  (void)argv;
  switch (spank_context()) {
    case S_CTX_ALLOCATOR:
    case S_CTX_LOCAL:
      ForgetOptionsOfEnclosingJob();
      RegisterOptions(spank);
      break;
    case S_CTX_REMOTE:
      RegisterOptions(spank);
      break;
    default:
      break;
  }
  return ESPANK_SUCCESS;
}

int slurm_spank_init_post_opt(spank_t spank, int argc, char* argv[]) {
  (void)argc;
  (void)argv;
  const spank_context_t context = spank_context();
  if (context != S_CTX_ALLOCATOR && context != S_CTX_LOCAL) return ESPANK_SUCCESS;
  /* srun inside a job starts a step of it: the job was checked when it was submitted. */
  if (context == S_CTX_LOCAL && getenv("SLURM_JOB_ID")) return ESPANK_SUCCESS;
  struct LlmValue values[kLlmOptionCount];
  char message[kLlmMessageSize];
  CollectValues(values);
  if (!LlmCheck(values, message)) {
    slurm_error("coeval: %s", message);
    /* Slurm ignores what this hook of an optional plugin returns, and every plugin line of ours is
     * optional. This process is sbatch, salloc or srun and has submitted nothing yet. */
    exit(EXIT_FAILURE);
  }
  PassOnAll(spank, values);
  return ESPANK_SUCCESS;
}
