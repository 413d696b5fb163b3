#!/bin/sh
# The strengths and learning rates of grid.sh that do not diverge, one seed, and those that matter
# with five, evaluated after every update: at which of them do older tasks dip at switches, and
# recover? choices.py makes a table. sh studies/stability_gap_methods/choices.sh [STORE]
set -eu
store=${1:-runs/stability_gap_methods_choices}
base="run --no-per-example --jobs 1 --store $store"
lwf() {
  for a in 1 2 5; do
    for t in .5 1 2; do echo "$base $1 lwf $2 --set alpha=$a --set temperature=$t --seeds 1"; done
  done
}
{
  for s in 1 10 100 1e3 1e4 1e5; do
    echo "$base split-mnist ewc --setting task --set strength=$s --seeds 1"
  done
  lwf split-mnist "--setting task"
  for lr in .1 .01 .001; do lwf rotated-mnist-80 "--set lr=$lr"; done
  for lr in .1 .01 .001; do
    for s in 1 10 100; do echo "$base rotated-mnist-80 ewc --set lr=$lr --set strength=$s --seeds 1"; done
  done
  echo "$base rotated-mnist-80 ewc --set lr=.001 --set strength=1e3 --seeds 1"
  # Importances from whole batches, as in the paper's code.
  whole="--set implementation=avalanche-0.2.1"
  for s in 10 100 1e3 1e4 1e5 1e6 1e7; do
    for lr in .1 .01 .001; do
      echo "$base rotated-mnist-80 ewc $whole --set lr=$lr --set strength=$s --seeds 1"
    done
  done
  for s in 1e3 1e4 1e5; do
    for lr in .1 .01 .001; do
      echo "$base rotated-mnist-80 ewc $whole --set mode=online --set lr=$lr --set strength=$s --seeds 1"
    done
  done
  for s in 1e3 1e4 1e6 1e7; do
    echo "$base split-mnist ewc --setting task $whole --set strength=$s --seeds 1"
  done
  echo "$base split-mnist ewc --setting task $whole --set strength=1e5 --seeds 5"
  echo "$base split-mnist ewc --setting task $whole --set mode=online --set strength=1e5 --seeds 5"
  echo "$base rotated-mnist-80 si --set lr=.1 --set strength=.1 --seeds 1"
  for s in .1 1 10; do echo "$base rotated-mnist-80 si --set lr=.01 --set strength=$s --seeds 1"; done
  for s in .1 1 10 100 1000; do
    echo "$base rotated-mnist-80 si --set lr=.001 --set strength=$s --seeds 1"
  done
  echo "$base split-mnist ewc --setting task --set strength=1e3 --seeds 5"
  echo "$base rotated-mnist-80 lwf --set lr=.01 --set alpha=5 --set temperature=2 --seeds 5"
} | xargs -P "${AT_ONCE:-1}" -I{} sh -c "${PERDURE:-perdure} {} > /dev/null || true"
