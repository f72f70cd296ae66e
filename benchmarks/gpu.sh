#!/bin/sh
# Run all GPU benchmarks in less than eight minutes: benchmarks/gpu.sh [OUT]
# Kernel tests run first, while other processes fill the compiler's cache; nothing is timed during that.
set -u
here=$(dirname "$0")
out=${1:-$here/../build/bench}
python=${PYTHON:-python}
mkdir -p "$out"
export PYTHONPATH="$here/../src:$here/../tests:$here:${PYTHONPATH:-}" PYTHONUNBUFFERED=1

log() { echo; echo "== $(date +%T) $*"; }

log "whole training, without a compiler cache"
$python "$here/full.py" --out "$out" || exit 1
log "tests, and compiling for the batch sizes"
for batch in 128 512 8192; do
    $python "$here/training.py" --models drpn --batches $batch --seconds 0.1 --out "$out/compiling-$batch" \
        > "$out/compiling-$batch.log" 2>&1 &
done
for part in "denoising or weighted or segment or short" "scores_and or gathered or fixed or bf16" "captured or host"; do
    $python -m pytest -q -p no:cacheprovider -m gpu "$here/../tests/gpu" "$here/../tests/training/test_learning.py" \
        -k "$part" > "$out/compiling-tests-$(echo "$part" | cut -d" " -f1).log" 2>&1 &
done
wait
cat "$out"/compiling-tests-*.log > "$out/tests-cuda.log"
grep -E "^FAILED|^ERROR| passed| failed" "$out/tests-cuda.log"
rm -rf "$out"/compiling-*
log "hardware ceilings"
$python "$here/ceilings.py" --out "$out" || exit 1
log "training"
$python "$here/training.py" --seconds 4 --out "$out" || exit 1
log "evaluation"
$python "$here/evaluation.py" --seconds 3 --shapes mind --out "$out" || exit 1
log "parts of a step"
$python "$here/parts.py" --models drpn --out "$out" || exit 1
log "done"
