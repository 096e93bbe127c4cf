"""Computes an attempt's expected figures from its events files. Follows docs/internals.md
("Numbers"), not the runner's code."""
import json

import numpy


def events_of(file):
    """Returns the events of all whole lines. A killed rank may leave a torn last line."""
    if not file.exists():
        return []
    return [json.loads(line) for line in file.read_text().split("\n")[:-1]]


def of_kind(kind, events):
    return [event for event in events if event["kind"] == kind]


def _after_warmup(values, excluded):
    return values[excluded:] if len(values) > excluded else values


def attempt_figures(ranks, run, earlier=()):
    """`ranks` has each rank's events, and `run` the run's row in the table runs. `earlier` has rank
    0's events of each earlier attempt, in order, because losses begin at the run's first step."""
    steps = [{event["step"]: event for event in of_kind("step", events)} for events in ranks]
    done_by_all = sorted(set.intersection(*map(set, steps)))
    figures = {"steps": min(map(len, steps))}
    figures |= _times(steps, done_by_all, run)
    figures |= _memory(steps) | _memory_of_nodes(ranks)
    figures |= _durations(ranks)
    figures |= _use_of_cpus(ranks)
    figures |= _account(ranks, steps)
    first = of_kind("step", ranks[0])
    if first:
        figures |= {"loss_last": first[-1]["loss"],
                    "skipped_steps": sum(step["skipped"] for step in first),
                    "non_finite_steps": sum(step["non_finite"] for step in first)}
    if evaluations := of_kind("evaluation", ranks[0]):
        losses = [evaluation["loss"] for evaluation in evaluations]
        figures |= {"validation_loss_last": losses[-1],
                    "token_accuracy_last": evaluations[-1]["token_accuracy"]}
    # An attempt that did not reach run_started has no losses, not even earlier ones.
    course = [*earlier, ranks[0]] if of_kind("run_started", ranks[0]) else []
    if losses := joined(course, "step"):
        figures["loss_first"] = losses[min(losses)]
    if losses := joined(course, "evaluation"):
        figures |= {"validation_loss_first": losses[min(losses)],
                    "validation_loss_best": min(losses.values())}
    if checkpoints := of_kind("checkpoint", ranks[0]):
        figures["checkpoint_write_time_ms_median"] = numpy.median(
            [checkpoint["write_time_ms"] for checkpoint in checkpoints])
    return figures


def _times(steps, done_by_all, run):
    """Returns the figures of step times. A step takes as long as its slowest rank. Steps count for no
    time if a process was stopped meanwhile."""
    done_by_all = [step for step in done_by_all
                   if not any(of_rank[step].get("suspended") for of_rank in steps)]
    if not done_by_all:
        return {}
    excluded = run["warmup_steps_excluded"]
    slowest = [max((of_rank[step] for of_rank in steps), key=lambda done: done["step_time_ms"])
               for step in done_by_all]
    times = _after_warmup([step["step_time_ms"] for step in slowest], excluded)
    median = numpy.median(times)
    figures = {"step_time_ms_median": median,
               "step_time_ms_p25": numpy.quantile(times, 0.25),
               "step_time_ms_p75": numpy.quantile(times, 0.75),
               "steps_per_second": 1000 / median,
               "micro_batches_per_second": 1000 / median * run["gradient_accumulation_steps"],
               **{f"{kind}_per_second": 1000 / median * numpy.median(
                   _after_warmup([step[count] for step in slowest], excluded))
                  for kind, count in (("tokens", "tokens"), ("unpadded_tokens", "unpadded_tokens"),
                                      ("trained_tokens", "label_count"))}}
    figures["tokens_per_second_per_rank"] = figures["tokens_per_second"] / run["ranks"]
    flops = [sum(of_rank[step]["model_flops"] for of_rank in steps) for step in done_by_all]
    figures["model_tflops_per_second_per_rank"] = (
        numpy.median(_after_warmup(flops, excluded)) / median / 1e9 / run["ranks"])
    waits = [step["communication_time_ms"] for step in slowest]
    if None not in waits:
        figures["communication_time_ms_median"] = numpy.median(_after_warmup(waits, excluded))
    return figures


def _durations(ranks):
    """Returns durations by one rank's own clock, from the start of its process."""
    durations = []
    for events in ranks:
        for started in of_kind("run_started", events):
            last = max(event["time_unix_ms"] for event in events)
            durations.append(last - started["time_unix_ms"] + started["elapsed_ms"])
    figures = {"total_time_ms": max(durations)} if durations else {}
    if steps := of_kind("step", ranks[0]):
        [started] = of_kind("run_started", ranks[0])
        figures["start_up_time_ms"] = (steps[0]["time_unix_ms"] - started["time_unix_ms"] +
                                       started["elapsed_ms"] - steps[0]["step_time_ms"])
    return figures


