// Shows how to run the experiment of the page again.

// Returns the value of all runs, or the list of their values. "" if no run has one.
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

function seedOf({figures}) {
  return parsedObject(figures.spec).train?.seed;
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
  const commands = report.experiments.map(({file, profile}) =>
    element("code", {}, `./fsdp-run ${file}` + (profile ? ` --profile ${profile}` : "")));
  section.append(element("div", {class: "reproduce"},
    ...commands.map((command) => element("p", {}, command)),
    definitions([
      ["commit", saidBy(started, commitOf)],
      ["seed", saidBy(started, seedOf)],
      ["versions", versionsOf(started)],
    ]),
    element("div", {class: "tools"}, ...fileButtons(report, started))));
}
