#!/bin/sh
# Trains tokenizer.model, the SentencePiece tokenizer of games.csv, and prints tokens per game.
# Each game is one line of text: its moves, a space, its result. Needs Debian's sentencepiece.
# Command line that made the committed file: sh train_tokenizer.sh
set -eu

cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# No field of games.csv holds a comma or a quote.
awk -F, 'NR > 1 { print $1, $3 }' games.csv > "$work/games.txt"

# The identifiers are LLaMA's: unknown 0, begin 1, end 2, no padding. Pieces may mix letters and
# digits, so that a common move such as Nf3 is one piece. The model records the paths it is given,
# so they are relative.
(
  cd "$work"
  spm_train --input=games.txt --model_prefix=tokenizer --model_type=bpe --vocab_size=1024 \
    --character_coverage=1.0 --byte_fallback=true --normalization_rule_name=identity \
    --split_by_unicode_script=false --split_by_number=false \
    --unk_id=0 --bos_id=1 --eos_id=2 --pad_id=-1 --num_threads=1 --minloglevel=1
)
cp "$work/tokenizer.model" tokenizer.model

echo "vocabulary: $(wc -l < "$work/tokenizer.vocab")"
spm_encode --model=tokenizer.model --output_format=id "$work/games.txt" | awk '{ print NF }' |
  sort -n | awk '
    { count[NR] = $1; total += $1 }
    END {
      median = (count[int((NR + 1) / 2)] + count[int(NR / 2) + 1]) / 2
      print "tokens per game: minimum " count[1] ", mean " total / NR ", median " median \
            ", maximum " count[NR] ", total " total
    }'
