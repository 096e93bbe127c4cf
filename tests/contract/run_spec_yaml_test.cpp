#include "contract/spec/run_spec_yaml.h"

#include <catch2/catch.hpp>
#include <sstream>

#include "base/text/json.h"
#include "contract/spec/overrides.h"
#include "contract/spec/run_spec_json.h"
#include "tests/contract/applied_overrides.h"
#include "tests/temporary_folder.h"

namespace fsdp {
namespace {

// The functions below change the keys that contradict one of these.
RunSpec with_every_value_changed() {
  return applied(R"(
model:
  source: llama
method: lora
lora: {rank: 16, alpha: 5, dropout: 0.5, targets: [q_proj], use_rslora: true, adapter: adapters}
data: {kind: tokens, train: a.npy, tokenizer: b.model, sequence_length: 7, shuffle: false,
       rows: pack, template: {with_input: "{input}\n{instruction}", without_input: "{instruction}"},
       format: chatml, prefix: "tldr ", input_length: 100, target_length: 30, token_dtype: uint32,
       split_special_tokens: true,
       columns: {text: t, instruction: i, input: n, output: o, system: y, history: z, headline: h, moves: m,
                 termination: e, result: r, messages: c, role: w, content: s}}
strategy: {kind: fsdp, ranks: 4, sharding: hybrid_shard, shard_group_size: 2, wrap: none,
           prefetch: 3, limit_all_gathers: false, offload: optimizer, accumulate: unsharded}
batch: {size_per_rank: 2, total: 16}
precision: {parameters: bf16, gradients: fp32, reduction: fp16, buffers: bf16}
activation_checkpointing: {every: 2, what: mlp}
optimizer: {kind: sgd, learning_rate: 1e-5, weight_decay: 0.1, no_decay: [norm, bias], beta1: 0.8,
            beta2: 0.7, epsilon: 1.5e-9, momentum: 0.9, rho: 0.5, gradient_clip_norm: 0.3, state_dtype: bf16,
            rounding: stochastic}
schedule: {kind: cosine, warmup_steps: 10, warmup_from_zero: true, min_learning_rate: 1e-6,
           decay_steps: 40, step_size: 30, gamma: 0.5}
train: {epochs: 5, max_steps: 50, seed: 9, deterministic: true, warmup_steps_excluded: 0,
        account_steps: 5, trace_steps: 2, fingerprint_steps: ["1-3", "every 10"],
        on_non_finite: skip, report_gradient_norm: true}
evaluation: {every_steps: 10, each_epoch: true, data: v.npy, split_seed: 42, size_per_rank: 3, batches: 7}
checkpoint: {every_steps: 20, at_end: true, when_improved: true, state_dict: sharded,
             single_file: true, keep: 2}
resume: auto
communication: {timeout_s: 30, rendezvous_timeout_s: 50, start_up_timeout_s: 40}
device_samples: {every_s: 0.5}
wandb: {entity: "a #team", project: lab, name: "null", log_model: true}
slurm: {mode: allocation, job_name: "a \"job\" $x", partition: gpu, account: lab, qos: high,
        reservation: class, wckey: w, licenses: "matlab:2", dependency: singleton,
        nodes: 2, gpus_per_node: 4, gpu_request: gpus_per_node, gpu_type: a100,
        gpu_memory_gib: 79.5, cpus_per_task: 10, mem: 16G, time: "04:00:00", constraint: "a&b|c",
        nodelist: n2, exclude: "n[1,3-4]", exclusive: true, output: "%x-%j.out", error: "%x-%j.err",
        mail_user: me@here, mail_type: "END,FAIL", modules: [cuda, "b:c, 'd' ]"],
        prologue: ["export X=\"$(pwd)\"  # ${Y}"], environment: ["OMP_NUM_THREADS=2", "_a="],
        mpi: pmix, cpu_bind: cores, gpu_bind: closest,
        sbatch_options: [--nice=100], srun_options: [--mpi=none], template: own.sh, max_parallel: 3,
        max_restarts: 0, signal_before_end_s: 60,
        container: {engine: pyxis, image: "docker://a/b:c", options: [--bind, /data],
                    trainer: /opt/fsdp-train}}
device: cuda
kernels: transformer_engine
threads_per_rank: 2
bind: none
memory_limit_gib: 0.1
environment: ["NCCL_ALGO=Ring"]
)");
}

RunSpec with_another_architecture() {
  return applied(
      "model.config: {architecture: MistralForCausalLM, sliding_window: 64, padding_idx: 2}");
}

RunSpec with_an_encoder() {
  return applied(R"(
model.config: {architecture: T5ForConditionalGeneration, num_decoder_layers: 3,
               feed_forward_proj: gated-gelu, relative_attention_num_buckets: 8,
               relative_attention_max_distance: 20, dropout_rate: 0.1, decoder_start_token_id: 1,
               pad_token_id: 2, scale_decoder_outputs: true}
)");
}

RunSpec with_the_others_changed() {
  return applied(R"(
model.config: {num_hidden_layers: 1, hidden_size: 32,
               intermediate_size: 33, attention_bias: true, mlp_bias: true,
               rope_scaling: {type: llama3, factor: 8, low_freq_factor: 2, high_freq_factor: 5,
                              original_max_position_embeddings: 128},
               num_attention_heads: 4, num_key_value_heads: 2, head_dim: 10, vocab_size: 100,
               rope_theta: 5, initializer_range: 0.5,
               rms_norm_eps: 1e-3, tie_word_embeddings: true, max_position_embeddings: 300}
strategy.wrap.blocks: 2
batch.gradient_accumulation_steps: 2
precision: bf16_mixed
optimizer.in_backward: true
train.steps: 7
evaluation: {every_steps: 1, fraction: 0.25}
method: lora
checkpoint: {merge: true, merge_dtype: bf16}
)");
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::stringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

}  // namespace

TEST_CASE("nested, dotted and mixed keys mean the same") {
  const RunSpec nested =
      applied("strategy: {kind: ddp, ranks: 4}\nmodel: {config: {hidden_size: 8}}");
  CHECK(applied("strategy.kind: ddp\nstrategy.ranks: 4\nmodel.config.hidden_size: 8") == nested);
  CHECK(applied("strategy: {kind: ddp}\nstrategy.ranks: 4\nmodel: {config.hidden_size: 8}") ==
        nested);
  CHECK(nested.strategy.kind == StrategyKind::kDdp);
  CHECK(nested.strategy.ranks == 4);
  CHECK(nested.model.config.hidden_size == 8);
}

TEST_CASE("an empty layer changes nothing") { CHECK(applied("# nothing\n") == RunSpec{}); }

TEST_CASE("numbers are read exactly") {
  CHECK(applied("optimizer.learning_rate: 1e-5").optimizer.learning_rate == 1e-5);
  CHECK(applied("optimizer.learning_rate: +2").optimizer.learning_rate == 2);
  CHECK(applied("train.seed: 9007199254740991").train.seed == 9007199254740991);
  CHECK(applied("data.shuffle: false").data.shuffle == false);
}

TEST_CASE("null clears what is optional") {
  RunSpec spec = with_every_value_changed();
  overlay(spec, "optimizer.gradient_clip_norm: null\nthreads_per_rank: ~\nmodel.source:");
  CHECK(!spec.optimizer.gradient_clip_norm);
  CHECK(!spec.threads_per_rank);
  CHECK(spec.model.source.empty());
}

TEST_CASE("input paths become absolute and normal, relative to the file") {
  CHECK(applied("data.train: sub/../a.npy").data.train == "/data/lab/a.npy");
  CHECK(applied("data.train: /x//y/./a.npy").data.train == "/x/y/a.npy");
  CHECK(applied("data.train: ~/a.npy").data.train == "/data/lab/~/a.npy");
  CHECK(applied("model.source: ../models/llama/").model.source == "/data/models/llama");
}

TEST_CASE("a mistake in YAML names its place, its key, what is allowed and the nearest name") {
  CHECK(message("strategy:\n  kind: fdsp\n") ==
        "lab.yaml:2:9: 'strategy.kind': 'fdsp' is not one of its values; did you mean 'fsdp'? "
        "allowed: single, ddp, fsdp");
  CHECK(message("strategy:\n  rank: 4\n") ==
        "lab.yaml:2:3: 'strategy.rank': unknown key; did you mean 'ranks'? allowed: kind, ranks, "
        "sharding, shard_group_size, wrap, prefetch, limit_all_gathers, offload, accumulate");
  CHECK(message("batch.totl: 4\n") ==
        "lab.yaml:1:1: 'batch.totl': unknown key; did you mean 'total'? allowed: size_per_rank, "
        "total, gradient_accumulation_steps");
  CHECK(message("train.steps.more: 4\n") ==
        "lab.yaml:1:1: 'train.steps.more': unknown key; 'train.steps' holds a value, not keys");
  CHECK_THAT(message("learning_rate: 1\n"),
             Catch::Contains("; did you mean 'optimizer.learning_rate'? allowed: "));
  CHECK_THAT(message("stratgy.kind: ddp\n"),
             Catch::Contains("; did you mean 'strategy'? allowed: "));
  CHECK_THAT(message("strategy..kind: ddp\n"), Catch::Contains("unknown key"));
}

TEST_CASE("weight decay leaves out roles that there are") {
  CHECK(applied("optimizer.no_decay: [bias, norm]").optimizer.no_decay == TextList{"bias", "norm"});
  CHECK(applied("optimizer.no_decay: []").optimizer.no_decay.empty());
  CHECK(message("optimizer.no_decay: [norm, layers]\n") ==
        "lab.yaml:1:28: 'optimizer.no_decay': 'layers' is not one of its values; allowed: a list, "
        "each item norm or bias");
}

TEST_CASE("a key that comes twice is refused, however it is spelled") {
  CHECK(message("strategy:\n  ranks: 2\n  ranks: 4\n") ==
        "lab.yaml:3:3: 'strategy.ranks': duplicate key; first given at lab.yaml:2:3");
  CHECK(message("strategy: {ranks: 2}\nstrategy.ranks: 4\n") ==
        "lab.yaml:2:1: 'strategy.ranks': duplicate key; first given at lab.yaml:1:19");
  CHECK(message("strategy: {ranks: 2}\nstrategy: {kind: ddp}\n") ==
        "lab.yaml:2:1: 'strategy': duplicate key; first given at lab.yaml:1:1");
}

TEST_CASE("an alternative clears the other of an earlier layer") {
  RunSpec spec = applied("batch.total: 16\ntrain.epochs: 2\nmodel.config.hidden_size: 8");
  overlay(spec, "batch.gradient_accumulation_steps: 2\ntrain.steps: 5\nmodel.source: m");
  CHECK(!spec.batch.total);
  CHECK(spec.batch.gradient_accumulation_steps == 2);
  CHECK(!spec.train.epochs);
  CHECK(spec.train.steps == 5);
  CHECK(spec.model.source == "/data/lab/m");
  CHECK(spec.model.config == ModelConfig{});

  overlay(spec, "batch.total: 8");
  CHECK(spec.batch.total == 8);
  CHECK(!spec.batch.gradient_accumulation_steps);
  CHECK(spec.train.steps == 5);
  overlay(spec, "batch.gradient_accumulation_steps: null");
  CHECK(spec.batch.total == 8);
  CHECK(applied("{batch: {total: null, gradient_accumulation_steps: 2}}")
            .batch.gradient_accumulation_steps == 2);
}

TEST_CASE("a model's configuration does not take the place of its source") {
  const auto set = [](const std::string& text) {
    Overrides base, layer;
    base.add(parse_yaml("model.source: /m", kOrigin), kOrigin);
    layer.add(parse_yaml(text, kOrigin), kOrigin);
    SpecDraft draft;
    draft.apply(base);
    draft.apply(layer);
    return draft.evaluated().model;
  };
  CHECK_THROWS_WITH(set("model.config.hidden_size: 12"),
                    "lab.yaml:1:27: 'model.config': excludes 'model.source', which is /m; allowed: "
                    "one of the two, and for random weights of this form add model.source: null");
  CHECK(set("model.source: /other").source == "/other");
  const ModelSpec random = set("{model.source: null, model.config.hidden_size: 12}");
  CHECK(random.source.empty());
  CHECK(random.config.hidden_size == 12);
}

TEST_CASE("a layer says where it gives a key") {
  Overrides layer;
  layer.add(parse_yaml("strategy:\n  ranks: 4\ntrain.seed: 3", kOrigin), kOrigin);
  CHECK(layer.place("strategy.ranks") == "lab.yaml:2:10");
  CHECK(layer.place("strategy") == "lab.yaml:2:10");
  CHECK(layer.place("strat").empty());
  CHECK(layer.place("strategy.kind").empty());
}

TEST_CASE("a specification survives being written and read") {
  for (const RunSpec& spec : {resolved(RunSpec{}), resolved(with_every_value_changed()),
                              resolved(with_the_others_changed()),
                              resolved(with_another_architecture()), resolved(with_an_encoder())}) {
    const TemporaryFolder folder;
    CHECK(read_run_spec(folder.write("run.yaml", to_yaml(spec))) == spec);
    CHECK(run_spec_from_json(json_text(spec), "") == spec);
  }
}

TEST_CASE(
    "JSON of another version has defaults for missing keys, and its unknown keys are left out") {
  RunSpec spec;
  spec.strategy.ranks = 3;
  spec.train.seed = 7;
  CHECK(run_spec_from_json(R"({"new":[1],"train":{"seed":7},"strategy":{"a":{},"ranks":3}})", "") ==
        spec);
  CHECK(
      run_spec_from_json(R"({"data":{"train":null},"memory_limit_gib":2})", "").memory_limit_gib ==
      2);
}

TEST_CASE("a value in JSON that no key has is refused with its place and key") {
  const auto [text, refusal] = GENERATE(table<std::string, std::string>(
      {{"", "a place: is not JSON"},
       {std::string(1'000'000, '['), "a place: is not JSON"},
       {"{\"model\":\"\xff\"}", "a place: is not JSON"},
       {"[]", "a place: [] is not a value"},
       {R"({"model":3})", "a place: 'model': 3 is not a value"},
       {R"({"strategy":{"kind":"magic"}})", "a place: 'strategy.kind': \"magic\" is not a value"},
       {R"({"strategy":{"ranks":2.5}})", "'strategy.ranks': 2.5 is not"},
       {R"({"batch":{"total":-4}})", "'batch.total': -4 is not"},
       {R"({"data":{"shuffle":1}})", "'data.shuffle': 1 is not"},
       {R"({"model":{"config":{"architecture":"Unknown"}}})", "'model.config.architecture': "},
       {R"({"slurm":{"partition":"a\nb"}})", "'slurm.partition': "},
       {R"({"environment":["A"]})", "'environment': "},
       {R"({"environment":[1]})", "'environment': [1] is not"}}));
  CHECK_THROWS_WITH(run_spec_from_json(text, "a place"),
                    Catch::StartsWith("a place: ") && Catch::Contains(refusal));
}

TEST_CASE("a specification from before a section was added has its defaults") {
  const std::string text = to_yaml(resolved(RunSpec{}));
  const size_t slurm = text.find("slurm:\n");
  const std::string earlier = text.substr(0, slurm) + text.substr(text.find("device: ", slurm));
  CHECK_THAT(earlier, !Catch::Contains("gpus_per_node"));
  CHECK(run_spec_from_yaml(earlier, kOrigin) == resolved(RunSpec{}));
}

TEST_CASE("the specifications of these tests leave no key as it is by default") {
  const std::vector<std::string> by_default = lines_of(to_yaml(RunSpec{}));
  std::vector<std::string> unchanged = by_default;
  for (const RunSpec& spec : {with_every_value_changed(), with_the_others_changed(),
                              with_another_architecture(), with_an_encoder()}) {
    const std::vector<std::string> lines = lines_of(to_yaml(spec));
    REQUIRE(lines.size() == by_default.size());
    for (size_t i = 0; i < lines.size(); ++i) {
      if (lines[i] != by_default[i] || lines[i].ends_with(':')) unchanged[i].clear();
    }
  }
  std::erase(unchanged, "");
  // `bias` has one value. The specifications have other keys that exclude the other two.
  CHECK(unchanged == std::vector<std::string>{"  bias: none", "  max_documents: null",
                                              "    min_parameters: null", "  warmup_ratio: null",
                                              "  sequences: null"});
}

TEST_CASE("paths of any spelling survive being written and read") {
  for (const std::string name :
       {"with space", "it's \"quoted\"", "a: b # c", "- x", "~", "null", "{a}", "tab\tfeed\nend",
        "back\\slash", "\x01\x1f\x7f", "h\xc3\xa9\xe2\x80\xa8\xf0\x9f\x8c\x8d", "%x &y *z !t",
        "${HOME}"}) {
    INFO(name);
    RunSpec spec = resolved(RunSpec{});
    spec.data.train = "/data/" + name;
    const TemporaryFolder folder;
    CHECK(read_run_spec(folder.write("run.yaml", to_yaml(spec))).data.train == spec.data.train);
  }
}

TEST_CASE("canonical YAML has every key, in the order of the struct") {
  const std::string text = to_yaml(resolved(with_every_value_changed()));
  CHECK_THAT(text, Catch::StartsWith("model:\n  source: \"/data/lab/llama\"\n  config:\n"
                                     "    architecture: \"LlamaForCausalLM\"\n"));
  CHECK_THAT(text, Catch::Contains("  learning_rate: 1e-05\n"));
  CHECK_THAT(text, Catch::Contains("  steps: null\n  epochs: 5\n"));
  CHECK_THAT(
      text,
      Catch::EndsWith("device: cuda\nkernels: transformer_engine\nthreads_per_rank: 2\nbind: none\n"
                      "memory_limit_gib: 0.1\nenvironment: [\"NCCL_ALGO=Ring\"]\n"));
  size_t lines_with_values = 0;
  for (size_t at = text.find(": "); at != std::string::npos; at = text.find(": ", at + 1)) {
    ++lines_with_values;
  }
  CHECK(lines_with_values == run_spec_keys().size());
}

TEST_CASE("a contradiction in run.yaml names its line") {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder.write("run.yaml", "strategy:\n  ranks: 3\n");
  CHECK_THROWS_WITH(read_run_spec(file),
                    file.string() +
                        ":2:10: 'strategy.ranks': is 3, but strategy.kind single "
                        "is one process; allowed: 1");
  CHECK_THROWS_WITH(read_run_spec("/nowhere/run.yaml"),
                    "/nowhere/run.yaml: cannot be read: No such file or directory");
  CHECK_THROWS_WITH(read_run_spec("/"), "/: cannot be read: Is a directory");
}

TEST_CASE("differences from the default leave out defaults and input paths") {
  CHECK(differences_from_default(RunSpec{}).empty());
  CHECK(differences_from_default(applied("strategy: {kind: ddp, ranks: 4}\ndata.train: a.csv\n"
                                         "optimizer: {learning_rate: 1e-5, beta1: 0.9}")) ==
        "strategy.kind=ddp\nstrategy.ranks=4\noptimizer.learning_rate=1e-05\n");
  CHECK(differences_from_default(applied("evaluation.data: v.csv\nresume: checkpoint")).empty());
}

}  // namespace fsdp
