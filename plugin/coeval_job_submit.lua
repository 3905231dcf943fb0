-- What coeval does to a job when it is submitted: checks its --llm-* options, writes them to
-- AdminComment, gives it the QOS and the initial SiteFactor of its role, and takes care that an
-- --exclusive job leaves what its nodes lend to evaluation.
--
-- For a site's own job_submit.lua:
--
--   local coeval = dofile("/etc/slurm/coeval_job_submit.lua")
--   coeval.setup{ partitions = { ... } }           -- optional, see configs/slurm/coeval_site.lua
--   function slurm_job_submit(job_desc, part_list, uid)
--     ...                                          -- the site's own rules
--     return coeval.submit(job_desc, part_list, uid)
--   end
--   function slurm_job_modify(job_desc, job_rec, part_list, uid)
--     return coeval.modify(job_desc, job_rec, part_list, uid)
--   end
--
-- It runs inside slurmctld, under its locks: no file, no network, no process, no loop over jobs. A
-- fault in here is logged and the job goes in as if coeval were not installed. Lua 5.1 to 5.4.
-- The rules for values are those of plugin/llm_options.c; a client may lack the plugin or lie.

local M = {}

-- Role -> QOS, initial SiteFactor (added to the multifactor priority; coevald takes over later) and
-- force: whether the QOS replaces one that the user chose. A role without a line changes nothing.
M.roles = {
  pretrain = { qos = "pretrain", site_factor = 1000 },
  sft = { qos = "sft", site_factor = 500 },
  mllm = { qos = "mllm", site_factor = 500 },
  debug = { qos = "debug", site_factor = 300 },
  metric = { qos = "metric", site_factor = 200 },
  precursor = { qos = "precursor", site_factor = 200 },
  eval = { qos = "eval", site_factor = 100 },
}

-- Partition -> what one node gives to its jobs (MaxCPUsPerNode, MaxMemPerNode) and what the node
-- lends beside that, through another partition.
M.partitions = {}
M.default_partition = nil

local OPTIONS = { "role", "run", "checkpoints", "suite", "lend", "checkpoint", "deadline", "recover" }
local PREFIX = "_SLURM_SPANK_OPTION_coeval_llm_"
local NAME = "^[A-Za-z0-9._-]+$"
local MAX_ENTRIES = 4096
local MAX_NAME, MAX_PATH, MAX_SUITES, MAX_CPUS, MAX_RECOVER = 64, 4095, 1024, 65535, 1000
local MIB = { K = 1 / 1024, M = 1, G = 1024, T = 1024 * 1024 }
local TRAINING = { pretrain = true, sft = true, mllm = true }
local EVALUATION = { eval = true, metric = true, precursor = true }

-- Each reader returns the value for the tag, or nil and what is wrong with its remedy.
local read = {}

function read.role(text)
  if TRAINING[text] or EVALUATION[text] or text == "debug" or text == "other" then
    return text
  end
  return nil, "no such role; use pretrain, sft, mllm, eval, metric, precursor, debug or other"
end

local function is_name(text)
  return #text <= MAX_NAME and text:match(NAME) and text ~= "." and text ~= ".."
end

function read.run(text)
  if is_name(text) then
    return text
  end
  return nil, "no run name; use 1 to 64 of A-Z a-z 0-9 . _ -"
end

function read.checkpoint(text)
  if text == "" then
    return nil, "no path; name the checkpoint"
  elseif #text > MAX_PATH then
    return nil, "longer than 4095 bytes; use a shorter path"
  elseif text:find("%c") then
    return nil, "has control characters; rename the folder"
  end
  return text
end

function read.checkpoints(text)
  if text:sub(1, 1) ~= "/" then
    return nil, "not absolute; write the whole path, from /"
  end
  return read.checkpoint(text)
end

function read.suite(text)
  if #text > MAX_SUITES then
    return nil, "longer than 1024 bytes; name fewer suites"
  end
  for name in (text .. ","):gmatch("([^,]*),") do
    if not is_name(name) then
      return nil, "'" .. name:sub(1, MAX_NAME) .. "' is no suite name; use name[,name...] of 1 to 64 of A-Z a-z 0-9 . _ -"
    end
  end
  return text
end

