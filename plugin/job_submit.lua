-- For a site that has no job_submit.lua of its own: does what coeval wants, and nothing else.
-- Install it beside slurm.conf together with coeval_job_submit.lua and, where nodes lend CPUs,
-- coeval_site.lua; then JobSubmitPlugins=lua. slurmctld reads it again when it changes.

local here = debug.getinfo(1, "S").source:match("^@(.*/)") or "/etc/slurm/"
local coeval = dofile(here .. "coeval_job_submit.lua")

-- Read once, when slurmctld loads this script.
local site = loadfile(here .. "coeval_site.lua")
if site then
  coeval.setup(site())
end

function slurm_job_submit(job_desc, part_list, uid)
  return coeval.submit(job_desc, part_list, uid)
end

function slurm_job_modify(job_desc, job_rec, part_list, uid)
  return coeval.modify(job_desc, job_rec, part_list, uid)
end

return slurm.SUCCESS
