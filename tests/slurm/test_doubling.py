"""A key is doubled until a run is out of memory, across jobs and inside of one job."""
from workplace import experiment, modes

SWEEP = "sweep: {double: {batch.size_per_rank: {from: 1, refine: true}}}\n"
FOUND = {"1": "finished", "2": "finished", "4": "finished", "5": "finished",
         "6": "out_of_memory", "8": "out_of_memory"}


def work_that_doubles(workplace, cluster, mode):
    return workplace(cluster, experiment(
        ["{name: FSDP}"], "device: cpu, train.steps: 2, memory_limit_gib: 1",
        f"mode: {mode}, environment: ['STUB_RULES=batch_above=5,out_of_memory=no room']") + SWEEP)


def values(work):
    return {point.split("=")[1]: status for point, status in work.statuses().items()}


@modes
def test_the_largest_batch_is_found(cluster, workplace, mode):
    work = work_that_doubles(workplace, cluster, mode)
    ended = work.call(*work.with_stub())
    assert dict(sorted(values(work).items())) == FOUND
    assert "largest batch.size_per_rank that fits: 5 for FSDP (6 does not)" in ended.stdout
    assert all(len(statuses) == 1 for statuses in work.attempts().values())


def test_one_job_doubles_a_key_for_each_of_the_repeats_of_the_command_line(cluster, workplace):
    work = work_that_doubles(workplace, cluster, "allocation")
    work.call(*work.with_stub("--repeats", "2"))
    of_repeats = {f"{value} #{repeat}": status for repeat in (1, 2) for value, status in FOUND.items()}
    assert values(work) == of_repeats
    assert len(work.query("select * from jobs")) == 1


def test_detached_the_next_call_goes_on(cluster, workplace):
    work = work_that_doubles(workplace, cluster, "per_run")
    for _ in range(2):
        work.call(*work.with_stub("--detach"))
        cluster.wait_until("the job has ended", lambda: cluster.queue() == [])
    work.call("status", work.file)
    assert values(work) == {"1": "finished", "2": "finished"}
    work.call(*work.with_stub())
    assert dict(sorted(values(work).items())) == FOUND
