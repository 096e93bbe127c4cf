// The words of other trainers for our keys and values. Hints use them; no file may.
#include <cctype>
#include <sstream>

#include "contract/spec/yaml_value.h"

namespace fsdp {

const std::vector<Synonyms>& synonyms() {
  static const std::vector<Synonyms> kSynonyms = {
      // keys of an experiment file
      {"experiment", "name"},
      {"points", "runs"},
      {"product", "grid"},
      // data and model
      {"model.source", "model_name model_name_or_path model_path checkpoint_path pretrained"},
      {"model.config", "model_config preset"},
      {"model.config.num_hidden_layers", "num_layers n_layers"},
      {"model.config.num_attention_heads", "n_heads"},
      {"model.config.hidden_size", "d_model hidden_dim"},
      {"data.train", "dataset train_file data_path"},
      {"data.tokenizer", "tokenizer_path"},
      {"data.sequence_length",
       "seq_len seq_length seqlen max_seq_len max_seq_length max_length max_len block_size "
       "context_length"},
      {"data.rows", "packing sample_packing"},
      // batch
      {"batch.size_per_rank",
       "bs batch_size size micro_batch_size per_device_batch_size per_device_train_batch_size"},
      {"batch.total", "global_batch_size total_batch_size"},
      {"batch.gradient_accumulation_steps",
       "grad_accum grad_accumulation accumulation accumulate_grad_batches gradient_accumulation"},
      // strategy
      {"strategy.ranks",
       "gpus gpu num_gpus n_gpus devices world_size nproc nproc_per_node num_processes"},
      {"strategy.kind", "zero zero2 zero3 deepspeed"},
      {"slurm.nodes", "num_nodes nnodes"},
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
      {"schedule.warmup_steps", "warmup num_warmup_steps warmup_ratio"},
      {"schedule.min_learning_rate", "min_lr"},
      {"train.steps", "max_iters iterations iters num_steps"},
      {"train.epochs", "num_epochs num_train_epochs epoch"},
      {"train.sequences", "samples num_samples"},
      {"train.seed", "random_seed"},
      {"evaluation.every_steps", "eval_steps eval_interval"},
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
      if (word == plain) meant.push_back(one.meant);
    }
  }
  return meant;
}

}  // namespace fsdp
