#!/bin/sh
# The search for the learning rates and weights that the paper does not print: online replay,
# Rotated-MNIST and fine-tuning. sh studies/stability_gap/grid.sh [STORE]
set -eu
store=${1:-runs/stability_gap_grid}
base="run --seeds 3 --store $store --resample"
{
  for lr in .1 .01; do
    for alpha in .1 .3 .5 .7 .9; do
      echo "$base split-mnist replay --online --set lr=$lr --set alpha=$alpha"
      for phi in 10 80; do
        echo "$base rotated-mnist-$phi replay --epochs 1 --set lr=$lr --set alpha=$alpha"
      done
    done
  done
  for lr in .1 .01 .001 .0001; do
    echo "$base split-mnist naive --set lr=$lr"
  done
} | xargs -P "${AT_ONCE:-1}" -I{} sh -c "${PERDURE:-perdure} {} > /dev/null"
