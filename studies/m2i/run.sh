#!/bin/sh
# Every run of README.md that is feasible on two processor cores: sh studies/m2i/run.sh [STORE]
# A narrow network (an eighth of the width), 16x16 images and three epochs: for comparing strategies
# with each other, not with the paper. Finished runs in STORE are not run again.
# On a GPU, as published: sh studies/m2i/run.sh STORE --device cuda
set -eu
store=${1:-runs/m2i}
narrow="--image-size 16 --epochs 3 --set width=.125 --set lr=.01"
[ "${2:-}" != --device ] || narrow="--device $3"
for setting in class domain task; do
  for scenario in m2i i2m; do
    for strategy in naive replay ewc si mas lwf cwr-star gdumb agem cumulative gem; do
      echo "run $scenario $strategy --setting $setting $([ $setting = class ] || echo --unseen) $narrow"
    done
  done
done | xargs -P "${AT_ONCE:-2}" -I{} sh -c \
  "${PERDURE:-perdure} {} --seeds 1 --every 1000000 --no-per-example --store $store > /dev/null || true"
# Failed runs are folders without done.json.
for folder in "$store"/*/; do [ -e "$folder/done.json" ] || echo "not finished: $folder"; done
