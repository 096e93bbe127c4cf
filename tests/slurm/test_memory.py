"""Memory limits of jobs. A run that reaches one has no result, and is run again."""
import os

import pytest
from workplace import experiment

# A model whose state takes 270 MB. Before a run starts, a job needs up to 150 MB to plan it.
LARGE = """device: cpu, threads_per_rank: 1, train.warmup_steps_excluded: 0, data.sequence_length: 16,
  batch.size_per_rank: 1, model.config: {num_hidden_layers: 4, hidden_size: 512,
    intermediate_size: 2048, num_attention_heads: 8, num_key_value_heads: 8, vocab_size: 1024}"""
LIMITS = {
    "cgroups": {"TaskPlugin": "task/cgroup", "ConstrainRAMSpace": "yes"},
    "OverMemoryKill": {"JobAcctGatherType": "jobacct_gather/linux", "JobAcctGatherFrequency": 1,
                       "JobAcctGatherParams": "OverMemoryKill"},
}


@pytest.fixture(params=LIMITS)
def limiting_cluster(request, own_cluster):
    if request.param == "cgroups" and not os.access("/sys/fs/cgroup/memory", os.W_OK):
        pytest.skip("no cgroup can be made")
    return own_cluster(DefMemPerCPU=200, **LIMITS[request.param])


def test_a_job_s_memory_limit_is_no_answer(limiting_cluster, workplace):
    # Slurm needs the time of some steps to check the memory.
    work = workplace(limiting_cluster, experiment(["{name: run}"], f"{LARGE}, train.steps: 40"))

    def call(*more):
        ended = work.call(*work.with_trainer(*more), status=None)
        [row] = work.query("select status, reason from runs")
        return ended, row["status"], row["reason"]

    for options in (), ("--set", "slurm.mem=220M"):
        ended, status, reason = call(*options)
        assert (ended.returncode, status) == (1, "out_of_host_memory"), ended.stderr
        assert reason.endswith("; raise slurm.mem"), reason
        assert "not fit" not in ended.stdout
    ended, status, _ = call("--set", "slurm.mem=2000M")
    assert (ended.returncode, status) == (0, "finished"), ended.stderr
    assert work.attempts() == {"run": ["out_of_host_memory", "out_of_host_memory", "finished"]}
