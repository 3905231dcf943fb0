-- A site's answers for coeval_job_submit.lua; goes beside slurm.conf. This one belongs to the two
-- partitions of lend.conf: nodes of 64 CPUs and 1000000 MiB, a quarter of which is lent.
return {
  -- The partition of jobs that name none (Default=YES in slurm.conf).
  default_partition = "gpu",
  partitions = {
    -- cpus, mem_mb: MaxCPUsPerNode and MaxMemPerNode of the partition, which an --exclusive job gets.
    -- lend: MaxCPUsPerNode and MaxMemPerNode of the partition that lends the rest.
    gpu = { cpus = 48, mem_mb = 750000, lend = { cpus = 16, mem_mb = 250000 } },
  },
  -- roles = { eval = { qos = "low", site_factor = 0, force = true } },    replaces the built-in table
}
