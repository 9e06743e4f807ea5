-- JobSubmitPlugins=lua of slurm.conf, beside which this file lies: a batch script that starts torch on several nodes and
-- does not check them gets a hint. The job is submitted in any case.
function slurm_job_submit(job, partitions, uid)
    local several = job.min_nodes ~= nil and job.min_nodes ~= slurm.NO_VAL and job.min_nodes > 1
    if several and job.script ~= nil and job.script:find("torch") and not job.script:find("distdoctor") then
        slurm.log_user("This job does not check its %d nodes. Add before its first srun:\n    srun --kill-on-bad-exit=0 distdoctor check || exit", job.min_nodes)
    end
    return slurm.SUCCESS
end

function slurm_job_modify(job, record, partitions, uid)
    return slurm.SUCCESS
end
