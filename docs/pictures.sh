#!/bin/sh
# Makes the pictures of docs/gallery.md: sh docs/pictures.sh FOLDER (trains 57 runs, no download; needs Chromium)
set -eu
runs=$1
docs=$(dirname "$0")
here=$docs/pictures
for strategy in naive replay gem ewc cumulative; do
	perdure run split-digits $strategy --seeds 5 --unseen --gradients 1 --store "$runs/five"
done
perdure run split-digits replay --seeds 3 --patience 2 --epochs 30 --every 1000 --store "$runs/stopping"
for memory in 10 30 100 300; do
	perdure run split-digits replay --seeds 5 --set memory=$memory --store "$runs/memory"
done
for strategy in naive replay gem; do
	perdure run split-digits $strategy --seeds 3 --store "$runs/pages"
done
draw() { perdure plot "$@" --dpi 75; }
draw averages "$runs/five" -o "$here/averages.png"
draw curves "$runs"/five/*-replay-* "$runs"/five/*-gem-* -o "$here/curves.png"
draw curves "$runs"/five/*-replay-* -o "$here/periods.png" --tasks 1 --subsample 1,10,100
draw curves "$runs"/five/*-replay-* "$runs"/five/*-gem-* -o "$here/zoom.png" --tasks 2 --zoom 40
draw gradients "$runs"/five/*-replay-* "$runs"/five/*-gem-* -o "$here/gradients.png" --zoom 40
draw forgetting "$runs"/five/*-replay-* "$runs"/five/*-gem-* -o "$here/forgetting.png"
draw series "$runs/memory" -o "$here/series.png" --tasks 2
draw panels "$runs"/five/*-replay-* -o "$here/panels.png"
draw heatmaps "$runs/five" -o "$here/heatmaps.png"
draw changes "$runs/five" -o "$here/changes.png"
draw classes "$runs/five" -o "$here/classes.png"
draw confusion "$runs"/five/*-naive-* "$runs"/five/*-replay-* -o "$here/confusion.png"
draw rescaled "$runs/five" -o "$here/rescaled.png"
draw guessing "$runs"/five/*-replay-* -o "$here/guessing.png"
draw spider "$runs/five" -o "$here/spider.png"
draw fixed "$runs/five" -o "$here/fixed.png"
draw ranks "$runs/five" -o "$here/ranks.png"
draw early-stopping "$runs/stopping" -o "$here/early-stopping.png"
python "$docs/animation.py" "$runs"/pages/*-gem-s1-* -o "$here/gap.svg"
python "$docs/animation.py" "$runs"/pages/*-gem-s1-* -o "$here/gap-still.svg" --still
python "$docs/screenshots.py" "$runs/pages" "$here"
# 64 colours are enough for lines, and keep the repository small; rare ones must be among them.
for picture in "$here"/*.png; do
	case $picture in */report*.png | */watch.png) continue ;; esac
	python -c 'import sys; from PIL import Image as I
few = I.open(sys.argv[1]).convert("RGB").quantize(64, I.Quantize.MAXCOVERAGE, 3, dither=I.Dither.NONE)
few.save(sys.argv[1], optimize=True)' "$picture"
done
