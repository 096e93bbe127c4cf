"""Reads an events file strictly as contract/record/event.h defines it."""

import json
import math

MS_BY_PART = tuple(f"{part}_ms" for part in (
    "products_forward", "products_backward", "attention_forward", "attention_backward",
    "kernels_forward", "kernels_backward", "exposed_all_gather_forward",
    "exposed_all_gather_backward", "exposed_reduce_scatter", "exposed_all_reduce", "slower_ranks",
    "copies", "conversion", "optimizer", "clipping", "data", "other_work"))
BYTES_BY_USE = ("parameters_bytes", "whole_bytes", "gradients_bytes", "optimizer_state_bytes",
                "attention_bytes", "mlp_bytes", "hidden_bytes", "head_bytes",
                "activation_gradients_bytes", "batch_bytes", "other_bytes")
INTEGERS = {"version", "sequence", "time_unix_ms", "step", "steps", "rank", "world_size",
            "local_rank", "process_id", "threads", "steps_planned", "parameter_count",
            "resumed_from_step", "tokens", "unpadded_tokens", "label_count",
            "memory_allocated_bytes_forward", "memory_reserved_bytes_forward",
            "memory_allocated_bytes_max", "memory_reserved_bytes_max", "size_bytes", "exit_code",
            *BYTES_BY_USE, "cpu_count"}
REALS = {"step_time_ms", "learning_rate", "evaluation_time_ms", "write_time_ms", "token_accuracy",
         "measured_time_ms", "cpu_time_ms", "hidden_communication_ms", *MS_BY_PART}
OPTIONAL_REALS = {"loss", "gradient_norm", "gradient_scale", "communication_time_ms",
                  "power_limit_watts", "sm_clock_mhz_max", "model_flops", "hardware_flops",
                  "cpus_busy_time_ms", "run_queue_wait_time_ms"}
OPTIONAL_INTEGERS = {"device_memory_bytes", "memory_host_bytes_max", "other_processes",
                     "trained_parameter_count", "unit"}
FLAGS = {"non_finite", "skipped", "suspended"}
KINDS = {"run_started", "step", "evaluation", "checkpoint", "device_sample", "run_finished",
         "run_failed", "run_interrupted", "memory_peak", "cpu_use", "step_account"}
# These members must be there. A missing one would be read as a measured 0.
REQUIRED = {
    "step": ("step", "step_time_ms", "tokens", "unpadded_tokens", "label_count",
             "learning_rate",
             "memory_allocated_bytes_forward", "memory_reserved_bytes_forward",
             "memory_allocated_bytes_max", "memory_reserved_bytes_max"),
    "evaluation": ("step", "label_count", "evaluation_time_ms"),
    "checkpoint": ("step", "size_bytes", "write_time_ms"),
    "run_finished": ("steps",),
    "memory_peak": ("step", "memory_allocated_bytes_max", *BYTES_BY_USE),
    "cpu_use": ("cpu_count", "measured_time_ms", "cpu_time_ms"),
    "step_account": ("step", "step_time_ms", "hidden_communication_ms", *MS_BY_PART),
}
TEXTS = {"kind", "host", "device", "device_name", "warning", "torch_version", "cuda_version",
         "nccl_version", "driver_version", "compute_capability", "gpu", "allocator_settings",
         "bound_cpus", "path", "reason", "phase", "cpus"}


def fits(name: str, value) -> bool:
    is_integer = isinstance(value, int) and not isinstance(value, bool) and abs(value) <= 2**60
    is_real = (isinstance(value, float) and math.isfinite(value)) or (
        isinstance(value, int) and not isinstance(value, bool) and -2**63 <= value < 2**64)
    if name in INTEGERS | OPTIONAL_INTEGERS:
        return is_integer or (value is None and name in OPTIONAL_INTEGERS)
    if name in REALS | OPTIONAL_REALS:
        return is_real or (value is None and name in OPTIONAL_REALS)
    if name in FLAGS:
        return isinstance(value, bool)
    return name not in TEXTS or isinstance(value, str)


def event_of(line: bytes) -> dict | None:
    """Returns None if the line is no event. Readers must skip such a line."""
    def no_constant(name: str):
        raise ValueError(name)

    try:
        event = json.loads(line.decode(), parse_constant=no_constant)
    except (ValueError, RecursionError):
        return None
    required = ("version", "kind", "sequence", "time_unix_ms")
    is_event = (isinstance(event, dict) and all(name in event for name in required) and
                all(fits(name, value) for name, value in event.items()) and
                all(name in event for name in REQUIRED.get(event["kind"], ())))
    return event if is_event else None


def last(contents: bytes, kind: str, member: str):
    """Returns the member of the last event of this kind. None if there is no such event."""
    events = [event_of(line) for line in contents.split(b"\n")[:-1]]
    values = [event.get(member) for event in events if event and event["kind"] == kind]
    return values[-1] if values else None


def is_whole(contents: bytes, steps: int) -> bool:
    """True if every line is an event, no event is missing between two others, each of `steps` was
    done once, and the rank finished. A repeated event counts once. An event of an unknown kind may
    stand for any missing one."""
    sequence = -1
    unknown = 0
    done = []
    kind = ""
    for line in contents.split(b"\n")[:-1]:
        event = event_of(line)
        if event is None:
            return False
        if event["kind"] not in KINDS:
            unknown += 1
            continue
        if event["sequence"] <= sequence:
            continue
        if event["sequence"] > sequence + unknown + 1:
            return False
        sequence, kind, unknown = event["sequence"], event["kind"], 0
        if kind == "step":
            done.append(event["step"])
    return done == list(range(1, steps + 1)) and kind == "run_finished"
