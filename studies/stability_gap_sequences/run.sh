#!/bin/sh
# Every run of README.md: sh studies/stability_gap_sequences/run.sh [STORE] [OPTIONS of perdure run]
# With WORDS=30, all 15 tasks of two words as in the paper; by default the first five, as its Figure 8 shows.
# On a GPU: WORDS=30 sh studies/stability_gap_sequences/run.sh STORE --device cuda --seeds 5
set -eu
store=${1:-runs/stability_gap_sequences}
[ $# -eq 0 ] || shift
words=${WORDS:-10}
mkdir -p "$store"
python "$(dirname "$0")/make_words.py" "$store/words-$words.npz" "$words"
# Network, optimizer, batch, iterations and 100 stored examples per word as in the paper.
${PERDURE:-perdure} run "$store/words-$words.npz" replay --num-tasks $((words / 2)) --model speech-mlp \
  --optimizer adam --lr .0001 --batch-size 256 --iterations 200 --set memory=$((100 * words)) --set alpha=.5 \
  --no-per-example --store "$store" "$@"
