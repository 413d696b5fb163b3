#!/bin/sh
# Every run behind the tables in README.md: sh studies/stability_gap/run.sh [STORE]
# Needs MNIST (perdure data fetch mnist). AT_ONCE=3 runs three lines at a time, five seeds each.
# What is finished in STORE is not run again.
set -eu
store=${1:-runs/stability_gap}
base="run --seeds 5 --store $store"
{
  # Tables 3 and 4: experience replay, subsets redrawn at every test as the paper's code does.
  echo "$base split-mnist replay --resample"
  echo "$base split-mnist replay --resample --subset 100"
  # The same, subsets fixed; and whole test sets.
  echo "$base split-mnist replay"
  echo "$base split-mnist replay --subset 100"
  echo "$base split-mnist replay --subset all"
  # The memory as the paper's text has it: a reservoir for each class, filled while streaming.
  echo "$base split-mnist replay --resample --set fill=reservoir"
  # Table 5: online. Table 6: fine-tuning. The paper gives no learning rates for them: grid.sh.
  for lr in .01 .1; do
    echo "$base split-mnist replay --resample --online --set lr=$lr"
    echo "$base split-mnist naive --resample --set lr=$lr"
  done
  # Figure 7: memory sizes, the last one everything.
  for memory in 500 1000 60000; do
    echo "$base split-mnist replay --resample --set memory=$memory"
  done
  # Table 2: rotated digits. The paper gives neither epochs nor learning rate nor alpha: grid.sh.
  for phi in 10 30 60 80; do
    for epochs in 1 10; do
      echo "$base rotated-mnist-$phi replay --resample --epochs $epochs"
      echo "$base rotated-mnist-$phi replay --resample --epochs $epochs --set lr=.01 --set alpha=.3"
    done
  done
} | xargs -P "${AT_ONCE:-1}" -I{} sh -c "${PERDURE:-perdure} {} > /dev/null"
