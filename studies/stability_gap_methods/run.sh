#!/bin/sh
# Every run of README.md: sh studies/stability_gap_methods/run.sh [STORE]
# Needs MNIST (perdure data fetch mnist). Finished runs in STORE are not run again.
set -eu
store=${1:-runs/stability_gap_methods}
base="${PERDURE:-perdure} run --seeds 5 --gradients 1 --store $store"
# Figures 4 and 10: GEM and replay, class-incremental.
$base split-mnist gem
$base split-mnist replay
# Figure 5 a-d: task-incremental, Adam, batch 128, 200 iterations per task.
for strategy in naive lwf ewc si mas; do
  $base split-mnist $strategy --setting task
done
# Figure 5 e-f: rotated digits, each with the best learning rate and strength of grid.sh.
$base rotated-mnist-80 naive
$base rotated-mnist-80 lwf
$base rotated-mnist-80 ewc
$base rotated-mnist-80 si --set lr=.01 --set strength=10
# Class-incremental: do regularisers stay near naive? Evaluated every 50 iterations.
for strategy in naive ewc si mas lwf cwr-star agem gdumb; do
  ${PERDURE:-perdure} run --seeds 5 --store $store --every 50 split-mnist $strategy
done
