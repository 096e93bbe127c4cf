"""tensorboard writes event files that TensorBoard itself reads."""

import re
import struct

import pytest
from tensorboard.backend.event_processing import event_accumulator
from tensorboard.compat.tensorflow_stub import errors, pywrap_tensorflow

# The expression of each figure over all ranks, from the table `steps`.
STEPS = {
    "train/loss": "min(loss)",
    "train/learning_rate": "min(learning_rate)",
    "train/gradient_norm": "min(gradient_norm)",
    "time/step_time_ms": "max(step_time_ms)",
    "memory/allocated_bytes_max": "max(memory_allocated_bytes_max)",
    "memory/reserved_bytes_max": "max(memory_reserved_bytes_max)",
}
EVALUATIONS = {"validation/loss": "loss", "validation/token_accuracy": "token_accuracy"}


@pytest.fixture(scope="module")
def export(workplace):
    return workplace.export("tensorboard", "--format", "tensorboard")


def read(folder):
    accumulator = event_accumulator.EventAccumulator(
        str(folder), size_guidance={event_accumulator.SCALARS: 0, event_accumulator.TENSORS: 0})
    accumulator.Reload()
    return accumulator


def float32(value):
    return struct.unpack("f", struct.pack("f", value))[0]


def expected(rows):
    return [(row["step"], row["time_unix_ms"] / 1000, float32(row["value"]))
            for row in rows if row["value"] is not None]


def scalars(accumulator, tag):
    return [(scalar.step, scalar.wall_time, scalar.value) for scalar in accumulator.Scalars(tag)]


def test_scalars_equal_sqlite(workplace, export):
    for run in (1, 3):
        accumulator = read(workplace.run_folder(export, run))
        for tag, figure in STEPS.items():
            rows = workplace.rows(f"select step, {figure} as value, min(case rank when 0 then "
                                  "time_unix_ms end) as time_unix_ms from steps where run = ? "
                                  "group by step order by step", run)
            assert len(rows) >= 2
            assert scalars(accumulator, tag) == expected(rows), tag
        for tag, figure in EVALUATIONS.items():
            rows = workplace.rows(f"select step, {figure} as value, time_unix_ms from evaluations "
                                  "where run = ? and rank = 0 order by step", run)
            assert scalars(accumulator, tag) == expected(rows), tag
    assert accumulator.FirstEventTimestamp() == workplace.rows(
        "select started_unix_ms / 1000.0 as s from attempts where run = 3")[0]["s"]


def test_the_specification_is_shown_as_text(workplace, export):
    folder = workplace.run_folder(export, 1)
    [run] = workplace.rows("select folder from runs where id = 1")
    spec = (workplace.folder / "results" / run["folder"] / "run.yaml").read_text()
    accumulator = read(folder)
    assert accumulator.SummaryMetadata("specification").plugin_data.plugin_name == "text"
    [event] = accumulator.Tensors("specification")
    [text] = event.tensor_proto.string_val
    assert text.decode() == "```yaml\n" + spec + "```\n"


def test_a_folder_per_run_that_was_started(workplace, export):
    folders = [str(file.parent.relative_to(export)) for file in export.rglob("*tfevents*")]
    names = sorted(re.sub("~[0-9a-f]{8}", "~", folder) for folder in folders)
    hashes = {row["run"]: row["hash8"] for row in workplace.rows("select * from comparison")}
    assert names == sorted([f"trial-first~/3-ddp~-{hashes[1]}", f"trial-first~/resumed-{hashes[2]}",
                            f"trial-first~/said-no-and-ended~-{hashes[3]}"])


def read_records(file):
    reader = pywrap_tensorflow.PyRecordReader_New(str(file))
    records = 0
    while True:
        try:
            reader.GetNext()
        except errors.OutOfRangeError:
            return records
        records += 1


def test_a_damaged_byte_is_noticed_wherever_it_is(workplace, export, tmp_path):
    [file] = workplace.run_folder(export, 3).glob("*tfevents*")
    sound = file.read_bytes()
    assert read_records(file) > 3
    damaged = tmp_path / "events.out.tfevents.damaged"
    for position in range(0, len(sound), 7):
        damaged.write_bytes(sound[:position] + bytes([sound[position] ^ 1]) + sound[position + 1:])
        with pytest.raises(errors.DataLossError):
            read_records(damaged)
