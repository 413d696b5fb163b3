#!/bin/sh
# Every run behind README.md: sh studies/stability_gap_methods/run.sh [STORE]
# Needs MNIST (perdure data fetch mnist). What is finished in STORE is not run again.
set -eu
store=${1:-runs/stability_gap_methods}
base="${PERDURE:-perdure} run --seeds 5 --gradients 1 --store $store"
# Figures 4 and 10: GEM and replay, class-incremental.
$base split-mnist gem
$base split-mnist replay
# Figure 5 a-d: task-incremental, Adam, batch 128, 200 iterations a task.
for strategy in naive lwf ewc si mas; do
  $base split-mnist $strategy --setting task
done
# Figure 5 e-f: rotated digits, each with the learning rate and strength that grid.sh found best.
$base rotated-mnist-80 naive
$base rotated-mnist-80 lwf
$base rotated-mnist-80 ewc
$base rotated-mnist-80 si --set lr=.01 --set strength=10
# Class-incremental, all that keep something: do they stay near naive? Tested at every 50th step.
for strategy in naive ewc si mas lwf cwr-star agem gdumb; do
  ${PERDURE:-perdure} run --seeds 5 --store $store --every 50 split-mnist $strategy
done
