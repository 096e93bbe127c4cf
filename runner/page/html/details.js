// The folded parts below the figures: the origin of each run's figures, and how to run it again.

function definitions(pairs) {
  return element("dl", {}, ...pairs
    .filter(([, value]) => value !== null && value !== undefined && value !== "")
    .flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, ...sentence(String(value)))]));
}

function attemptsTable(run) {
  return plainTable(["attempt", "status", "started", "took s", "host", "why"],
    run.attempts.map((attempt) => [String(attempt.attempt), attempt.status,
      utcTime(attempt.started_unix_ms),
      attempt.ended_unix_ms === null
        ? null : (attempt.ended_unix_ms - attempt.started_unix_ms) / 1000,
      attempt.host, element("span", {}, ...sentence(attempt.reason))]));
}

function ranksTable(run) {
  const names = ["rank", "host", "device", "device_name", "gpu", "threads", "process_id",
    "torch_version", "cuda_version", "nccl_version", "driver_version", "compute_capability",
    "allocator_settings", "bound_cpus", "power_limit_watts", "sm_clock_mhz_max", "device_memory_bytes", "other_processes", "warning"];
  const shown = names.filter((name) =>
    run.rank_facts.some((fact) => fact[name] !== null && fact[name] !== ""));
  return plainTable(shown,
    run.rank_facts.map((fact) => shown.map((name) => fact[name] === "" ? null : fact[name])));
}

function provenance(run) {
  const {environment, ...facts} = run.provenance;
  const variables = Object.entries(parsedObject(environment));
  const known = Object.entries(facts).filter(([, value]) => value !== 0);
  return definitions([...known,
    ...variables.map(([name, value]) => [`$${name}`, value])]);
}

function filesOf(run) {
  const folder = `${run.results}/${run.figures.folder}`;
  const attempts = run.attempts.map(({attempt}) => `${folder}/attempt-${attempt}/`);
  return element("ul", {}, ...[`${folder}/run.yaml`, ...attempts,
    ...run.checkpoints.map((path) => `${folder}/${path}`)]
    .map((path) => element("li", {}, element("code", {}, path))));
}

function runDetails(run) {
  const part = (heading, content) => [element("h4", {}, heading), content];
  const details = folded(`${run.name} (${run.figures.status})`, () => [
    ...part("Specification", element("pre", {tabindex: "0"}, run.specification)),
    ...part("Origin", provenance(run)),
    ...part("Attempts", scrollBox(`Attempts of ${run.name}`, attemptsTable(run))),
    ...(run.rank_facts.length === 0 ? [] :
      part("Ranks", scrollBox(`Ranks of ${run.name}`, ranksTable(run)))),
    ...part("Files", filesOf(run)),
    ...part("Every figure", definitions(Object.entries(run.recorded))),
  ]);
  details.className = "run";
  return details;
}

function experimentTexts(texts) {
  return Object.values(texts).map((text, index, all) => {
    const number = all.length > 1 ? ` (${index + 1} of ${all.length})` : "";
    const details = folded(`The experiment's file as it was${number}`,
      () => [element("pre", {tabindex: "0"}, text)]);
    details.className = "run";
    return details;
  });
}

// --- how to run the experiment of the page again ---

// Returns the distinct values of the runs, joined by commas. "" if no run has a value.
function saidBy(runs, value) {
  return [...new Set(runs.map(value))].filter((text) => text !== undefined && text !== null && text !== "")
    .join(", ");
}

// "0123abcd4567 with changes that are not committed; experiment file untracked, digest fedc9876ba01"
function commitOf({provenance}) {
  const {git_commit: commit, git_dirty: isDirty, git_untracked: isUntracked} = provenance;
  const digest = provenance.experiment_text_digest.slice(0, 12);
  return [commit && commit.slice(0, 12) + (isDirty ? " with changes that are not committed" : ""),
    isUntracked ? `experiment file untracked, digest ${digest}` : ""]
    .filter((text) => text !== "").join("; ");
}

function versionsOf(runs) {
  const facts = runs.flatMap((run) => run.rank_facts);
  return [["fsdp-run", saidBy(runs, (run) => run.provenance.runner_version)],
    ["PyTorch", saidBy(facts, (fact) => fact.torch_version)],
    ["CUDA", saidBy(facts, (fact) => fact.cuda_version)],
    ["NCCL", saidBy(facts, (fact) => fact.nccl_version)],
    ["driver", saidBy(facts, (fact) => fact.driver_version)]]
    .filter(([, version]) => version !== "").map(([name, version]) => `${name} ${version}`).join(", ");
}

// Returns a button for each version of the files that these runs used.
function fileButtons({experiments, experiment_texts: texts}, runs) {
  return experiments.flatMap(({name, file}) => {
    const digests = new Set(runs.filter(({figures}) => figures.experiment === name)
      .map(({provenance}) => provenance.experiment_text_digest));
    return [...digests].filter((digest) => texts[digest]).map((digest, index, all) => {
      const label = `Save ${file}` + (all.length > 1 ? ` (${index + 1} of ${all.length})` : "");
      const button = element("button", {type: "button", class: "save"}, label);
      button.addEventListener("click", () => saveFile(file, "text/yaml", texts[digest]));
      return button;
    });
  });
}

function showReproduction(report, runs) {
  const started = runs.filter((run) => run.attempts.length > 0);
  if (started.length === 0) return;
  const section = document.getElementById("reproduce");
  section.hidden = false;
  const commands = report.commands.map((command) => element("code", {}, command));
  section.append(element("div", {class: "reproduce"},
    ...commands.map((command) => element("p", {}, command)),
    definitions([
      ["commit", saidBy(started, commitOf)],
      ["seed", saidBy(started, ({seed}) => seed)],
      ["versions", versionsOf(started)],
    ]),
    element("div", {class: "tools"}, ...fileButtons(report, started))));
}
