#!/bin/sh
# Every run behind README.md that two processor cores can do: sh studies/m2i/run.sh [STORE]
# A narrow net (an eighth of the width), images of 16x16, three epochs: to compare strategies with
# each other, not with the paper. What is finished in STORE is not run again.
# On a GPU, as published: sh studies/m2i/run.sh STORE --device cuda
set -eu
store=${1:-runs/m2i}
narrow="--image-size 16 --epochs 3 --set width=.125 --set lr=.01"
[ "${2:-}" != --device ] || narrow="--device $3"
for setting in class task; do
  for scenario in m2i i2m; do
    for strategy in naive replay ewc si mas lwf cwr-star gdumb agem cumulative gem; do
      echo "run $scenario $strategy --setting $setting $([ $setting = class ] || echo --unseen) $narrow"
    done
  done
done | xargs -P "${AT_ONCE:-2}" -I{} sh -c \
  "${PERDURE:-perdure} {} --seeds 1 --every 1000000 --no-per-example --store $store > /dev/null || true"
# What failed, if anything: a folder without done.json.
for folder in "$store"/*/; do [ -e "$folder/done.json" ] || echo "not finished: $folder"; done
