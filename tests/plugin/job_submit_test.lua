-- Runs the module on tables that look like slurmctld's. usage: lua job_submit_test.lua MODULE CASES

local logged, told = {}, {}
slurm = {
  SUCCESS = 0, ERROR = -1, NO_VAL16 = 65534,
  log_error = function(...) logged[#logged + 1] = string.format(...) end,
  log_user = function(...) told[#told + 1] = string.format(...) end,
}
local coeval = dofile(arg[1])
coeval.setup{
  default_partition = "gpu",
  partitions = { gpu = { cpus = 48, mem_mb = 750000, lend = { cpus = 16, mem_mb = 250000 } } },
}

local failures, checks = 0, 0
local function expect(what, got, wanted)
  checks = checks + 1
  if got ~= wanted then
    failures = failures + 1
    print(string.format("FAILED %s\n  got    %s\n  wanted %s", what, tostring(got), tostring(wanted)))
  end
end

-- A job as sbatch describes it; `options` is as in cases.tsv.
local function job(options, fields)
  local env, size = {}, 0
  for option in options:gmatch("%S+") do
    env[size], size = "_SLURM_SPANK_OPTION_coeval_llm_" .. option, size + 1
  end
  env[size], size = "_SLURM_SPANK_OPTION_other_llm_role=pretrain", size + 1
  local made = { spank_job_env = env, spank_job_env_size = size, shared = slurm.NO_VAL16 }
  for key, value in pairs(fields or {}) do
    made[key] = value
  end
  return made
end

local function submit(options, fields)
  logged, told = {}, {}
  local made = job(options, fields)
  return coeval.submit(made, {}, 1000), made
end

for line in io.lines(arg[2]) do
  local options, wanted = line:match("^([^#\t][^\t]*)\t(.*)$")
  if options and wanted:sub(1, 1) == "!" then
    local rc, made = submit(options)
    expect(options .. " is refused", rc, slurm.ERROR)
    expect(options .. " says why: " .. tostring(told[1]), told[1] and told[1]:find(wanted:sub(2), 1, true) ~= nil, true)
    expect(options .. " is not tagged", made.admin_comment, nil)
  elseif options then
    -- The sample site lends less than some cases ask; the cases are about values.
    local rc, made = submit(options, { partition = "elsewhere" })
    expect(options .. " is accepted", rc, slurm.SUCCESS)
    expect(options, made.admin_comment, wanted)
  end
end

do -- A job without our options is left alone, but for a comment that only we may write.
  local rc, made = submit("", { admin_comment = '{"coeval":1,"role":"pretrain"}', qos = "q" })
  expect("plain job", rc, slurm.SUCCESS)
  expect("forged comment is cleared", made.admin_comment, "")
  expect("QOS of a plain job", made.qos, "q")
  expect("site factor of a plain job", made.site_factor, nil)
end

do
  local _, made = submit("role=eval", { admin_comment = '{"coeval":1,"role":"pretrain"}' })
  expect("forged comment is replaced", made.admin_comment, '{"coeval":1,"role":"eval"}')
  expect("QOS by role", made.qos, "eval")
  expect("site factor by role", made.site_factor, 100)
  _, made = submit("role=eval", { qos = "mine" })
  expect("the user's QOS stays", made.qos, "mine")
  coeval.roles.eval.force = true
  _, made = submit("role=eval", { qos = "mine" })
  expect("unless the table says otherwise", made.qos, "eval")
  coeval.roles.eval.force = nil
  _, made = submit("role=other")
  expect("a role without a line", made.qos, nil)
end

do -- --exclusive leaves what the nodes lend.
  local _, made = submit("role=pretrain lend=cpus=16,mem=200G", { shared = 0 })
  expect("exclusive no more", made.shared, slurm.NO_VAL16)
  expect("all CPUs that are not lent", made.pn_min_cpus, 48)
  expect("all memory that is not lent", made.min_mem_per_node, 750000)
  _, made = submit("role=pretrain", { shared = 0, partition = "gpu", min_mem_per_node = 1000 })
  expect("a smaller wish for memory stays", made.min_mem_per_node, 1000)
  _, made = submit("role=pretrain", { shared = 0, min_mem_per_cpu = 1000 })
  expect("memory by CPU stays", made.min_mem_per_node, nil)
  _, made = submit("", { shared = 0, partition = "other" })
  expect("other partitions are not ours", made.shared, 0)
  _, made = submit("", { shared = 0, partition = "other,gpu" })
  expect("one of several partitions is ours", made.pn_min_cpus, 48)
  _, made = submit("role=pretrain", { shared = 2 })
  expect("--exclusive=user is not ours", made.shared, 2)
  local rc = submit("role=pretrain lend=cpus=17,mem=1G")
  expect("more than the node lends", rc, slurm.ERROR)
  expect("says how much", told[1]:find("at most 16 CPUs", 1, true) ~= nil, true)
end

do -- Whatever goes wrong in here, jobs go in.
  logged = {}
  local rc = coeval.submit(setmetatable({}, { __index = function() error("broken") end }), {}, 1000)
  expect("a fault of ours", rc, slurm.SUCCESS)
  expect("is logged", #logged, 1)
  rc = coeval.submit({ spank_job_env_size = 0 }, {}, 1000)
  expect("no spank environment", rc, slurm.SUCCESS)
  rc = coeval.modify({}, {}, {}, 1000)
  expect("modify", rc, slurm.SUCCESS)
end

do -- What a user typed is never read as a format or a line break by slurmctld.
  local rc = submit("role=%s%n\27")
  expect("control characters and format directives", rc, slurm.ERROR)
  expect("message", told[1]:find("%s%n?", 1, true) ~= nil, true)
end

print(string.format("%d checks, %d failures", checks, failures))
os.exit(failures == 0 and 0 or 1)
