// The words of others for our keys and values. Hints use them; no file may.
#include <algorithm>
#include <cctype>
#include <sstream>

#include "contract/spec/other_trainers.h"
#include "contract/spec/run_spec_yaml.h"
#include "contract/spec/yaml_value.h"

namespace fsdp {
namespace {

// The synonyms that are not among the keys of other_trainers().
std::vector<Synonyms> own_synonyms() {
  return {
      // keys of an experiment file
      {"experiment", "name"},
      {"points", "runs"},
      {"product", "grid"},
      // data and model
      {"model.source", "model_name model_path checkpoint_path pretrained"},
      {"model.config", "model_config preset"},
      {"model.config.num_hidden_layers", "num_layers n_layers"},
      {"model.config.num_attention_heads", "n_heads"},
      {"model.config.hidden_size", "d_model hidden_dim"},
      {"data.train", "dataset train_file data_path"},
      {"data.tokenizer", "tokenizer_path"},
      {"data.sequence_length",
       "seq_len seq_length seqlen max_seq_len max_len block_size context_length"},
      {"data.rows", "packing sample_packing"},
      {"method", "adapter use_peft finetuning_type load_in_4bit peft"},
      // batch
      {"batch.size_per_rank", "bs size per_device_batch_size"},
      {"batch.total", "global_batch_size total_batch_size"},
      {"batch.gradient_accumulation_steps",
       "grad_accum grad_accumulation accumulation accumulate_grad_batches gradient_accumulation"},
      // strategy
      {"strategy.ranks", "gpus gpu n_gpus devices world_size nproc"},
      {"strategy.kind", "zero zero2 zero3 deepspeed"},
      {"slurm.time", "walltime wall_time"},
      {"slurm.partition", "queue"},
      {"strategy.sharding", "sharding_strategy zero_stage"},
      {"strategy.offload", "cpu_offload"},
      {"strategy.wrap.policy", "auto_wrap_policy"},
      {"activation_checkpointing.every", "gradient_checkpointing checkpointing recompute"},
      // numbers
      {"precision", "dtype torch_dtype mixed_precision amp fp32 bf16 fp16"},
      // training
      {"optimizer.learning_rate", "lr"},
      {"optimizer.weight_decay", "wd"},
      {"optimizer.beta1", "betas"},
      {"optimizer.epsilon", "eps"},
      {"optimizer.kind", "optim"},
      {"optimizer.gradient_clip_norm", "grad_clip clip clip_grad_norm max_grad_norm"},
      {"schedule.kind", "lr_scheduler lr_scheduler_type scheduler"},
      {"schedule.warmup_steps", "warmup num_warmup_steps"},
      {"schedule.min_learning_rate", "min_lr"},
      {"train.steps", "max_iters iterations iters num_steps"},
      {"train.epochs", "epoch"},
      {"train.sequences", "samples num_samples"},
      {"train.seed", "random_seed"},
      {"evaluation.every_steps", "eval_interval"},
      {"evaluation.data", "eval_data val_data"},
      {"evaluation.fraction", "val_set_size validation_split test_size"},
      {"checkpoint.every_steps", "save_steps save_interval"},
      {"checkpoint.keep", "save_total_limit"},
      {"resume", "resume_from_checkpoint"},
      {"wandb.project", "wandb_project"},
      {"threads_per_rank", "threads num_threads"},
      {"environment", "env"},
      // values
      {"cuda", "gpu nvidia"},
      {"fp32", "float32 float full 32"},
      {"bf16", "bfloat16"},
      {"bf16_true", "bf16 bfloat16"},
      {"bf16_mixed", "bf16 bfloat16 amp mixed"},
      {"fp16", "float16 half"},
      {"fp16_mixed", "fp16 float16 half 16"},
      {"fsdp", "zero zero2 zero3 deepspeed fsdp2"},
      {"shard_grad_op", "zero2"},
      {"full_shard", "zero3"},
      {"ddp", "dp data_parallel"},
      {"single", "none"},
      {"optimizer", "cpu"},
      {"parameters", "cpu"},
      {"instructions", "alpaca"},
      {"messages", "chat"},
      {"text", "json csv"},
  };
}

std::vector<Synonyms> all_synonyms() {
  std::vector<Synonyms> all = own_synonyms();
  for (const OtherTrainer& trainer : other_trainers()) {
    for (const OtherKey& key : trainer.keys) {
      for (const std::string& name : key.names) {
        // A dotted name is never written here, and our own keys need no hint.
        const bool is_word = !key.same.empty() && name.find_first_of(".*") == std::string::npos;
        if (is_word && !is_key_of_a_run(name)) all.push_back({key.same, name});
      }
    }
  }
  return all;
}

}  // namespace

const std::vector<Synonyms>& synonyms() {
  static const std::vector<Synonyms> kSynonyms = all_synonyms();
  return kSynonyms;
}

std::vector<std::string_view> meanings(std::string_view said) {
  std::string plain;  // "bf16_mixed" for "BF16-mixed"
  for (const char c : said) {
    plain += c == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  std::vector<std::string_view> meant;
  for (const Synonyms& one : synonyms()) {
    std::istringstream words{std::string(one.said)};
    for (std::string word; words >> word;) {
      const bool is_new = std::ranges::find(meant, one.meant) == meant.end();
      if (word == plain && is_new) meant.push_back(one.meant);
    }
  }
  return meant;
}

}  // namespace fsdp