local function read_size(text)
  local number, unit = text:match("^(%d+%.?%d*)([KkMmGgTt]?)i?[Bb]?$")
  if not number or number:sub(-1) == "." or (unit == "" and text:find("[iBb]")) then
    return nil
  end
  -- Slurm counts memory in whole MiB.
  return math.ceil(tonumber(number) * (MIB[unit:upper()] or 1))
end

function read.lend(text)
  local form = "write cpus=N,mem=SIZE, such as cpus=16,mem=200G"
  local cpus, size = text:match("^cpus=(%d+),mem=([^,]+)$")
  if not cpus then
    size, cpus = text:match("^mem=([^,]+),cpus=(%d+)$")
  end
  local mem_mb = size and read_size(size)
  cpus = tonumber(cpus)
  if not mem_mb then
    return nil, "cannot be read; " .. form
  elseif cpus < 1 or cpus > MAX_CPUS then
    return nil, string.format("cpus is %d, must be 1..%d; %s", cpus, MAX_CPUS, form)
  elseif mem_mb < 1 or mem_mb > 1e9 then
    return nil, "mem must be more than 0 and below 1000T; " .. form
  end
  return { cpus = cpus, mem_mb = mem_mb }
end

-- Seconds of one of Slurm's time forms, false for "no limit", nil for anything else.
local function read_time(text)
  local lower = text:lower()
  if lower == "unlimited" or lower == "infinite" then
    return false
  end
  local days, rest = text:match("^(%d+)%-(.+)$")
  local numbers = {}
  for number in ((rest or text) .. ":"):gmatch("([^:]*):") do
    if not number:match("^%d+$") or #number > 9 or #numbers == 3 then
      return nil
    end
    numbers[#numbers + 1] = tonumber(number)
  end
  if days and #days > 9 then
    return nil
  end
  local a, b, c = numbers[1], numbers[2] or 0, numbers[3] or 0
  local seconds
  if days then
    seconds = tonumber(days) * 86400 + a * 3600 + b * 60 + c
  elseif numbers[3] then
    seconds = a * 3600 + b * 60 + c
  else
    seconds = a * 60 + b
  end
  return seconds > 0 and seconds
end

function read.deadline(text)
  local seconds = read_time(text)
  if seconds == nil then
    return nil, "no Slurm time; write MM, MM:SS, HH:MM:SS, D-HH, D-HH:MM, D-HH:MM:SS or UNLIMITED"
  end
  return seconds
end

function read.recover(text)
  local count = text:match("^%d+$") and #text <= 9 and tonumber(text)
  if text == "on" then
    return -1
  elseif text == "off" then
    return 0
  elseif count and count <= MAX_RECOVER then
    return count
  end
  return nil, "no restart budget; use off, on or a count of 0 to 1000"
end

-- The options that slurmctld was told of, as text. Only entries of ours are looked at.
local function collect(job_desc)
  local env, size = job_desc.spank_job_env, tonumber(job_desc.spank_job_env_size) or 0
  local given, any = {}, false
  for i = 0, math.min(size, MAX_ENTRIES) - 1 do
    local name, value = tostring(env[i]):match("^" .. PREFIX .. "([a-z]+)=(.*)$")
    if name and read[name] then
      given[name], any = value, true
    end
  end
  return given, any
end

local function fault(name, value, what)
  return string.format("--llm-%s=%s: %s", name, value:gsub("%c", "?"):sub(1, 120), what)
end

-- Which of the options does not go with the others.
local function misfit(given, tag)
  local role = tag.role
  for _, name in ipairs({ "lend", "checkpoints", "recover" }) do
    if given[name] and role and not TRAINING[role] then
      return fault(name, given[name],
        "not possible with role " .. role .. "; use it with role pretrain, sft or mllm, or leave it out")
    end
  end
  if given.checkpoint and TRAINING[role] then
    return fault("checkpoint", given.checkpoint, "not possible with role " .. role
      .. ", which writes checkpoints; use --llm-checkpoints, or role eval")
  end
  if given.checkpoints and not given.run then
    return fault("checkpoints", given.checkpoints, "its run has no name; add --llm-run=NAME")
  end
  if given.suite and not EVALUATION[role] and not given.checkpoints and not given.checkpoint then
    return fault("suite", given.suite, "no checkpoints to run it on; add --llm-checkpoints=FOLDER")
  end
  return nil
end

-- The options as values, or nil and one line for the user.
function M.check(given)
  local tag = {}
  for _, name in ipairs(OPTIONS) do
    if given[name] then
      local value, what = read[name](given[name])
      if value == nil then
        return nil, fault(name, given[name], what)
      end
      tag[name] = value
    end
  end
  local line = misfit(given, tag)
  if line then
    return nil, line
  end
  return tag
end

local function quote(text)
  return '"' .. text:gsub('[\\"]', "\\%0") .. '"'
end

-- One compact JSON object, its keys always in this order; docs/api.md shows it.
function M.format(tag)
  local parts = { '{"coeval":1' }
  local function add(key, text)
    if text then
      parts[#parts + 1] = string.format('"%s":%s', key, text)
    end
  end
  for _, name in ipairs({ "role", "run", "checkpoints", "suite" }) do
    add(name, tag[name] and quote(tag[name]))
  end
  add("lend", tag.lend and string.format('{"cpus":%d,"mem_mb":%d}', tag.lend.cpus, tag.lend.mem_mb))
  add("checkpoint", tag.checkpoint and quote(tag.checkpoint))
  add("deadline_s", tag.deadline and string.format("%d", tag.deadline))
  add("recover", tag.recover and string.format("%d", tag.recover))
  return table.concat(parts, ",") .. "}"
end

local function apply_role(job_desc, role)
  local line = M.roles[role]
  if not line then
    return
  end
  if line.qos and (line.force or not job_desc.qos or job_desc.qos == "") then
    job_desc.qos = line.qos
  end
  if line.site_factor then
    job_desc.site_factor = line.site_factor
  end
end

-- More than its nodes can lend would be promised to evaluation and given to nobody.
local function check_lend(lend, place, partition)
  if not lend or not place or not place.lend then
    return nil
  end
  if lend.cpus > place.lend.cpus or lend.mem_mb > place.lend.mem_mb then
    return string.format("--llm-lend=cpus=%d,mem=%dM: a node of partition %s lends at most %d CPUs and %d MiB; ask for less",
      lend.cpus, lend.mem_mb, partition, place.lend.cpus, place.lend.mem_mb)
  end
  return nil
end

-- A whole node would include what it lends. Instead the job gets all that the partition gives of a
-- node, which keeps every other job of the partition out just as well.
local function share_node(job_desc, place)
  if job_desc.shared ~= 0 then
    return
  end
  job_desc.shared = slurm.NO_VAL16 or 65534
  job_desc.pn_min_cpus = place.cpus
  local asked = job_desc.min_mem_per_node
  if not job_desc.min_mem_per_cpu and (not asked or asked == 0 or asked > place.mem_mb) then
    job_desc.min_mem_per_node = place.mem_mb
  end
end

-- The first of the job's partitions that lends, and its name.
local function find_place(job_desc)
  for name in (job_desc.partition or M.default_partition or ""):gmatch("[^,]+") do
    if M.partitions[name] then
      return M.partitions[name], name
    end
  end
  return nil
end

local function refuse(line)
  slurm.log_user("coeval: %s", line)
  return slurm.ERROR
end

local function submit(job_desc)
  -- AdminComment is where coeval reads a job's tag: nobody writes it but this function.
  if job_desc.admin_comment then
    job_desc.admin_comment = ""
  end
  local given, any = collect(job_desc)
  local place, partition = find_place(job_desc)
  local tag = {}
  if any then
    local line
    tag, line = M.check(given)
    line = line or check_lend(tag.lend, place, partition)
    if line then
      return refuse(line)
    end
    job_desc.admin_comment = M.format(tag)
    apply_role(job_desc, tag.role)
  end
  if place then
    share_node(job_desc, place)
  end
  return slurm.SUCCESS
end

-- Runs a function of ours; whatever goes wrong in it, the site's users can submit.
local function protected(what, call, ...)
  local ok, result = pcall(call, ...)
  if ok then
    return result
  end
  slurm.log_error("coeval: %s failed, the job is treated as if coeval were absent: %s", what, tostring(result))
  return slurm.SUCCESS
end

function M.setup(site)
  for _, key in ipairs({ "roles", "partitions", "default_partition" }) do
    if site[key] ~= nil then
      M[key] = site[key]
    end
  end
  return M
end

function M.submit(job_desc, part_list, uid)
  return protected("submit", submit, job_desc, part_list, uid)
end

-- Slurm lets only operators change AdminComment; they may do so, as coevald does.
function M.modify(job_desc, job_rec, part_list, uid)
  return slurm.SUCCESS
end

return M
