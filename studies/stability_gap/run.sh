#!/bin/sh
# Every run of the tables in README.md: sh studies/stability_gap/run.sh [STORE]
# Needs MNIST (perdure data fetch mnist). AT_ONCE=3 runs three commands in parallel, five
# seeds each. Finished runs in STORE are not run again.
set -eu
store=${1:-runs/stability_gap}
base="run --seeds 5 --store $store"
{
  # Tables 3 and 4: experience replay, subsets resampled at every evaluation as in the paper's code.
  echo "$base split-mnist replay --resample"
  echo "$base split-mnist replay --resample --subset 100"
  # The same with fixed subsets, and with whole test sets.
  echo "$base split-mnist replay"
  echo "$base split-mnist replay --subset 100"
  echo "$base split-mnist replay --subset all"
  # The memory as described in the paper's text: one reservoir per class, filled while streaming.
  echo "$base split-mnist replay --resample --set fill=reservoir"
  # Table 5: online. Table 6: fine-tuning. The paper prints no learning rates for them: see grid.sh.
  for lr in .01 .1; do
    echo "$base split-mnist replay --resample --online --set lr=$lr"
    echo "$base split-mnist naive --resample --set lr=$lr"
  done
  # Figure 7: memory sizes, the largest of which stores everything.
  for memory in 500 1000 60000; do
    echo "$base split-mnist replay --resample --set memory=$memory"
  done
  # Table 2: rotated digits. The paper prints neither epochs nor learning rate nor alpha: see grid.sh.
  for phi in 10 30 60 80; do
    for epochs in 1 10; do
      echo "$base rotated-mnist-$phi replay --resample --epochs $epochs"
      echo "$base rotated-mnist-$phi replay --resample --epochs $epochs --set lr=.01 --set alpha=.3"
    done
  done
} | xargs -P "${AT_ONCE:-1}" -I{} sh -c "${PERDURE:-perdure} {} > /dev/null"
