#!/bin/sh
# The search for the strengths of run.sh: the paper's grids (EWC's shifted, see README.md), three
# seeds, evaluated on whole test sets at task ends only. sh studies/stability_gap_methods/grid.sh [STORE]
set -eu
store=${1:-runs/stability_gap_methods_grid}
base="run --seeds 3 --every 1000000 --no-per-example --store $store"
each() {
  echo "$base $1 naive $2"
  for s in 1 10 100 1e3 1e4 1e5 1e6 1e7; do echo "$base $1 ewc $2 --set strength=$s"; done
  for s in .1 1 10 100 1000; do echo "$base $1 si $2 --set strength=$s"; done
  for s in .01 .1 1 10; do echo "$base $1 mas $2 --set strength=$s"; done
  for a in 1 2 5; do
    for t in .5 1 2; do echo "$base $1 lwf $2 --set alpha=$a --set temperature=$t"; done
  done
}
{
  each split-mnist "--setting task"
  for lr in .1 .01 .001; do each rotated-mnist-80 "--set lr=$lr"; done
} | xargs -P "${AT_ONCE:-1}" -I{} sh -c "${PERDURE:-perdure} {} > /dev/null || true"
