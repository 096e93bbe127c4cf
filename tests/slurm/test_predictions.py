"""Calibrations in a job, and predictions for runs in jobs."""
import json

from workplace import TINY, experiment, modes

STEPS = f"{TINY}, train.steps: 2"


def test_a_job_calibrates_where_it_runs(cluster, workplace):
    work = workplace(cluster, experiment(["{name: FSDP, strategy: {kind: fsdp, ranks: 2}}"], STEPS))
    # Hides other tests' measurements, because the calibration would not begin beside them.
    program = (f"TMPDIR={work.folder} {work.runner} calibrate {work.file} --trainer {work.trainer} "
               f"--results {work.results} --rounds 1")
    output = work.folder / "job.out"
    ended = cluster.call("sbatch", "--wait", "--ntasks=2", "--time=5",
                         f"--chdir={work.folder}", f"--output={output}", f"--wrap={program}")
    assert ended.returncode == 0, ended.stderr + output.read_text()
    assert "calibrated in" in output.read_text()
    [file] = work.results.glob("calibrations/*/*.json")
    calibration = json.loads(file.read_text())
    assert calibration["ranks"] == 2
    assert any(time["work"].startswith("all_gather") for time in calibration["times"])


@modes
def test_a_search_in_jobs_begins_where_the_prediction_says(cluster, workplace, mode):
    work = workplace(cluster, experiment(["{name: single}"], f"{STEPS}, memory_limit_gib: 0.003",
                                         f"time: 10, mode: {mode}")
                     + "sweep: {double: {batch.size_per_rank: {from: 1, refine: true}}}\n")
    ended = work.call(*work.with_trainer())
    found = {int(point.split("=")[1]): status for point, status in work.statuses().items()}
    [largest, next_one] = sorted(found)
    assert next_one == largest + 1 and largest > 4
    assert (found[largest], found[next_one]) == ("finished", "out_of_memory")
    assert f"batch.size_per_rank: {largest} is predicted to be the largest that fits" in ended.stdout + ended.stderr
    table = work.call("report", work.file, "--wide").stdout
    assert "The predicted allocated memory was off by 0.0 %" in table
