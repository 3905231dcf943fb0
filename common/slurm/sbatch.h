// How a job is said to sbatch(1), and what its answer means. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/slurm/gateway.h"

namespace coeval::slurm {

/// The sbatch command line for a job, without the script (which goes to standard input).
std::vector<std::string> SbatchArguments(const BatchJob& job);

/// A submission succeeded when sbatch ended with status 0 *and* printed a job id; the word "error"
/// in between means nothing (field cases P1, G27).
Result<cluster::JobId> ReadSbatchAnswer(const ProcessExit& exit);

}  // namespace coeval::slurm