def _use_of_cpus(ranks):
    """Returns the CPU time of other programs. Ranks that share CPUs count together. Needs at least
    500 ms."""
    uses = [use for events in ranks for use in of_kind("cpu_use", events)]
    if len(uses) < len(ranks) or min(use["measured_time_ms"] for use in uses) < 500:
        return {}
    hosts = [started["host"] for events in ranks for started in of_kind("run_started", events)]
    own = {}
    for host, use in zip(hosts, uses, strict=True):
        own[host, use["cpus"]] = own.get((host, use["cpus"]), 0) + use["cpu_time_ms"]
    return {"cpu_cores_used_max": max(use["cpu_time_ms"] / use["measured_time_ms"] for use in uses),
            "cpu_time_others_percent": max(
                max(0, use["cpus_busy_time_ms"] - own[host, use["cpus"]]) /
                use["cpu_count"] / use["measured_time_ms"] * 100
                for host, use in zip(hosts, uses, strict=True)),
            "run_queue_wait_percent": max(
                use["run_queue_wait_time_ms"] / use["measured_time_ms"] * 100 for use in uses)}


def _memory_of_nodes(ranks):
    """Returns the sum of the peaks of a node's ranks, if all finished."""
    sums = {}
    for events in ranks:
        finished = [event for event in of_kind("run_finished", events) if event.get("memory_host_bytes_max")]
        if not finished:
            return {}
        host = of_kind("run_started", events)[0]["host"]
        sums[host] = sums.get(host, 0) + finished[0]["memory_host_bytes_max"]
    return {"memory_node_bytes_max": max(sums.values())}


def _account(ranks, steps):
    """Returns the account of the step of median time, of the rank that worked longest in it. Steps
    count if every rank has an account of them, and none was stopped meanwhile."""
    def work_ms(account):
        return account["step_time_ms"] - account["slower_ranks_ms"]

    accounts = [{event["step"]: event for event in of_kind("step_account", events)} for events in ranks]
    found = []
    for step in sorted(set.intersection(*map(set, accounts))):
        if any(of_rank.get(step, {}).get("suspended") for of_rank in steps):
            continue
        of_step = [(work_ms(of_rank[step]), rank, of_rank[step]) for rank, of_rank in enumerate(accounts)]
        found.append(sorted(of_step, key=lambda of: -of[0]))
    if not found:
        return {}
    (longest, rank, account), *others = sorted(found, key=lambda of: of[0][2]["step_time_ms"])[(len(found) - 1) // 2]
    figures = {name: value for name, value in account.items()
               if name.endswith("_ms") and name not in ("step_time_ms", "elapsed_ms", "time_unix_ms")}
    figures |= {"account_rank": rank, "exposed_all_gather_ms": account["exposed_all_gather_forward_ms"] +
                account["exposed_all_gather_backward_ms"]}
    if others:
        figures["slowest_rank_extra_ms"] = longest - numpy.median([work for work, _, _ in others])
    return figures


def _memory(steps):
    """Takes each rank's peak over all steps. Returns the highest and the lowest of these."""
    figures = {}
    for kind in ("allocated", "reserved"):
        for moment in ("max", "forward"):
            name = f"memory_{kind}_bytes_{moment}"
            peaks = [max(done[name] for done in of_rank.values()) for of_rank in steps if of_rank]
            if not peaks:
                continue
            stem = name if moment == "forward" else f"memory_{kind}_bytes"
            figures |= {f"{stem}_max": max(peaks), f"{stem}_min": min(peaks)}
    return figures


def rank_figures(events, run):
    steps = of_kind("step", events)
    if not steps:
        return {"steps": 0}
    times = _after_warmup([step["step_time_ms"] for step in steps if not step.get("suspended")],
                          run["warmup_steps_excluded"])
    memory = [f"memory_{kind}_bytes_{moment}" for kind in ("allocated", "reserved")
              for moment in ("forward", "max")]
    return {"steps": len(steps), "step_time_ms_median": numpy.median(times),
            **{name: max(step[name] for step in steps) for name in memory}}


def joined(attempts, kind):
    """Returns step -> loss of a run over its attempts. `attempts` has the events of one rank in
    each attempt, in order. The result has the last attempt's losses. Losses up to its checkpoint
    come from earlier attempts. Fails if one attempt has a step twice."""
    losses, before = {}, None
    for events in reversed(attempts):
        started = of_kind("run_started", events)
        steps = [event["step"] for event in of_kind("step", events)]
        if not started or before is not None and max(steps, default=0) < before:
            continue
        own = [event for event in of_kind(kind, events)
               if before is None or event["step"] <= before]
        for event in own:
            if event["step"] in losses:
                raise ValueError(f"step {event['step']} is there twice")
            losses[event["step"]] = event["loss"]
        resumed = started[0]["resumed_from_step"]
        before = resumed if before is None else min(before, resumed)
        if before == 0:
            break
    return losses
