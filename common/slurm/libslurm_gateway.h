// The real Slurm, through libslurm for reading and changing jobs and through sbatch for submitting.
//
// sbatch and not slurm_submit_batch_job(): a submission then passes the site's cli_filter and SPANK
// plugins (pyxis, ours) exactly as a user's does, and the site's own arguments are sbatch's words.
#pragma once

#include <memory>

#include "common/slurm/gateway.h"

namespace coeval::slurm {

/// SLURM_CONF names the cluster, as for every Slurm command. At most one object per process:
/// libslurm's state is global, and it ends the process when its configuration cannot be read; so
/// that is checked first (kNotFound, naming the file).
Result<std::unique_ptr<Gateway>> OpenLibslurmGateway();

}  // namespace coeval::slurm
